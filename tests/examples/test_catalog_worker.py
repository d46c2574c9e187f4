"""The handlers of `examples/catalog`, and its database: done twice is done once, and many writes share a commit."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from examples.catalog import records, worker
from examples.catalog.database import Database, DatabaseThrottled, DatabaseUnavailable
from examples.catalog.shapes import AddComment, AddRating, CatalogItem, DeleteObject, ItemComment, ItemRating
from examples.catalog.worker import add_comment, add_rating, app, delete_object
from restante.work import ActionRequest
from restante.work.testing import run

ITEM = str(uuid.uuid4())
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LAMP = CatalogItem(id=ITEM, name="a lamp", description="It shines.", price=Decimal("12.50"), last_updated=NOW)


def comment(text: str = "good", *, own_id: str | None = None) -> ActionRequest:
    said = ItemComment(
        id=own_id or str(uuid.uuid4()), catalog_item_id=ITEM, author_name="ada", text=text, creation_date=NOW
    )
    return add_comment.request(concerns=ITEM, data=AddComment(comment=said))


def rating(stars: int, *, own_id: str | None = None) -> ActionRequest:
    given = ItemRating(id=own_id or str(uuid.uuid4()), catalog_item_id=ITEM, rating=stars, creation_date=NOW)
    return add_rating.request(concerns=ITEM, data=AddRating(rating=given))


def deletion(what: str, object_id: str = ITEM) -> ActionRequest:
    return delete_object.request(concerns=ITEM, data=DeleteObject(object_type=what, object_id=object_id))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database with one item, which is also that of the workers."""
    path = tmp_path / "catalog.db"
    monkeypatch.setenv(worker.DATABASE_VARIABLE, str(path))
    with closing(Database(path)) as opened:
        asyncio.run(put(opened, LAMP))
        yield opened


async def put(database: Database, item: CatalogItem) -> None:
    async with database.writing() as connection:
        records.put_item(connection, item, expires_at=None)


def test_what_is_created_twice_is_one(database: Database) -> None:
    first, second = comment(own_id=str(uuid.uuid4())), rating(4, own_id=str(uuid.uuid4()))
    assert run(app, [first, first, second, second]).states == ["done"] * 4
    assert len(records.newest_comments(database, ITEM)) == 1
    assert records.rating_summary(database, ITEM).number_of_votes == 1


@pytest.mark.parametrize("what", ["item", "comment", "rating"])
def test_what_is_deleted_twice_is_gone(database: Database, what: str) -> None:
    object_id = ITEM if what == "item" else str(uuid.uuid4())
    made = [comment(own_id=object_id), rating(5, own_id=object_id)]
    assert run(app, [*made, deletion(what, object_id), deletion(what, object_id)]).states == ["done"] * 4
    assert records.has_item(database, ITEM) is (what != "item")
    assert len(records.newest_comments(database, ITEM)) == (what == "rating")
    assert records.rating_summary(database, ITEM).number_of_votes == (what == "comment")


def test_an_unknown_type_to_delete_is_a_warning(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    assert run(app, [deletion("planet")]).states == ["done"]
    assert [record.levelno for record in caplog.records if record.name == "catalog.worker"] == [logging.WARNING]
    assert "planet" in caplog.text


def test_a_body_that_does_not_fit_is_poison_and_the_next_one_is_done(database: Database) -> None:
    spoilt = msgspec.structs.replace(comment(), data=msgspec.Raw(b'{"comment": {"text": 7}}'))
    assert run(app, [spoilt, comment()]).states == ["poisoned", "done"]


def test_a_database_that_is_not_there_for_a_while_makes_an_action_wait(database: Database) -> None:
    attempts: list[int] = []
    with pytest.MonkeyPatch.context() as patch:

        def put_rating(connection: sqlite3.Connection, given: ItemRating, *, expires_at: float | None) -> None:
            attempts.append(given.rating)
            if len(attempts) == 1:
                connection.execute("SELECT * FROM ratings_of_tomorrow")
            plain(connection, given, expires_at=expires_at)

        plain = records.put_rating
        patch.setattr(records, "put_rating", put_rating)
        ran = run(app, [rating(5), rating(4)])
    assert ran.states == ["done", "done"]
    assert attempts == [5, 5, 4]
    assert ran.seconds >= 5


# The database


def test_writes_of_one_moment_share_a_commit_and_a_write_that_fails_undoes_itself_alone(database: Database) -> None:
    commits: list[str] = []
    database._writer.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)

    async def write(number: int) -> None:
        async with database.writing() as connection:
            item = msgspec.structs.replace(LAMP, id=str(uuid.UUID(int=number)), name=f"lamp {number}")
            records.put_item(connection, item, expires_at=None)
            if number % 2:
                raise ValueError(number)

    async def write_all() -> list[object]:
        return list(await asyncio.gather(*map(write, range(10)), return_exceptions=True))

    failed = asyncio.run(write_all())
    assert [isinstance(one, ValueError) for one in failed] == [False, True] * 5
    assert [item.name for item in records.list_items(database)] == ["a lamp", *(f"lamp {n}" for n in range(0, 10, 2))]
    assert len(commits) == 1


def test_a_write_that_was_given_up_while_it_waited_leaves_no_transaction_open(database: Database) -> None:
    path = database.rows("PRAGMA database_list")[0]["file"]

    async def give_up() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(put(database, LAMP))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await put(database, msgspec.structs.replace(LAMP, name="a candle"))

    asyncio.run(give_up())
    found = records.find_item(database, ITEM)
    assert found is not None
    assert found.name == "a candle"


def test_a_commit_that_fails_fails_every_write_of_it_and_the_next_one_succeeds(database: Database) -> None:
    async def write() -> list[object]:
        return list(await asyncio.gather(*[put(database, LAMP) for _ in range(3)], return_exceptions=True))

    async def write_twice() -> tuple[list[object], list[object]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("examples.catalog.database._committed", full)
            failed = await write()
        return failed, await write()

    def full(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    failed, written = asyncio.run(write_twice())
    assert [type(one) for one in failed] == [DatabaseUnavailable] * 3
    assert written == [None] * 3


def test_a_database_whose_lock_is_taken_has_too_much_to_do(database: Database) -> None:
    path = database.rows("PRAGMA database_list")[0]["file"]
    with closing(Database(Path(path), busy_seconds=0.01)) as hasty, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseThrottled):
            asyncio.run(put(hasty, LAMP))
        other.execute("ROLLBACK")
        asyncio.run(put(hasty, LAMP))


def test_a_file_that_is_no_database_is_not_available(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseUnavailable):
        Database(tmp_path / "catalog.db")
