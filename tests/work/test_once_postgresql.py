"""`job.once` on PostgreSQL: a second doer waits at the row, and a newer generation waits for doers of the older one."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from bench.peers.postgresql import Postgresql
from restante.errors import InvalidRequest
from restante.work import Fenced
from restante.work.once.dialogue import SCHEMA
from tests.work.test_once import job

SOON = 0.3
PATIENCE = 30.0

pytestmark = pytest.mark.skipif(Postgresql.missing() is not None, reason=f"PostgreSQL is {Postgresql.missing()}")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="restante-once-") as name, closing(Postgresql(Path(name))) as server:
        yield server.address


@pytest.fixture
def connect(address: str) -> Iterator[Callable[[], Any]]:
    import psycopg

    opened: list[Any] = []

    def open_one() -> Any:
        opened.append(psycopg.connect(address))
        return opened[-1]

    with psycopg.connect(address, autocommit=True) as own:
        own.execute("DROP TABLE IF EXISTS restante_once; DROP TABLE IF EXISTS restante_fence")
        own.execute(SCHEMA.encode())
    yield open_one
    for each in opened:
        each.close()


class Doer(threading.Thread):
    """Asks in a thread of its own, and keeps the answer."""

    def __init__(self, connection: Any, **given: int) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._given = given
        self.answer: object = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = job(**self._given).once(self._connection)
        except Fenced as error:
            self.answer = error

    def waits(self) -> bool:
        self.join(SOON)
        return self.is_alive()

    def ended(self) -> object:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.answer


def test_a_second_doer_waits_until_the_first_has_committed(connect: Callable[[], Any]) -> None:
    first, second = connect(), connect()
    assert job().once(first) is True
    waiting = Doer(second)
    assert waiting.waits()
    first.commit()
    assert waiting.ended() is False


def test_a_second_doer_does_it_if_the_first_rolled_back(connect: Callable[[], Any]) -> None:
    first, second = connect(), connect()
    assert job().once(first) is True
    waiting = Doer(second)
    assert waiting.waits()
    first.rollback()
    assert waiting.ended() is True


def test_actions_of_one_partition_do_not_wait_for_one_another(connect: Callable[[], Any]) -> None:
    first, second, third = connect(), connect(), connect()
    assert job(1).once(first) is True
    first.commit()
    assert job(2).once(first) is True
    assert Doer(second, number=3).ended() is True
    assert Doer(third, number=4).ended() is True


def test_a_newer_generation_waits_for_the_older_one_and_fences_it(connect: Callable[[], Any]) -> None:
    old, new = connect(), connect()
    assert job(1).once(old) is True
    old.commit()
    assert job(2).once(old) is True
    newer = Doer(new, number=3, generation=2)
    assert newer.waits(), "the older one is under way"
    old.commit()
    assert newer.ended() is True
    older = Doer(old, number=4, generation=1)
    assert older.waits(), "the newer one is under way"
    new.commit()
    assert isinstance(older.ended(), Fenced)
    old.rollback()


def test_two_of_a_new_generation_begin_together(connect: Callable[[], Any]) -> None:
    first, second, third = connect(), connect(), connect()
    assert job(1).once(first) is True
    first.commit()
    assert job(2, generation=2).once(second) is True
    waiting = Doer(third, number=3, generation=2)
    assert waiting.waits()
    second.commit()
    assert waiting.ended() is True


def test_a_connection_that_commits_each_statement_is_refused(connect: Callable[[], Any]) -> None:
    own = connect()
    own.autocommit = True
    with pytest.raises(InvalidRequest, match="begin a transaction"):
        job().once(own)
    with own.transaction():
        assert job().once(own) is True


def test_rows_may_be_dicts(connect: Callable[[], Any]) -> None:
    from psycopg.rows import dict_row

    own = connect()
    own.row_factory = dict_row
    assert job().once(own) is True
    own.commit()
    assert job(2).once(own) is True


def test_asynchronous_connections_are_awaited(connect: Callable[[], Any], address: str) -> None:
    import psycopg

    async def asked() -> list[bool]:
        async with await psycopg.AsyncConnection.connect(address) as own:
            with pytest.raises(TypeError, match=r"await job\.once"):
                bool(job().once(own))
            found = [await job().once(own)]
            await own.commit()
            return [*found, await job().once(own)]

    assert asyncio.run(asked()) == [True, False]


def test_sqlalchemy_over_psycopg(connect: Callable[[], Any], address: str) -> None:
    told = dict(part.split("=") for part in address.split())
    url = f"postgresql+psycopg://{told['user']}@{told['host']}:{told['port']}/{told['dbname']}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as own:
        assert job(generation=2).once(own) is True
    with engine.begin() as own:
        assert job(generation=2).once(own) is False
    with pytest.raises(Fenced), engine.begin() as own:
        job(2, generation=1).once(own)
    engine.dispose()


def test_sqlalchemy_asynchronous(connect: Callable[[], Any], address: str) -> None:
    pytest.importorskip("greenlet")
    told = dict(part.split("=") for part in address.split())
    url = f"postgresql+psycopg_async://{told['user']}@{told['host']}:{told['port']}/{told['dbname']}"

    async def asked() -> list[bool]:
        engine = create_async_engine(url)
        found = []
        async with engine.begin() as own:
            found.append(await job().once(own))
        async with AsyncSession(engine) as session, session.begin():
            found.append(await job().once(session))
        await engine.dispose()
        return found

    assert asyncio.run(asked()) == [True, False]
