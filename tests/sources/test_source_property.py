"""Whatever is read again, from wherever, in whatever batches, by whomever: each record of a log is stored once, in order.

A log has records at ascending positions, with gaps. Readers come and go: each begins at the offset that was committed, or
earlier, and sends batches in order until it is stopped. Stale ones go on beside those that took over from them. Commits
fail, and the hub is opened again on what it had stored. At the end one reader reads all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

import restante
from restante.client.surface.surface import Hub
from restante.stores.memory import MemoryStore
from tests.sources.conftest import SETTINGS
from tests.sources.records import expected, records, stored

SOURCE = "log/0"


@dataclass
class Reader:
    """Where the next batch of a reader begins, as an index into the log."""

    at: int


@dataclass
class World:
    """The log, those who read it, and the offset that is committed: all before it is stored."""

    log: list[int]
    committed: int = 0
    readers: list[Reader] = field(default_factory=list)

    def begin(self, back: int) -> None:
        self.readers.append(Reader(max(self.committed - back, 0)))

    def step(self, hub: Hub, which: int, size: int, *, commits: bool) -> None:
        if not self.readers:
            return
        reader = self.readers[which % len(self.readers)]
        batch = self.log[reader.at : reader.at + size]
        receipt = hub.send(records(batch), source=SOURCE)
        assert receipt.accepted + receipt.skipped == len(batch)
        reader.at += len(batch)
        if commits:
            self.committed = reader.at  # a stale one may set it back: that does no harm


STEPS = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 12)),
    st.tuples(st.just("read"), st.integers(0, 3), st.integers(1, 9), st.booleans()),
    st.tuples(st.just("stop"), st.integers(0, 3)),
    st.tuples(st.just("open again")),
)


@given(gaps=st.lists(st.integers(1, 5), min_size=1, max_size=40), steps=st.lists(STEPS, max_size=25))
@settings(deadline=None)
def test_each_record_is_stored_once_and_in_order(gaps: list[int], steps: list[tuple[object, ...]]) -> None:
    log = [sum(gaps[: count + 1]) for count in range(len(gaps))]
    world, store = World(log), MemoryStore()
    hub: Hub = restante.open(None, settings=SETTINGS, store=store)
    for step in steps:
        match step:
            case ("begin", int(back)):
                world.begin(back)
            case ("read", int(which), int(size), bool(commits)):
                world.step(hub, which, size, commits=commits)
            case ("stop", int(which)) if world.readers:
                world.readers.pop(which % len(world.readers))
            case ("open again",):
                hub.close()
                store = store.survivor()
                hub = restante.open(None, settings=SETTINGS, store=store)
            case _:
                pass
        seen = stored(hub)
        count = sum(map(len, seen.values()))
        assert seen == expected(log[:count]), "what is stored is the beginning of the log"
    hub.send(records(log[world.committed :]), source=SOURCE)
    assert stored(hub) == expected(log)
    hub.close()
