"""The sum of `examples/catalog`: it must find what is lost, overtaken or different, and nothing else."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from examples.catalog import records
from examples.catalog.database import Database
from examples.catalog.reckoning import Filed, Ledger, reckoned
from examples.catalog.shapes import (
    AddComment,
    AddRating,
    CatalogItem,
    DeleteObject,
    ItemComment,
    ItemRating,
    encode,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A database with items, and a ledger of what was done to them."""

    def __init__(self, path: Path, database: Database) -> None:
        self.path, self.database, self.ledger = path, database, Ledger()

    def write(self, item: str, *, comments: tuple[str, ...] = (), gone: bool = False) -> None:
        async def write() -> None:
            async with self.database.writing() as connection:
                made = CatalogItem(id=item, name=item, description="", price=Decimal(1), last_updated=NOW)
                if not gone:
                    records.put_item(connection, made, expires_at=None)
                for number, one in enumerate(comments):
                    records.put_comment(connection, comment(item, one), number=number, expires_at=None)

        asyncio.run(write())

    def file(self, name: str, item: str, body: object, ended: str | None = "collected") -> str:
        """One more action; its id."""
        place = (0, len(self.ledger.filed) + 1)
        self.ledger.filed[place] = Filed(str(uuid.uuid4()), name, item, encode(body))
        if ended is not None:
            self.ledger.ended[place] = ended
        if ended == "collected":
            self.note(item, self.ledger.filed[place].id, place[1])
        return self.ledger.filed[place].id

    def note(self, item: str, action_id: str, number: int) -> None:
        """The row of `job.once`."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(
                "INSERT INTO restante_once (group_name, concerns, id, number) VALUES ('catalog', ?, ?, ?)",
                (item, action_id, number),
            )

    def forget(self, number: int) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("DELETE FROM restante_once WHERE number = ?", (number,))

    def comment(self, item: str, own_id: str, ended: str | None = "collected") -> str:
        return self.file("add_comment", item, AddComment(comment=comment(item, own_id)), ended)

    def delete(self, item: str, what: str, own_id: str) -> str:
        return self.file("delete_object", item, DeleteObject(object_type=what, object_id=own_id))

    def wrong(self, *accepted: str) -> list[str]:
        return reckoned(self.ledger, accepted, self.path).wrong


def comment(item: str, own_id: str) -> ItemComment:
    return ItemComment(id=own_id, catalog_item_id=item, author_name="ada", text="good", creation_date=NOW)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with closing(Database(tmp_path / "catalog.db")) as database:
        yield World(tmp_path / "catalog.db", database)


def test_a_database_that_is_as_its_actions_made_it_is_right(world: World) -> None:
    world.write("lamp", comments=("one",))
    world.write("candle", gone=True)
    kept = world.comment("lamp", "one")
    world.comment("lamp", "two")
    world.delete("lamp", "comment", "two")
    world.comment("candle", "three")
    world.delete("candle", "item", "candle")
    world.comment("candle", "four")  # too late
    world.comment("lamp", "five", ended="set_aside")
    rating = ItemRating(id="six", catalog_item_id="candle", rating=5, creation_date=NOW)
    world.file("add_rating", "candle", AddRating(rating=rating))
    world.file("an_action_of_others", "lamp", {})
    total = reckoned(world.ledger, [kept], world.path)
    assert (total.accepted, total.done, total.poisoned, total.wrong) == (9, 8, 1, [])


def test_what_was_accepted_and_is_not_in_the_hub_is_found(world: World) -> None:
    assert "are not in the hub" in world.wrong("lost")[0]


def test_what_waits_is_found(world: World) -> None:
    world.write("lamp")
    waiting = world.comment("lamp", "one", ended=None)
    (wrong,) = world.wrong(waiting)
    assert waiting in wrong


def test_what_ended_in_another_way_is_found(world: World) -> None:
    world.write("lamp")
    expired = world.comment("lamp", "one", ended="expired")
    (wrong,) = world.wrong(expired)
    assert f"{expired} (expired)" in wrong


def test_what_overtook_another_of_its_item_is_found(world: World) -> None:
    world.write("lamp", comments=("one", "two"))
    world.write("candle", comments=("three",))
    ids = [world.comment("lamp", "one"), world.comment("candle", "three"), world.comment("lamp", "two")]
    assert world.wrong(*ids) == []
    world.ledger.ended = {(0, 2): "collected", (0, 3): "collected", (0, 1): "collected"}
    (wrong,) = world.wrong(*ids)
    assert "earlier" in wrong
    assert ids[0] in wrong


@pytest.mark.parametrize("held", [(), ("one", "two")], ids=["too little", "too much"])
def test_an_item_that_differs_is_found(world: World, held: tuple[str, ...]) -> None:
    world.write("lamp", comments=held)
    world.comment("lamp", "one")
    (wrong,) = world.wrong()
    assert "lamp" in wrong


def test_an_item_that_should_be_gone_is_found(world: World) -> None:
    world.write("lamp")
    world.delete("lamp", "item", "lamp")
    (wrong,) = world.wrong()
    assert "lamp" in wrong


def test_what_is_done_without_its_transaction_or_done_out_of_order_in_the_database_is_found(world: World) -> None:
    world.write("lamp", comments=("one", "two"))
    ids = [world.comment("lamp", "one"), world.comment("lamp", "two")]
    world.forget(1)
    (wrong,) = world.wrong(*ids)
    assert ids[0] in wrong
    world.note("lamp", ids[0], 1)
    (wrong,) = world.wrong(*ids)
    assert "not in their order" in wrong
    world.forget(2)
    world.note("lamp", ids[1], 2)
    assert world.wrong(*ids) == []


def test_a_transaction_of_an_action_that_is_not_done_is_found(world: World) -> None:
    world.write("lamp")
    world.comment("lamp", "one", ended="set_aside")
    world.note("lamp", "another", 7)
    (wrong,) = world.wrong()
    assert "another" in wrong
