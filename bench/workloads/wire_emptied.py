"""W8: 10⁵ recipients that have collected everything over the wire, and what they still cost.

As in `emptied`: each gets one message, peeks and dequeues it, and what that leaves beside history is counted. Valkey
has an emptied stream for each. Its bytes are those of its memory, where it holds everything; those of its file, rewritten
to the shortest, are shown too. A stream that is deleted costs it nothing, but would forget the last id it gave.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import restante.aio
from bench.display import Advance
from bench.mail import recipient_names
from bench.ours_wire import Restante, RestanteClient
from bench.outcome import Figure, Line, Outcome, Unit, slower
from bench.peers.valkey import Valkey, ValkeyClient
from bench.resp import Word, packed
from bench.wire import OURS, WireBench
from bench.workloads.emptied import AFTER, Stored, beside, retain, stored, stored_empty

WHAT = "W8 emptied mailbox, beside its history"
VALKEY_AT_MOST = 0.5
VALKEY_PARCEL = 10_000


def run(bench: WireBench) -> Outcome:
    theirs = _valkey(bench, cast("Valkey", bench.servers["valkey"])) if "valkey" in bench.servers else []
    outcome = Outcome(figures=[(WHAT, figure) for figure in theirs])
    if OURS in bench.servers:
        never, within, after = _ours(bench)
        goals: list[float | None] = [VALKEY_AT_MOST, None]
        outcome.lines = [
            *(slower(WHAT, within, each, at_most=goal, of="valkey") for each, goal in zip(theirs, goals, strict=False)),
            Line("W8 emptied mailbox, after retention", after, goal=AFTER),
            Line("W8 never seen recipients", never, goal=AFTER),
        ]
        outcome.figures.insert(0, (WHAT, within))
    return outcome


def _ours(bench: WireBench) -> tuple[Figure, Figure, Figure]:
    """Bytes of each: never seen, emptied, past the retention."""
    count = bench.scale.emptied_recipients
    folder = bench.fresh_folder()
    try:
        never = _look(bench, folder)
        published = _publish(bench, folder)
        with _served(folder) as server:
            _collect(bench, server.url)
        collected = stored(server.data)
        retain(server.data)
        retained = stored(server.data)
    finally:
        shutil.rmtree(folder)
    left = retained.disk - stored_empty(bench).disk
    sizes = (never, beside(published, collected) / count, left / count)
    return cast("tuple[Figure, Figure, Figure]", tuple(Figure(size, Unit.BYTES, OURS) for size in sizes))


@contextmanager
def _served(folder: Path) -> Iterator[Restante]:
    """A server on a folder, whose files can be looked at when it has ended."""
    with closing(Restante(folder)) as server:
        yield server


def _look(bench: WireBench, folder: Path) -> float:
    """Bytes that each recipient costs who peeks and has never been written to."""
    with _served(folder) as server, closing(RestanteClient(server.url)) as client:
        client.settle()
    before = stored(server.data)
    strangers = list(map(str, recipient_names(bench.scale.parcel, first=5_000_000_000)))

    async def look(recipient: Any) -> None:
        assert await recipient.peek() is None

    with _served(folder) as server:
        _each(bench, server.url, "W8 never seen", strangers, look)
    return (stored(server.data).disk - before.disk) / len(strangers)


def _publish(bench: WireBench, folder: Path) -> Stored:
    count, parcel = bench.scale.emptied_recipients, bench.scale.parcel
    with _served(folder) as server, closing(RestanteClient(server.url)) as client:
        with bench.display.bar("W8 publish", count) as advance:
            for first in range(0, count, parcel):
                client.publish(bench.mail.one_each(recipient_names(min(parcel, count - first), first=first)))
                advance(count=parcel)
        client.settle()
    return stored(server.data)


def _collect(bench: WireBench, url: str) -> None:
    async def empty(recipient: Any) -> None:
        bundle = await recipient.peek()
        assert (await bundle.dequeue()).messages == 1

    names = list(map(str, recipient_names(bench.scale.emptied_recipients)))
    _each(bench, url, "W8 peek and dequeue", names, empty)


def _each(
    bench: WireBench, url: str, title: str, names: Sequence[str], action: Callable[[Any], Awaitable[None]]
) -> None:
    """Something done for every recipient, for many at a time."""

    async def all_of_them(advance: Advance) -> None:
        left = iter(names)
        async with restante.aio.connect(url) as hub:

            async def work() -> None:
                for name in left:
                    await action(hub.recipient(name))
                    advance()

            await asyncio.gather(*(work() for _ in range(bench.scale.collectors)))

    with bench.display.bar(title, len(names)) as advance:
        asyncio.run(all_of_them(advance))


def _valkey(bench: WireBench, server: Valkey) -> list[Figure]:
    """Bytes of each emptied stream, in memory and in the rewritten file."""
    count = bench.scale.emptied_recipients
    with closing(server.client()) as client:
        client.forget()
        memory, disk = _held(client, server)
        with bench.display.bar("W8 valkey", count) as advance:
            for first in range(0, count, VALKEY_PARCEL):
                names = recipient_names(min(VALKEY_PARCEL, count - first), first=first)
                client.publish(client.prepare(bench.mail.one_each(names)))
                trims: list[Sequence[Word]] = [(b"XTRIM", name, b"MAXLEN", b"0") for name in map(str, names)]
                client.publish((b"".join(packed(trims)), len(trims)))
                advance(count=len(names))
        memory_after, disk_after = _held(client, server)
        client.forget()
    return [
        Figure((memory_after - memory) / count, Unit.BYTES, "valkey, memory"),
        Figure((disk_after - disk) / count, Unit.BYTES, "valkey, rewritten file"),
    ]


def _held(client: ValkeyClient, server: Valkey) -> tuple[int, int]:
    client.rewrite()
    return client.information("used_memory"), server.disk_bytes()
