"""The next pages of a member of a group, as they are sent: pages of several partitions in one answer.

As JSON each page has its changes. As Arrow the changes of all pages follow one another in one stream, and the schema's
metadata says under `restante-next`, as JSON, what each page is and how many rows of the stream are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
import pyarrow as pa

from restante.decoders import json_decoder
from restante.limits import ANSWER_BYTES_MAX
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.groups.group_answers import NextAnswer, NextPage
from restante.wire.outgoing.outgoing import arrow_size
from restante.wire.outgoing.outgoing_feed import change_bytes, change_rows
from restante.wire.outgoing.page_bounds import page_within

METADATA_KEY = b"restante-next"


class PageHead(msgspec.Struct, frozen=True, kw_only=True):
    """A page without its changes."""

    partition: int
    generation: int
    next: int
    end: int
    rows: int
    """How many rows of the stream are its own."""


class PageHeads(msgspec.Struct, frozen=True, kw_only=True):
    pages: tuple[PageHead, ...]
    now: datetime


_heads_decoder = json_decoder(PageHeads)


def next_json(answer: NextAnswer) -> Iterator[bytes]:
    yield b'{"pages":['
    for place, page in enumerate(answer.pages):
        start = "," if place else ""
        head = f'"partition":{page.partition},"generation":{page.generation},"next":{page.next},"end":{page.end}'
        yield f'{start}{{{head},"changes":['.encode()
        yield from change_rows(page.table)
        yield b"]}"
    yield b'],"now":' + msgspec.json.encode(answer.now) + b"}"


def next_table(answer: NextAnswer) -> pa.Table:
    """All changes, with what they belong to in the metadata."""
    heads = PageHeads(pages=tuple(_head(page) for page in answer.pages), now=answer.now)
    tables = [page.table for page in answer.pages] or [FEED_SCHEMA.empty_table()]
    whole = pa.concat_tables(tables).unify_dictionaries() if len(tables) > 1 else tables[0]
    return whole.replace_schema_metadata({METADATA_KEY: msgspec.json.encode(heads)})


def _head(page: NextPage) -> PageHead:
    return PageHead(
        partition=page.partition, generation=page.generation, next=page.next, end=page.end, rows=page.table.num_rows
    )


def next_of_table(table: pa.Table) -> NextAnswer:
    """The pages that `next_table` was made of; `ValueError` if it is something else."""
    heads = _heads_decoder.decode((table.schema.metadata or {}).get(METADATA_KEY, b""))
    if sum(head.rows for head in heads.pages) != table.num_rows:
        raise ValueError("its pages have not the rows that it has")
    plain, start, pages = table.replace_schema_metadata(None), 0, []
    for head in heads.pages:
        rows = plain.slice(start, head.rows)
        start += head.rows
        pages.append(
            NextPage(partition=head.partition, generation=head.generation, next=head.next, end=head.end, table=rows)
        )
    return NextAnswer(pages=tuple(pages), now=heads.now)


def next_within(answer: NextAnswer, *, as_json: bool, most: int = ANSWER_BYTES_MAX) -> NextAnswer:
    """The pages that an answer has room for: at least a part of the first."""
    fitting: list[NextPage] = []
    left = most
    for page in answer.pages:
        cut = _cut(page, as_json=as_json, most=most)
        left -= _size(cut.table, as_json=as_json)
        if fitting and left < 0:
            break
        fitting.append(cut)
        if cut is not page:
            break
    return msgspec.structs.replace(answer, pages=tuple(fitting))


def _cut(page: NextPage, *, as_json: bool, most: int) -> NextPage:
    table = page_within(page.table, change_bytes if as_json else None, whole_changes=True, most=most)
    if table.num_rows == page.table.num_rows:
        return page
    return msgspec.structs.replace(page, table=table, next=int(table["sequence_number"][-1].as_py()))


def _size(table: pa.Table, *, as_json: bool) -> int:
    if not table.num_rows:
        return 0
    return int(change_bytes(table).sum()) if as_json else arrow_size(table)


def total_bytes(pages: Sequence[NextPage]) -> int:
    return sum(page.table.nbytes for page in pages)
