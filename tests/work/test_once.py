"""`job.once`: what is done in a handler's transaction is done once, and a worker that lost its partition is fenced."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from restante.errors import InvalidRequest
from restante.model.work.actions import WorkAction
from restante.model.work.core import WorkAttempt
from restante.work import Again, Fenced, Job
from restante.work.job import job_of
from restante.work.once.dialogue import SCHEMA


def job(number: int = 1, *, generation: int = 1, partition: int = 0) -> Job:
    action = WorkAction(number=number, id=f"a{number}", concerns="item-7", name="do")
    attempt = WorkAttempt(
        attempt_id=1, partition=partition, generation=generation, action=action, number=1, timeout_seconds=1
    )
    return job_of("shop", attempt)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(SCHEMA)
        connection.execute("CREATE TABLE votes (id TEXT)")
    connection.close()
    return tmp_path / "shop.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    own = sqlite3.connect(path, timeout=0.05)
    yield own
    own.close()


def test_what_was_committed_is_not_done_again(connection: sqlite3.Connection) -> None:
    with connection:
        assert job().once(connection) is True
    with connection:
        assert job().once(connection) is False
        assert job(2).once(connection) is True


def test_what_was_rolled_back_is_done_again(connection: sqlite3.Connection) -> None:
    assert job().once(connection) is True
    connection.rollback()
    assert job().once(connection) is True


def test_the_same_action_done_again_by_an_operator_is_another_number(connection: sqlite3.Connection) -> None:
    with connection:
        assert job(1).once(connection)
        again = job_of("shop", _attempt(WorkAction(number=9, id="a1", concerns="item-7", name="do")))
        assert again.once(connection)


def _attempt(action: WorkAction) -> WorkAttempt:
    return WorkAttempt(attempt_id=1, partition=0, generation=1, action=action, number=1, timeout_seconds=1)


def test_an_older_generation_is_fenced(connection: sqlite3.Connection) -> None:
    with connection:
        assert job(1, generation=7).once(connection)
    with pytest.raises(Fenced, match="Generation 7 works on partition 0"), connection:
        job(2, generation=6).once(connection)
    with connection:
        assert job(2, generation=7).once(connection), "the fenced one was rolled back"
        assert job(3, generation=6, partition=1).once(connection), "each partition has its own fence"


def test_a_database_that_another_writes_to_is_busy_and_that_passes(path: Path, connection: sqlite3.Connection) -> None:
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Again, match="busy"):
        job().once(connection)
    other.rollback()
    other.close()
    assert job().once(connection)


def test_without_a_transaction_it_is_refused(path: Path) -> None:
    own = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(InvalidRequest, match="begin a transaction"):
        job().once(own)
    own.execute("BEGIN")
    assert job().once(own)
    own.close()


def test_a_connection_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"job\.once takes a connection of sqlite3, psycopg 3"):
        job().once(object())


def test_sqlalchemy_waits_and_is_fenced_too(path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as own:
        assert job(generation=2).once(own) is True
    with Session(engine) as session, session.begin():
        assert job(generation=2).once(session) is False
        assert job(2, generation=2).once(session) is True
    with pytest.raises(Fenced), engine.begin() as own:
        job(3).once(own)
    with pytest.raises(InvalidRequest, match="begin a transaction"), engine.connect() as own:
        job(4).once(own.execution_options(isolation_level="AUTOCOMMIT"))
    engine.dispose()
