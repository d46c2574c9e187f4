"""Where pages end: the bytes as they are sent, in either form, and never within a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from restante.limits import KIB
from restante.model.columns.arrow import column_of, strings_of
from restante.model.publishing.message import Message
from restante.wire.outgoing.outgoing import arrow_bytes, message_bytes, page_json
from restante.wire.outgoing.outgoing_feed import change_bytes, changes_json
from restante.wire.outgoing.page_bounds import page_within
from tests.wire.tables import table_of

MOST = 64 * KIB


def mailbox(count: int = 300) -> pa.Table:
    """Messages of all kinds: bytes, JSON, text to be escaped, long names, properties."""
    kinds: list[dict[str, object]] = [
        {"data": bytes(range(256)) * 3},
        {"data": {"text": "é" * 300}},
        {"data": b'"\\\x01' * 200, "media_type": "text/plain"},
        {"data": b"", "properties": {"a": "\x01" * 200}},
    ]
    messages = [
        Message(recipient=f"{number} " + "r" * 200, **kinds[number % 4])  # type: ignore[arg-type]
        for number in range(count)
    ]
    return table_of(*messages)


def pages(table: pa.Table, *, as_json: bool, backwards: bool = False) -> Iterator[pa.Table]:
    """All pages of a table, one after the other, as a reader gets them."""
    while table.num_rows:
        page = page_within(table, message_bytes if as_json else None, backwards=backwards, most=MOST)
        yield page
        left = table.num_rows - page.num_rows
        table = table.slice(0, left) if backwards else table.slice(page.num_rows)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
def test_pages_end_at_the_bound_and_lose_nothing(as_json: bool, backwards: bool) -> None:
    table = mailbox()
    found = list(pages(table, as_json=as_json, backwards=backwards))
    sizes = [len(b"".join(page_json(page, 5))) if as_json else len(arrow_bytes(page)) for page in found]
    assert max(sizes) <= MOST
    assert min(sizes[:-1]) > MOST // 2
    joined = pa.concat_tables(found[::-1] if backwards else found).unify_dictionaries()
    assert joined.combine_chunks().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_message_that_does_not_fit_comes_alone(as_json: bool) -> None:
    table = table_of(*(Message(recipient="ada", data=bytes(2 * MOST)) for _ in range(3)))
    assert [page.num_rows for page in pages(table, as_json=as_json)] == [1, 1, 1]


def test_what_fits_is_not_touched() -> None:
    table = mailbox(10)
    for row_bytes in (None, message_bytes):
        assert page_within(table, row_bytes) is table


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_never_ends_within_a_change(as_json: bool) -> None:
    lengths = [1, 400, 1, 1, 2_000, 3, 1]
    numbers = np.repeat(np.arange(1, 1 + len(lengths)), lengths)
    recipients = pa.array([f"{row} " + "r" * 90 for row in range(len(numbers))]).dictionary_encode()
    changes = pa.array(["collected"] * len(numbers)).dictionary_encode()
    left = pa.table({"sequence_number": column_of(numbers), "change": changes, "recipient": recipients})
    found: list[list[Any]] = []
    while left.num_rows:
        page = page_within(left, change_bytes if as_json else None, whole_changes=True, most=MOST)
        found.append(page["sequence_number"].to_pylist())
        listed = json.loads(b"".join(changes_json(page)))["changes"]
        assert [row["recipient"] for row in listed] == strings_of(page["recipient"])
        left = left.slice(page.num_rows)
    assert [number for page in found for number in page] == numbers.tolist()
    assert all(page[-1] != following[0] for page, following in pairwise(found))
    assert [5] * 2_000 in found, "larger than the bound, and yet whole"
