"""10⁶ recipients that have collected everything (10⁵ unless `--full`), and what they still cost.

Each gets one message, peeks and dequeues it. The store afterwards is compared with the store before: all of it, and the part
that is not history (a bundle and its change record are history: they live as long as their messages). The disk
is shared out over the kinds of rows by their bytes. Then the clock is moved past the retention.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import restante
from bench.context import Bench
from bench.mail import recipient_names
from bench.outcome import Figure, Goal, Line, Outcome, Unit
from bench.sqlite import is_database, used_bytes
from restante.client.surface.surface import Hub
from restante.model.storage.changes import Space
from restante.settings import Settings

HISTORY = frozenset({Space.RUN, Space.BUNDLE, Space.CHANGE, Space.SETTLEMENT, Space.CONTENT})
WITHIN = Goal("≤ 200 B each", at_most=200, of_value=True)
AFTER = Goal("0 (≤ 1 B each)", at_most=1, of_value=True)
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """The bytes of a closed store, and those of its small rows that are history and those that are not."""

    disk: int
    history: int
    beside: int


def run(bench: Bench) -> Outcome:
    folder = bench.fresh_folder()
    count = bench.scale.emptied_recipients
    try:
        never, published = _publish(bench, folder, count)
        seconds = _collect(bench, folder, count)
        collected = stored(folder)
        retain(folder)
        retained = stored(folder)
    finally:
        shutil.rmtree(folder)
    empty = stored_empty(bench)
    return Outcome(
        [
            Line("never seen recipients", _bytes(never), goal=AFTER),
            Line("emptied mailbox, beside its history", _bytes(beside(published, collected) / count), goal=WITHIN),
            Line("emptied mailbox, all that collecting left", _bytes((collected.disk - published.disk) / count)),
            Line("emptied mailbox, after retention", _bytes((retained.disk - empty.disk) / count), goal=AFTER),
            Line("mailboxes peeked and dequeued", Figure(count / seconds, Unit.RATE)),
        ],
        notes=[f"emptied mailboxes: {count:,}, collected by {bench.scale.collectors} threads"],
    )


def _publish(bench: Bench, folder: Path, count: int) -> tuple[float, Stored]:
    """One message for each recipient; before that, others look into mailboxes that never had any."""
    never = _look(folder, recipient_names(bench.scale.parcel, first=5_000_000_000))
    with restante.open(folder) as hub, bench.display.bar("emptied: publish", count) as advance:
        for first in range(0, count, bench.scale.parcel):
            names = recipient_names(min(bench.scale.parcel, count - first), first=first)
            hub.producer.send(bench.mail.one_each(names))
            advance(count=len(names))
        hub.file()
    return never, stored(folder)


def _look(folder: Path, strangers: pa.StringArray) -> float:
    """Bytes that each recipient costs who peeks and has never been written to."""
    with restante.open(folder) as hub:
        hub.file()
    before = stored(folder)
    with restante.open(folder) as hub:
        for name in map(str, strangers):
            assert hub.recipient(name).peek() is None
    return (stored(folder).disk - before.disk) / len(strangers)


def _collect(bench: Bench, folder: Path, count: int) -> float:
    """Every mailbox emptied, by threads that share commits; gives the seconds."""
    names = recipient_names(count).to_pylist()
    share = bench.scale.parcel
    with restante.open(folder) as hub, ThreadPoolExecutor(bench.scale.collectors) as threads:
        start = time.perf_counter()
        with bench.display.bar("emptied: peek and dequeue", count) as advance:
            for first in range(0, count, share):
                chosen = names[first : first + share]
                done = sum(threads.map(lambda name: _empty(hub, name), chosen))
                assert done == len(chosen)
                advance(count=done)
        return time.perf_counter() - start


def _empty(hub: Hub, name: str) -> int:
    bundle = hub.recipient(name).peek()
    assert bundle is not None
    return bundle.dequeue().messages


def retain(folder: Path) -> None:
    """Remove everything, with a clock past the retention. Runs that were filed before go with the next filing."""
    later = int((Settings().collected_retention_seconds + 86_400) * MICROSECONDS)
    with restante.open(folder, clock=lambda: time.time_ns() // 1_000 + later) as hub:
        hub.retain()
        hub.file()
        hub.retain()


def stored_empty(bench: Bench) -> Stored:
    folder = bench.fresh_folder()
    with restante.open(folder) as hub:
        hub.file()
    try:
        return stored(folder)
    finally:
        shutil.rmtree(folder)


def stored(folder: Path) -> Stored:
    files = [path for path in folder.rglob("*") if path.is_file()]
    databases = [path for path in files if is_database(path)]
    others = [path for path in files if path not in databases and not path.name.endswith(("-wal", "-shm"))]
    disk = sum(map(used_bytes, databases)) + sum(path.stat().st_size for path in others)
    rows = {space: size for path in databases for space, size in _rows_bytes(path)}
    history = sum(size for space, size in rows.items() if space in HISTORY)
    return Stored(disk, history, sum(rows.values()) - history)


def _rows_bytes(path: Path) -> Sequence[tuple[int, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(
            "SELECT space, SUM(LENGTH(key) + LENGTH(value)) FROM entries GROUP BY space"
        ).fetchall()
    finally:
        connection.close()


def beside(before: Stored, after: Stored) -> float:
    """The part of the growth that is not history."""
    other, history = after.beside - before.beside, after.history - before.history
    return (after.disk - before.disk) * other / (other + history)


def _bytes(value: float) -> Figure:
    return Figure(value, Unit.BYTES)
