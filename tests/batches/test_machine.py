"""The hub and the model of the rules, driven together: whatever is asked of batches, both answer and hold the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, TypeVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from restante import limits
from restante.calls.batches import (
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.errors import RestanteError
from restante.model.batches.batch_answers import Acknowledged, BatchState, BatchStatus, Counting, ItemRange
from tests.batches.folding import fold_batches
from tests.batches.model import Batch, Model, Refused
from tests.batches.places import DAY, HOUR, PLACES, SETTINGS
from tests.batches.wishes import ITEMS, MALFORMED, MALFORMED_RANGES, NOBODY, SIZES, Items, Named, name
from tests.hub.engines import FakeClock
from tests.producers.machines import Step, Weighted, drive, drive_for_long, weighted
from tests.profiles import by_profile

T = TypeVar("T")

EXAMPLES = {"memory": by_profile(dev=3, ci=12), "sqlite": by_profile(dev=2, ci=5)}
SHRINKING_SECONDS = 900
PENDING_LOOKED_AT = 40
PROPOSED = [str(UUID(int=(7 << 76) | (2 << 62) | number)) for number in range(1, 4)]
REQUESTS = [str(UUID(int=number)) for number in range(1, 6)]
SECOND = 1_000_000

PICK = st.integers(0, 6)
KEYS = st.sampled_from([None, None, "a", "a", "b"])
STEPS: Weighted = [
    (3, "open", {"key": KEYS, "unique": st.booleans(), "proposed": st.sampled_from([None, None, None, 0, 1, 2])}),
    (1, "open_the_same_again", {"pick": PICK, "otherwise": st.sampled_from(["same", "same", "key", "counting"])}),
    (5, "add", {"pick": PICK, "size": st.sampled_from(SIZES), "request": st.sampled_from([None, 0, 0, 1, 2, 3, 4])}),
    (1, "add_what_is_refused", {"pick": PICK, "count": st.sampled_from([0, -1, 10**12, 10**12 + 1])}),
    (12, "acknowledge", {"wishes": st.lists(ITEMS, min_size=1, max_size=4)}),
    (2, "acknowledge_the_rest", {"pick": PICK, "but": st.sampled_from([0, 0, 1]), "sealed_first": st.booleans()}),
    (2, "acknowledge_something_malformed", {"wish": ITEMS, "bad": st.integers(0, 100), "at": st.integers(0, 3)}),
    (2, "seal", {"pick": PICK}),
    (1, "seal", {"pick": st.just(-1)}),
    (1, "delete", {"pick": st.integers(-1, 6)}),
    (1, "wait", {"pick": st.integers(-1, 6)}),
    (2, "let_time_pass", {"seconds": st.sampled_from([0.001, 1.0, HOUR, 2 * HOUR, 4 * DAY]), "dry": st.booleans()}),
    (2, "fold", {}),
    (2, "reopen", {}),
    (2, "list_in_pages", {"key": KEYS, "state": st.sampled_from([None, *BatchState]), "limit": st.integers(1, 3)}),
    (2, "list_pending_in_pages", {"pick": PICK, "limit": st.integers(1, 7)}),
]


class Batches(RuleBasedStateMachine):
    place_name: ClassVar[str] = "memory"
    counting: ClassVar[Counting] = Counting.EXACT

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.clock = FakeClock()
        self.place = PLACES[self.place_name](Path(self.folder.name) / "data")
        open_for, sealed_for = SETTINGS.open_batch_retention_seconds, SETTINGS.sealed_batch_retention_seconds
        self.model = Model(round(open_for * SECOND), round(sealed_for * SECOND), self.clock())
        self.gone: list[str] = []
        """Batches that were deleted or reaped: they stay unknown."""
        self.going_well = True
        self.hub = self.place.open(self.clock)

    def teardown(self) -> None:
        if self.going_well:
            self.reopen()
            self.the_same_is_held()
        self.hub.close()
        self.folder.cleanup()

    @initialize(sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
    def start_with_a_batch(self, sizes: list[int]) -> None:
        self.open(key="a", unique=False, proposed=None)
        for size in sizes:
            self.add(pick=0, size=size, request=None)

    @rule(step=weighted(STEPS))
    def do(self, step: Step) -> None:
        self.going_well = False
        getattr(self, step.what)(**step.how)
        self.clock.advance(0.01)
        self.model.now = self.clock()
        self.going_well = True

    def _id(self, pick: int) -> str:
        """Of a batch that is there, or, below 0, of one that is not."""
        known = list(self.model.batches)
        if pick < 0 or not known:
            return self.gone[pick % len(self.gone)] if self.gone else NOBODY
        return known[pick % len(known)]

    # Opening, adding, sealing.

    def open(self, key: str | None, unique: bool, proposed: int | None) -> None:
        batch_id = None if proposed is None else PROPOSED[proposed]
        self._open(key, unique, self.counting, batch_id)

    def open_the_same_again(self, pick: int, otherwise: str) -> None:
        known = self.model.batches.get(self._id(pick))
        if known is None:
            return
        counting = known.counting
        if otherwise == "counting":
            counting = Counting.ESTIMATED if counting is Counting.EXACT else Counting.EXACT
        self._open("another" if otherwise == "key" else known.key, known.unique, counting, known.id)

    def _open(self, key: str | None, unique: bool, counting: Counting, batch_id: str | None) -> None:
        with self._both("open") as both:
            known = both.model(
                lambda: self.model.check_open(key=key, unique=unique, counting=counting, batch_id=batch_id)
            )
            answer = both.hub(
                lambda: self.hub.call(OpenBatch(key=key, unique=unique, counting=counting, batch_id=batch_id))
            )
        if answer is None:
            return
        if known is None:
            assert answer.id not in self.model.batches
            assert batch_id is not None or answer.id not in self.gone
            self.gone = [gone for gone in self.gone if gone != answer.id]
            self.model.opened(answer.id, key=key, unique=unique, counting=counting)
        expected = batch_id or answer.id if known is None else known.id
        assert (answer.id, answer.key, answer.state) == (expected, key, BatchState.OPEN)
        assert UUID(answer.id).version == 7 or batch_id is not None
        assert answer.webhook_secret is None

    def add(self, pick: int, size: int, request: int | None) -> None:
        batch_id = self._id(pick)
        request_id = None if request is None else REQUESTS[request]
        batch = self.model.batches.get(batch_id)
        if batch is not None and request_id in batch.requests and size % 2:
            size = batch.requests[request_id][1]  # most are honest repetitions
        self._add(batch_id, size, request_id)

    def add_what_is_refused(self, pick: int, count: int) -> None:
        """Not refused, once: a batch without items may hold all that there may be. It is left alone then."""
        batch = self.model.batches.get(self._id(pick))
        if batch is None or batch.items or count != 10**12:
            self._add(self._id(pick), count, None)

    def _add(self, batch_id: str, count: int, request_id: str | None) -> None:
        with self._both("add") as both:
            known = both.model(lambda: self.model.check_add(batch_id, count, request_id))
            answer = both.hub(lambda: self.hub.call(AddItems(batch_id, count, request_id=request_id)))
        if answer is None:
            return
        (group,) = answer.groups
        assert group.upto == count
        if known is None:
            assert group.id not in self.model.batches[batch_id].groups
            self.model.added(batch_id, group.id, count, request_id)
        else:
            assert group.id == known

    def seal(self, pick: int) -> None:
        batch_id = self._id(pick)
        with self._both("seal") as both:
            expected = both.model(lambda: self.model.seal(batch_id))
            answer = both.hub(lambda: self.hub.call(SealBatch(batch_id)))
        assert (None if answer is None else answer.complete) == expected

    # Acknowledging.

    def acknowledge(self, wishes: list[Items]) -> None:
        named = Named([], [])
        for wish in wishes:
            name(wish, list(self.model.batches.values()), named)
        self._acknowledge(named)

    def acknowledge_the_rest(self, pick: int, but: int, sealed_first: bool) -> None:
        """All that is pending of a batch, or all but one; and it is sealed, before or after."""
        batch = self.model.batches.get(self._id(pick))
        if batch is None or not batch.groups:
            return
        if sealed_first:
            self.seal(list(self.model.batches).index(batch.id))
        ranges = [
            ItemRange(group=f"{batch.id}:{group}", start=0, upto=known.upto) for group, known in batch.groups.items()
        ]
        if but and ranges[-1].upto > 1:
            ranges[-1] = msgspec.structs.replace(ranges[-1], upto=ranges[-1].upto - 1)
        self._acknowledge(Named([], ranges))
        if not sealed_first:
            self.seal(list(self.model.batches).index(batch.id))

    def acknowledge_something_malformed(self, wish: Items, bad: int, at: int) -> None:
        """One text that is no item id, and the whole call is refused."""
        named = Named([], [])
        name(wish, list(self.model.batches.values()), named)
        bad %= len(MALFORMED) + len(MALFORMED_RANGES)
        if bad < len(MALFORMED):
            named.items.insert(at, MALFORMED[bad])
        else:
            named.ranges.insert(at, MALFORMED_RANGES[bad - len(MALFORMED)])
        assert self._acknowledge(named) is None

    def _acknowledge(self, named: Named) -> Acknowledged | None:
        with self._both("acknowledge") as both:
            expected = both.model(lambda: self.model.acknowledge(named.items, named.ranges))
            answer = both.hub(lambda: self.hub.call(AcknowledgeItems(named.items, ranges=named.ranges)))
        if expected is None or answer is None:
            return None
        assert answer.acknowledged == expected.acknowledged
        assert sorted(map(repr, answer.unknown)) == sorted(map(repr, expected.unknown))
        assert sorted(answer.complete, key=lambda each: each.id) == sorted(expected.complete, key=lambda each: each.id)
        return answer

    # Going, and time.

    def delete(self, pick: int) -> None:
        batch_id = self._id(pick)
        with self._both("delete") as both:
            both.model(lambda: self.model.delete(batch_id))
            both.hub(lambda: self.hub.call(DeleteBatch(batch_id)))
        if batch_id != NOBODY and batch_id not in self.gone:
            self.gone.append(batch_id)

    def let_time_pass(self, seconds: float, dry: bool) -> None:
        self.clock.advance(seconds)
        self.model.now = self.clock()
        expected = sorted(self.model.reap(dry_run=dry), key=lambda each: each.id)
        reaped = sorted(self.hub.call(ReapBatches(dry_run=dry)).batches, key=lambda each: each.id)
        assert reaped == expected
        if not dry:
            self.gone.extend(each.id for each in expected)
        event(f"reaped: {len(expected)}")

    def fold(self) -> None:
        fold_batches(self.hub)

    def reopen(self) -> None:
        self.hub.close()
        self.hub = self.place.open(self.clock)
        self.model.lose_counters()

    # Looking.

    def wait(self, pick: int) -> None:
        batch_id = self._id(pick)
        with self._both("wait") as both:
            batch = both.model(lambda: self.model.batch(batch_id))
            answer = both.hub(lambda: self.hub.call(WaitForBatch(batch_id, 0)))
        if batch is not None:
            assert answer == (batch.status() if batch.completed_at is not None else None)

    def list_in_pages(self, key: str | None, state: BatchState | None, limit: int) -> None:
        assert self._listed(key=key, state=state, limit=limit) == self.model.listed(key=key, state=state)

    def _listed(self, *, key: str | None = None, state: BatchState | None = None, limit: int) -> list[BatchStatus]:
        found: list[BatchStatus] = []
        after = None
        while True:
            page = self.hub.call(ListBatches(key=key, state=state, limit=limit, after=after))
            found.extend(page.batches)
            if page.next is None:
                return found
            assert len(page.batches) == limit
            after = page.next

    def list_pending_in_pages(self, pick: int, limit: int) -> None:
        batch_id = self._id(pick)
        with self._both("pending") as both:
            expected = both.model(lambda: self.model.pending_items(batch_id, PENDING_LOOKED_AT))
            answer = both.hub(lambda: list(islice(self._pending(batch_id, limit), PENDING_LOOKED_AT)))
        assert answer == expected

    def _pending(self, batch_id: str, limit: int) -> Iterator[str]:
        after = None
        while True:
            page = self.hub.call(ListPendingItems(batch_id, limit=limit, after=after))
            yield from page.items
            if page.next is None:
                return
            assert len(page.items) == limit
            after = page.next

    @invariant()
    def the_same_is_held(self) -> None:
        assert self._listed(limit=100) == self.model.listed(key=None, state=None)
        for batch in self.model.batches.values():
            assert self.hub.call(ReadBatch(batch.id)) == batch.status()
            if batch.counting is Counting.EXACT:
                self._check_pending(batch)
        for batch_id in self.gone:
            with pytest.raises(RestanteError) as caught:
                self.hub.call(ReadBatch(batch_id))
            assert caught.value.code == "batch_unknown"

    def _check_pending(self, batch: Batch) -> None:
        """The first ones, and how many there are is in the status."""
        page = self.hub.call(ListPendingItems(batch.id, limit=PENDING_LOOKED_AT))
        assert list(page.items) == self.model.pending_items(batch.id, PENDING_LOOKED_AT)
        assert (page.next is None) == (batch.pending <= PENDING_LOOKED_AT)

    @contextmanager
    def _both(self, what: str) -> Iterator[Both]:
        """The hub refuses what the model refuses, and for the same reason."""
        both = Both()
        yield both
        assert (what, both.refused_by_hub) == (what, both.refused_by_model)
        event(f"{what}: {both.refused_by_model or 'done'}")


class Both:
    """A call made to the model and to the hub; who refuses it answers None."""

    def __init__(self) -> None:
        self.refused_by_model: str | None = None
        self.refused_by_hub: str | None = None

    def model(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except Refused as refused:
            self.refused_by_model = refused.code
            return None

    def hub(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except RestanteError as error:
            self.refused_by_hub = error.code
            return None


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("counting", list(Counting))
@pytest.mark.parametrize("place", list(EXAMPLES))
def test_the_hub_does_what_the_rules_of_batches_say(place: str, counting: Counting) -> None:
    drive(Batches, campaigns=1, examples=EXAMPLES[place], place_name=place, counting=counting)


@pytest.mark.timeout(SHRINKING_SECONDS)
def test_the_hub_does_what_the_rules_of_batches_say_with_no_room_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_BITS_BYTES_MAX", 0)
    drive(Batches, campaigns=1, examples=EXAMPLES["sqlite"], place_name="memory", counting=Counting.EXACT)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("counting", list(Counting))
@pytest.mark.parametrize("place", list(EXAMPLES))
def test_the_hub_does_what_the_rules_of_batches_say_for_long(place: str, counting: Counting) -> None:
    drive_for_long(Batches, place_name=place, counting=counting)
