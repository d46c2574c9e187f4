"""Pages of a group as the hub gives them, columns, into actions as a worker does them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import UNSET

from restante.model.actions.action_kind import ACTION_PROPERTY
from restante.model.columns.arrow import numbers_of, strings_of, words_of
from restante.model.columns.text_ids import shown_ids
from restante.model.groups.group_answers import FewPage, NextPage
from restante.model.groups.handed_row import HandedRow
from restante.model.work.actions import ActionPage, WorkAction

_SECOND = 1_000_000
_WANTED = ("published", "released")


def action_page(page: NextPage, hub_now: float) -> ActionPage:
    """The actions that a worker does of a page; other changes than publications and releases are none of its business."""
    return ActionPage(
        partition=page.partition,
        generation=page.generation,
        next=page.next,
        actions=tuple(_actions(page.table)) if page.table.num_rows else (),
        now=hub_now,
    )


def few_page(page: FewPage, hub_now: float) -> ActionPage:
    """A page of values as a page of actions."""
    return ActionPage(
        partition=page.partition,
        generation=page.generation,
        next=page.next,
        actions=tuple([_action(row) for row in page.changes if row.change in _WANTED]),
        now=hub_now,
    )


def _action(row: HandedRow) -> WorkAction:
    properties = {} if row.properties is UNSET else row.properties
    return WorkAction(
        number=row.sequence_number,
        id=row.id,
        concerns=row.recipient,
        name=properties.get(ACTION_PROPERTY),
        data=row.body,
        media_type=row.media_type,
        properties=properties,
        accepted_at=row.at.timestamp(),
        expires_at=None if row.expires_at is UNSET else row.expires_at.timestamp(),
        owner="group" if row.owner == "group" else "nobody",
        attempts=row.attempts,
        deaths=row.deaths,
    )


def _actions(table: pa.Table) -> Iterator[WorkAction]:
    rows = zip(
        numbers_of(_column(table, "sequence_number")).tolist(),
        _column(table, "change").to_pylist(),
        strings_of(shown_ids(words_of(_column(table, "id")), _column(table, "text_id"))),
        _column(table, "recipient").to_pylist(),
        _column(table, "data").to_pylist(),
        _column(table, "media_type").to_pylist(),
        _column(table, "properties").to_pylist(),
        _seconds(table, "at"),
        _seconds(table, "expires_at"),
        _told(table, "owner", None),
        _told(table, "attempts", 0),
        _told(table, "deaths", 0),
        strict=True,
    )
    for number, change, action_id, concerns, data, media_type, entries, at, expires_at, owner, attempts, deaths in rows:
        if change in _WANTED:
            properties = dict(entries or ())
            yield WorkAction(
                number=number,
                id=action_id,
                concerns=concerns,
                name=properties.get(ACTION_PROPERTY),
                data=b"" if data is None else data,
                media_type=media_type or "application/json",
                properties=properties,
                accepted_at=at or 0.0,
                expires_at=expires_at,
                owner=owner,
                attempts=attempts or 0,
                deaths=deaths or 0,
            )


def _told(table: pa.Table, name: str, otherwise: Any) -> list[Any]:  # noqa: ANN401 - of the column's type
    """A column of facts that the hub adds to the feed's columns of actions."""
    return _column(table, name).to_pylist() if name in table.column_names else [otherwise] * table.num_rows


def _seconds(table: pa.Table, name: str) -> list[float | None]:
    """Times of a column in seconds since 1970."""
    return [None if time is None else time / _SECOND for time in _column(table, name).view(pa.int64()).to_pylist()]


def _column(table: pa.Table, name: str) -> Any:  # noqa: ANN401 - an array of any type
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
