"""Reading the feed and snapshots to the end, and making of them what history says."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.client.surface.surface import Hub
from restante.hub.door.hub import OpenHub as Inside
from restante.model.feed.feed_answers import EVERYTHING, FeedWish
from restante.model.publishing.message import State
from tests.crash.seen import history_of, inside

Row = dict[str, Any]

_STATE_AFTER = {
    "collected": State.COLLECTED,
    "expired": State.EXPIRED,
    "withdrawn": State.WITHDRAWN,
    "set_aside": State.SET_ASIDE,
    "released": State.WAITING,
}


class Letter(NamedTuple):
    """What a reader knows of a message."""

    recipient: str
    number: int
    id: str
    data: bytes
    kind: str
    properties: tuple[tuple[str, str], ...]
    state: State


def changes(
    hub: Hub, partition: int = 0, *, after: int | None = None, wish: FeedWish = EVERYTHING, limit: int | None = None
) -> list[Row]:
    """All rows of the feed beyond a position, page after page, without their nulls."""
    rows: list[Row] = []
    link = inside(hub)
    while True:
        answer = link.call(ReadFeed(partition, after=after, wish=wish, limit=limit))
        rows += [{k: v for k, v in row.items() if v is not None} for row in answer.table.to_pylist()]
        if answer.next == after or answer.next >= answer.end:
            return rows
        after = answer.next


def told(rows: list[Row]) -> list[tuple[int, str, int | None]]:
    """Of each row its number, what happened, and to which message."""
    return [(row["sequence_number"], row["change"], row.get("message_sequence_number")) for row in rows]


def snapshot(
    hub: Hub,
    partition: int = 0,
    *,
    position: int | None = None,
    wish: FeedWish = EVERYTHING,
    limit: int | None = None,
) -> tuple[list[Row], int]:
    """All rows of a snapshot, and its position."""
    link: Inside = inside(hub)
    rows: list[Row] = []
    after: str | None = None
    while True:
        page = link.call(ReadSnapshot(partition, after=after, position=position, wish=wish, limit=limit))
        rows += page.table.to_pylist()
        if page.next is None:
            return rows, page.position
        after = page.next


class Replay:
    """What a reader makes of what it is told."""

    def __init__(self) -> None:
        self.letters: dict[int, Letter] = {}

    def load(self, rows: list[Row]) -> None:
        """Begin with a snapshot."""
        for row in rows:
            self.letters[row["sequence_number"]] = _letter(row, row["sequence_number"], State(row["state"]))

    def follow(self, rows: list[Row]) -> None:
        for row in rows:
            self._heed(row)

    def _heed(self, row: Row) -> None:
        change, number, old = row["change"], row["sequence_number"], row.get("message_sequence_number", 0)
        if change == "published":
            assert number not in self.letters
            self.letters[number] = _letter(row, number, State.WAITING)
        elif change == "erased":
            self.letters = {n: own for n, own in self.letters.items() if own.recipient != row["recipient"]}
        elif change == "released" and "data" in row:
            assert self.letters.pop(old).id == str(UUID(bytes=row["id"]))
            self.letters[number] = _letter(row, number, State.WAITING)
        elif change != "batch_completed":
            letter = self.letters[old]
            assert (letter.recipient, letter.kind) == (row["recipient"], row["kind"])
            assert letter.id == str(UUID(bytes=row["id"]))
            self.letters[old] = letter._replace(state=_STATE_AFTER[change])

    def of(self, recipient: str) -> list[Letter]:
        return [letter for _, letter in sorted(self.letters.items()) if letter.recipient == recipient]


def _letter(row: Row, number: int, state: State) -> Letter:
    properties = tuple(sorted(row.get("properties") or ()))
    return Letter(row["recipient"], number, str(UUID(bytes=row["id"])), row["data"], row["kind"], properties, state)


def kept(hub: Hub, recipient: str) -> list[Letter]:
    """The same from history."""
    return [
        Letter(
            recipient,
            message.sequence_number or 0,
            message.id or "",
            message.data,
            message.kind,
            tuple(sorted(message.properties.items())),
            message.state or State.WAITING,
        )
        for message in history_of(hub, recipient)
    ]
