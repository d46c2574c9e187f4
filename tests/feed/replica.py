"""Who reads along: mailboxes rebuilt of nothing but a snapshot and the changes of the feed.

A change is a plain dictionary, as a row of the feed gives it. What retention forgets is no change: a replica that is held
against a hub may have more, if that was settled before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from restante.client.surface import surface
from restante.model.publishing.message import Message, State

Row = dict[str, Any]
CARRIED = (
    *("id", "recipient", "origin", "kind", "document_type", "weight", "bundleable", "data"),
    *("media_type", "properties", "expires_at"),
)
"""The columns that a message has in the feed, in a snapshot and in history alike."""
SETTLED = {
    "collected": State.COLLECTED,
    "expired": State.EXPIRED,
    "withdrawn": State.WITHDRAWN,
    "set_aside": State.SET_ASIDE,
}


def rows_of(table: pa.Table) -> list[Row]:
    """Plain rows; a map as a dictionary, none as an empty one."""
    rows = table.to_pylist()
    for row in rows:
        if "properties" in row:
            row["properties"] = dict(row["properties"] or ())
    return rows


@dataclass
class Copy:
    """A message as the replica knows it."""

    carried: Row
    published_at: datetime
    state: State = State.WAITING
    collected_at: datetime | None = None
    settled_at: datetime | None = None
    """None: it waits, or lies aside, or it was settled before the snapshot, which does not say when."""

    @property
    def settled(self) -> bool:
        return self.state not in (State.WAITING, State.SET_ASIDE)

    def seen(self, number: int) -> tuple[object, ...]:
        shown = tuple(_plain(self.carried[name]) for name in CARRIED)
        return (number, self.published_at, self.collected_at, self.state.value, shown)


@dataclass
class Replica:
    """One partition's messages by their numbers."""

    position: int = 0
    copies: dict[int, Copy] = field(default_factory=dict)
    completed: list[tuple[bytes, str]] = field(default_factory=list)

    @classmethod
    def of_snapshot(cls, rows: Iterable[Row], position: int) -> Replica:
        replica = cls(position)
        for row in rows:
            number = row["sequence_number"]
            assert number not in replica.copies, "a message is in a snapshot once"
            assert number <= position, "a snapshot has nothing that came after its position"
            copy = Copy({name: row[name] for name in CARRIED}, row["published_at"], State(row["state"]))
            copy.collected_at = copy.settled_at = row["collected_at"]
            replica.copies[number] = copy
        return replica

    def apply(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._apply(row)

    def _apply(self, row: Row) -> None:
        number, change, about = row["sequence_number"], row["change"], row["message_sequence_number"]
        assert number >= self.position, "changes come in order"
        self.position = number
        match change:
            case "published":
                assert about == number not in self.copies
                self.copies[number] = Copy({name: row[name] for name in CARRIED}, row["at"])
            case "released":
                self._release(row, number, about)
            case "erased":
                for each, copy in list(self.copies.items()):
                    if copy.carried["recipient"] == row["recipient"] and each <= about:
                        del self.copies[each]
            case "batch_completed":
                self.completed.append((row["batch"], row["key"]))
            case _:
                copy = self._known(row, about)
                assert copy.state is State.WAITING or (copy.state is State.SET_ASIDE and change == "withdrawn")
                copy.state, copy.settled_at = SETTLED[change], row["at"]
                copy.collected_at = row["at"] if change == "collected" else None

    def _known(self, row: Row, about: int) -> Copy:
        copy = self.copies[about]
        names = ("id", "recipient", "origin", "kind")
        assert [row[name] for name in names] == [copy.carried[name] for name in names]
        return copy

    def _release(self, row: Row, number: int, about: int) -> None:
        """Back in its place, or, if the change carries the message, under the number of the change."""
        copy = self._known(row, about)
        assert copy.state is State.SET_ASIDE
        if row["weight"] is not None:
            del self.copies[about]
            assert {name: row[name] for name in CARRIED} == copy.carried
            copy = self.copies[number] = Copy(copy.carried, copy.published_at)
        copy.state, copy.settled_at = State.WAITING, None

    def history(self, recipient: str) -> list[tuple[int, Copy]]:
        own = ((number, copy) for number, copy in self.copies.items() if copy.carried["recipient"] == recipient)
        return sorted(own, key=lambda one: one[0])

    def waiting(self, recipient: str) -> set[surface.Waiting]:
        cabinets: dict[tuple[str, str], list[datetime]] = {}
        for _, copy in self.history(recipient):
            if copy.state is State.WAITING:
                cabinet = (copy.carried["origin"], copy.carried["kind"])
                cabinets.setdefault(cabinet, []).append(copy.published_at)
        return {
            surface.Waiting(origin=origin, kind=kind, messages=len(times), oldest=min(times))
            for (origin, kind), times in cabinets.items()
        }


def check_against(replica: Replica, shown: list[Row], recipient: str, *, kept_since: datetime) -> None:
    """History shows the same; but for what was settled before `kept_since`, which may have been forgotten."""
    numbers = {row["sequence_number"] for row in shown}
    expected = []
    for number, copy in replica.history(recipient):
        forgotten = copy.settled and (copy.settled_at is None or copy.settled_at < kept_since)
        if number in numbers or not forgotten:
            expected.append(copy.seen(number))
    assert [row_seen(row) for row in shown] == expected


def row_seen(row: Row) -> tuple[object, ...]:
    """A row of history, or of a snapshot."""
    carried = tuple(_plain(row[name]) for name in CARRIED)
    return (row["sequence_number"], row["published_at"], row["collected_at"], row["state"], carried)


def _plain(value: object) -> object:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def message_ids(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        assert message.id is not None
        yield message.id
