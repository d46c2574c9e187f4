"""An app whose handlers write what they do into a database, each once; `tests.work.dying_worker` runs it until it dies.

The database is the file that `LEDGER` names. `turn` is what an action says: the count of its thing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from restante.work import App, Job
from restante.work.once.dialogue import SCHEMA

BUSY_SECONDS = 10.0
app = App("ledger", wait_seconds=0.05, retries=10_000)
passed: Callable[[str], None] = lambda step: None  # noqa: E731 - replaced by who wants to know
"""Hears each step of a handler."""


class Turn(msgspec.Struct):
    turn: int


def path() -> Path:
    return Path(os.environ["LEDGER"])


def make_ledger(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        connection.execute("CREATE TABLE done (place INTEGER PRIMARY KEY AUTOINCREMENT, concerns TEXT, turn INTEGER)")
        connection.commit()


def ledger(file: Path) -> dict[str, list[int]]:
    """What was done to each thing, in the order in which it was committed."""
    with closing(sqlite3.connect(file)) as connection:
        found: dict[str, list[int]] = {}
        for concerns, turn in connection.execute("SELECT concerns, turn FROM done ORDER BY place"):
            found.setdefault(concerns, []).append(turn)
        return found


@app.action("take_turn", passing=(sqlite3.OperationalError,))
def take_turn(body: Turn, job: Job) -> int:
    """Once in the database, though it may be tried more than once."""
    passed("begun")
    with closing(sqlite3.connect(f"file:{path()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if job.once(connection):
            connection.execute("INSERT INTO done (concerns, turn) VALUES (?, ?)", (job.concerns, body.turn))
        passed("handled")
        connection.commit()
    passed("committed")
    return body.turn


@app.action("break_down")
def break_down() -> None:
    """Poison, at once."""
    raise ValueError("it cannot be done")
