"""Readers of one log that stall, die, begin again and run beside each other, against a real hub, one step at a time.

A seed decides everything: the gaps of the log, the sizes of batches, who goes on next, who dies, which answer is lost, when
the hub is opened again. A reader begins at the committed offset, sends its batches in order, and commits what is stored.
Then every record is stored once, in order, whatever stale readers do. Two wrong readers show that the rules are
needed, and that the simulation would see it: one that lets a batch overtake another, one that commits what it has only read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.stores.memory import MemoryStore
from tests.sources.conftest import SETTINGS
from tests.sources.records import expected, records, stored

SOURCE = "log/0"
SEEDS = 40
MUTANT_SEEDS = 25
STEPS = 60
READERS_MAX = 4
HELD_MAX = 3
BATCH_MAX = 6


@dataclass
class LogReader:
    """Where a reader is: indices into the log."""

    read: int
    """All before it is read."""
    done: int
    """All before it is stored, as far as this reader knows."""
    held: deque[tuple[int, int]] = field(default_factory=deque)
    """Batches that are read and not sent."""

    def chosen(self) -> tuple[int, int]:
        """The batch that is sent next."""
        return self.held[0]

    def offset(self) -> int:
        """What it commits."""
        return self.done


class OvertakingReader(LogReader):
    """Wrong: the last batch goes first."""

    def chosen(self) -> tuple[int, int]:
        return self.held[-1]


class HastyReader(LogReader):
    """Wrong: it commits what it has only read."""

    def offset(self) -> int:
        return self.read


class Simulation:
    """One log, one hub, one committed offset, and those who read."""

    def __init__(self, seed: int, kind: type[LogReader]) -> None:
        self.random, self.kind = Random(seed), kind
        position = 0
        self.log = [position := position + self.random.randint(1, 4) for _ in range(self.random.randint(10, 40))]
        self.committed = 0
        self.readers: list[LogReader] = []
        self.store = MemoryStore()
        self.hub: Hub = restante.open(None, settings=SETTINGS, store=self.store)
        self.skipped = 0

    def run(self) -> None:
        try:
            for _ in range(STEPS):
                self._step()
            self._finish()
            assert stored(self.hub) == expected(self.log)
        finally:
            self.hub.close()

    def _step(self) -> None:
        lot = self.random.random()
        if (lot < 0.1 and len(self.readers) < READERS_MAX) or not self.readers:
            self.readers.append(self.kind(self.committed, self.committed))
        elif lot < 0.15:
            self.readers.remove(self.random.choice(self.readers))
        elif lot < 0.17:
            self._open_again()
        else:
            # Whoever is not chosen stalls, for as long as that may be.
            self._go_on(self.random.choice(self.readers))

    def _go_on(self, reader: LogReader) -> None:
        lot = self.random.random()
        if lot < 0.4 and len(reader.held) < HELD_MAX:
            end = min(reader.read + self.random.randint(1, BATCH_MAX), len(self.log))
            if end > reader.read:
                reader.held.append((reader.read, end))
            reader.read = end
        elif lot < 0.8 and reader.held:
            self._send(reader, answered=self.random.random() < 0.8)
        else:
            self.committed = reader.offset()  # a stale one may set it back

    def _send(self, reader: LogReader, *, answered: bool) -> None:
        """If the answer is lost, the reader sends the batch once more."""
        batch = first, end = reader.chosen()
        receipt = self.hub.send(records(self.log[first:end]), source=SOURCE)
        assert receipt.accepted + receipt.skipped == end - first
        self.skipped += receipt.skipped
        if answered:
            reader.held.remove(batch)
            reader.done = end

    def _open_again(self) -> None:
        self.hub.close()
        self.store = self.store.survivor()
        self.hub = restante.open(None, settings=SETTINGS, store=self.store)

    def _finish(self) -> None:
        """The last reader begins at the committed offset, and is left alone."""
        for first in range(self.committed, len(self.log), BATCH_MAX):
            self.hub.send(records(self.log[first : first + BATCH_MAX]), source=SOURCE)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_stale_readers_do_no_harm(seed: int) -> None:
    Simulation(seed, LogReader).run()


def test_the_simulation_has_records_that_come_again() -> None:
    simulations = [Simulation(seed, LogReader) for seed in range(5)]
    for each in simulations:
        each.run()
    assert sum(each.skipped for each in simulations) > len(simulations)


@pytest.mark.parametrize("wrong", [OvertakingReader, HastyReader])
def test_a_reader_that_breaks_the_rules_is_caught(wrong: type[LogReader]) -> None:
    assert any(_is_caught(Simulation(seed, wrong)) for seed in range(MUTANT_SEEDS))


def _is_caught(simulation: Simulation) -> bool:
    try:
        simulation.run()
    except AssertionError:
        return True
    return False
