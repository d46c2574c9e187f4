"""Outcomes of records, for doors in other processes: they ask for a record by its place in the log.

The owner keeps the last outcomes for a while, because a door may ask after the commit. For a record that was settled before
the owner was started, the store only knows whether it was refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from restante.calls.backplane import AwaitRecords, ReadFitness
from restante.errors import RestanteError
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.backplane.publish_checks import NOT_LOOKED_AT
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.limits import BACKPLANE_OUTCOMES_KEPT
from restante.model.access.access import Grant
from restante.model.backplane.backplane_answers import RecordOutcome
from restante.model.backplane.poison import decode_poison, error_of_row, poison_key
from restante.model.mailboxes.answers import Receipt
from restante.model.storage.changes import Space
from restante.wire.problems import problem_of

RecordPlace = tuple[int, int]
"""A partition, and a position in its log."""
SendOutcome = Receipt | RestanteError
AskedRecords = Sequence[tuple[int, int, int]]


@dataclass(slots=True)
class RecordWait:
    """A caller that waits for some records."""

    ring: Callable[[], None]
    """Called once, from any thread, when nothing is left to wait for."""
    open: set[RecordPlace] = field(default_factory=set)
    found: dict[RecordPlace, SendOutcome] = field(default_factory=dict)


class RecordOutcomes:
    """The last outcomes, and who waits for the next. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: dict[RecordPlace, SendOutcome] = {}
        self._waiting: dict[RecordPlace, list[RecordWait]] = {}

    def told(self, outcomes: Sequence[tuple[RecordPlace, SendOutcome]]) -> None:
        """The outcomes of records, after their commit."""
        over: list[RecordWait] = []
        with self._lock:
            for place, outcome in outcomes:
                self._recent[place] = outcome
                for wait in self._waiting.pop(place, ()):
                    wait.found[place] = outcome
                    wait.open.discard(place)
                    if not wait.open:
                        over.append(wait)
            while len(self._recent) > BACKPLANE_OUTCOMES_KEPT:
                del self._recent[next(iter(self._recent))]
        for wait in over:
            wait.ring()

    @contextmanager
    def waiting(self, places: Sequence[RecordPlace], ring: Callable[[], None]) -> Iterator[RecordWait]:
        """While inside, the wait hears of these records. It has known outcomes at once."""
        wait = RecordWait(ring)
        with self._lock:
            for place in places:
                known = self._recent.get(place)
                if known is None:
                    wait.open.add(place)
                    self._waiting.setdefault(place, []).append(wait)
                else:
                    wait.found[place] = known
        try:
            yield wait
        finally:
            with self._lock:
                for place in wait.open:
                    self._leave(place, wait)

    def _leave(self, place: RecordPlace, wait: RecordWait) -> None:
        left = [other for other in self._waiting.pop(place, ()) if other is not wait]
        if left:
            self._waiting[place] = left


def await_records(core: Core, call: AwaitRecords, caller: Grant) -> tuple[RecordOutcome, ...]:
    """Wait in this thread."""
    del caller
    over = threading.Event()
    with core.memory(RecordOutcomes).waiting(places_of(call.records), over.set) as wait:
        if wait_is_worth_it(core, wait):
            over.wait(call.seconds)
    return outcomes_of(core, call.records, wait)


def places_of(records: AskedRecords) -> list[RecordPlace]:
    return [(partition, position) for partition, position, _ in records]


def wait_is_worth_it(core: Core, wait: RecordWait) -> bool:
    """Whether one of the records is still to be stored."""
    stored = core.memory(BackplaneMemory).stored
    return any(position > stored.get(partition, -1) for partition, position in tuple(wait.open))


def outcomes_of(core: Core, records: AskedRecords, wait: RecordWait) -> tuple[RecordOutcome, ...]:
    """The outcomes of records that are known now. It reads the store, of records that were settled before the hub was started."""
    return tuple(_outcome(core, wait, *record) for record in records)


def _outcome(core: Core, wait: RecordWait, partition: int, position: int, messages: int) -> RecordOutcome:
    # Read `stored` before `wait.found`: the owner hands outcomes to the waits before it moves `stored` past their records.
    # So if `stored` is past a record that `found` lacks, the record was settled before this wait began.
    behind = position <= core.memory(BackplaneMemory).stored.get(partition, -1)
    found = wait.found.get((partition, position))
    if found is None and behind:
        found = _settled(core, partition, position, messages)
    if found is None:
        return RecordOutcome()
    if isinstance(found, RestanteError):
        return RecordOutcome(problem=problem_of(found, correlation_id=""))
    return RecordOutcome(receipt=found)


def _settled(core: Core, partition: int, position: int, messages: int) -> SendOutcome:
    """The outcome of a record that was stored, or kept as poison: which numbers its messages have, or whether some were duplicates, nobody knows."""
    value = core.store.get(partition, Space.BACKPLANE_POISON, poison_key(position))
    if value is not None:
        return error_of_row(decode_poison(value))
    return Receipt(accepted=messages, duplicates=0, partitions=())


def read_fitness(core: Core, call: ReadFitness, caller: Grant) -> str | None:
    del call, caller
    unfit = core.memory(BackplaneMemory).unfit
    return None if unfit == NOT_LOOKED_AT else unfit


FUNCTIONS: Functions = {AwaitRecords: await_records, ReadFitness: read_fitness}
