"""Was everything done that was accepted, in order, and nothing else? The hub's feed and the database are asked.

The feed has each action that was accepted, with its number and its body, and later what became of it. All actions of an
item, played in the order of their numbers, say what the database has to hold.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from examples.catalog.shapes import AddComment, AddRating, DeleteObject, decode
from restante.client.surface.surface import Hub

LOOK_SECONDS = 0.2
_COLUMNS = ("message_sequence_number", "id", "recipient", "data", "properties")
_DONE, _POISONED = "collected", "set_aside"
_SHOWN_MAX = 5

Place = tuple[int, int]
"""A partition, and a number in it."""


class Filed(NamedTuple):
    """An action as the hub filed it."""

    id: str
    name: str
    item_id: str
    body: bytes


@dataclass(slots=True)
class Ledger:
    """The actions as the feed has told of them so far."""

    filed: dict[Place, Filed] = field(default_factory=dict)
    ended: dict[Place, str] = field(default_factory=dict)
    """How each action ended, in the order in which they did."""
    _positions: dict[int, int] = field(default_factory=dict)

    def read(self, hub: Hub) -> None:
        """Read on to the end of the feed."""
        with hub.feed(after=self._positions, kinds=["action"], columns=_COLUMNS) as feed:
            for page in feed:
                for row in page.table.to_pylist():
                    self._take(page.partition, row)
            self._positions = dict(feed.positions)

    def _take(self, partition: int, row: dict[str, Any]) -> None:
        place = (partition, row["message_sequence_number"])
        if row["change"] == "published":
            name = dict(row["properties"] or {}).get("action", "")
            self.filed[place] = Filed(str(UUID(bytes=row["id"])), name, row["recipient"], row["data"])
        else:
            self.ended[place] = row["change"]

    @property
    def waiting(self) -> int:
        return len(self.filed.keys() - self.ended.keys())

    def count(self, change: str) -> int:
        return sum(one == change for one in self.ended.values())


@dataclass(slots=True)
class Reckoning:
    """The sum: `accepted` = `done` + `poisoned`, and nothing is wrong."""

    accepted: int
    done: int
    poisoned: int
    wrong: list[str]


def settled(hub: Hub, *, seconds: float) -> Ledger:
    """The ledger when nothing waits any more, or so many seconds later."""
    ledger, until = Ledger(), time.monotonic() + seconds
    ledger.read(hub)
    while ledger.waiting and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        ledger.read(hub)
    return ledger


def reckoned(ledger: Ledger, accepted: Collection[str], database: Path) -> Reckoning:
    """`accepted` are the ids that the API gave to its callers."""
    wrong = [
        *_told("were accepted and are not in the hub", set(accepted) - {one.id for one in ledger.filed.values()}),
        *_told("wait", (ledger.filed[place].id for place in ledger.filed.keys() - ledger.ended.keys())),
        *_told("ended neither done nor as poison", _otherwise(ledger)),
        *_told("ended before one that was accepted earlier", _overtaking(ledger)),
        *_told("items are not as their actions made them", _differing(ledger, database)),
        *_told("were not done once in the database, or not in their order", _misdone(ledger, database)),
    ]
    return Reckoning(len(ledger.filed), ledger.count(_DONE), ledger.count(_POISONED), wrong)


def _told(what: str, found: Iterable[str]) -> Iterator[str]:
    every = list(found)
    if every:
        yield f"{len(every):,} {what}, such as {', '.join(every[:_SHOWN_MAX])}"


def _otherwise(ledger: Ledger) -> Iterator[str]:
    """Actions that expired, or were withdrawn: here nobody does that."""
    for place, change in ledger.ended.items():
        if change not in (_DONE, _POISONED):
            yield f"{ledger.filed[place].id} ({change})"


def _overtaking(ledger: Ledger) -> Iterator[str]:
    """Actions that ended before an earlier one of their item."""
    last: dict[str, int] = {}
    for place in ledger.ended:
        action = ledger.filed[place]
        if last.setdefault(action.item_id, 0) > place[1]:
            yield action.id
        last[action.item_id] = max(last[action.item_id], place[1])


@dataclass(slots=True)
class Held:
    """An item as the database holds it."""

    is_gone: bool = False
    comments: set[str] = field(default_factory=set)
    ratings: set[str] = field(default_factory=set)


def _differing(ledger: Ledger, database: Path) -> Iterator[str]:
    wanted = played(ledger.filed[place] for place in sorted(ledger.filed) if ledger.ended.get(place) == _DONE)
    with closing(sqlite3.connect(database)) as connection:
        yield from (item_id for item_id, held in wanted.items() if _held(connection, item_id) != held)


def _misdone(ledger: Ledger, database: Path) -> Iterator[str]:
    """Each action that is done left a row of `job.once` in its transaction: one each, and those of an item in order."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT concerns, id, number FROM restante_once ORDER BY rowid").fetchall()
    done = {ledger.filed[place].id for place, change in ledger.ended.items() if change == _DONE}
    yield from done ^ {row[1] for row in rows}
    last: dict[str, int] = {}
    for item_id, action_id, number in rows:
        if last.get(item_id, 0) >= number:
            yield action_id
        last[item_id] = number


def played(actions: Iterable[Filed]) -> dict[str, Held]:
    """The items that actions leave, if they are done in this order."""
    items: dict[str, Held] = {}
    for action in actions:
        _play(items.setdefault(action.item_id, Held()), action)
    return items


def _play(item: Held, action: Filed) -> None:
    match action.name:
        case "add_comment" if not item.is_gone:
            item.comments.add(decode(action.body, AddComment).comment.id)
        case "add_rating" if not item.is_gone:
            item.ratings.add(decode(action.body, AddRating).rating.id)
        case "delete_object":
            _play_deletion(item, decode(action.body, DeleteObject))
        case _:
            pass


def _play_deletion(item: Held, deletion: DeleteObject) -> None:
    match deletion.object_type:
        case "item":
            item.is_gone, item.comments, item.ratings = True, set(), set()
        case "comment":
            item.comments.discard(deletion.object_id)
        case "rating":
            item.ratings.discard(deletion.object_id)
        case _:
            pass


def _held(connection: sqlite3.Connection, item_id: str) -> Held:
    def ids(query: str) -> set[str]:
        return {row[0] for row in connection.execute(query, (item_id,))}

    return Held(
        is_gone=not ids("SELECT id FROM items WHERE id = ?"),
        comments=ids("SELECT id FROM comments WHERE item_id = ?"),
        ratings=ids("SELECT id FROM ratings WHERE item_id = ?"),
    )
