"""The hub and the model of the rules, driven together: whatever producers do, both answer and hold the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from copy import deepcopy
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, NamedTuple, cast
from uuid import UUID

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from restante.calls.producers import ListProducers, OpenLink
from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.errors import FaultyMessages, RestanteError
from restante.hub.doctor.doctor import examine
from restante.hub.engine.commit_request import CommitRequest, Planned
from restante.hub.engine.plan import RequestDraft
from restante.limits import FEW_MESSAGES_MAX
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.settings import Settings
from tests.crash.seen import inside
from tests.hub.engines import ENGINES, FakeClock, MemoryEngine
from tests.producers.desk import link_of, table_of
from tests.producers.machines import Step, Weighted, drive, drive_for_long, weighted
from tests.producers.model import NUMBERS, Answer, Letter, Model, Numbers, Refusal
from tests.profiles import by_profile

EXAMPLES = {"memory": by_profile(dev=2, ci=12), "sqlite": by_profile(dev=2, ci=5)}
SHRINKING_SECONDS = 900
PATIENCE_SECONDS = 60.0
PAGE = 1_000

DAY = 86_400
SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False, producer_retention_seconds=2 * DAY)
MAILBOXES = {0: ("ben", "cleo"), 1: ("ada", "dora")}
"""Two recipients in each partition; which, is checked when a hub is opened."""
TOLD = {
    "invalid_client_state": ("expected",),
    "link_refused": ("expected",),
    "producer_disconnected": ("current", "received"),
}

Outcome = Answer | Refusal


class Parcel(NamedTuple):
    """What is sent: where, what, with which numbers, and whether as columns."""

    partition: int
    letters: tuple[Letter, ...]
    numbers: Numbers | None
    as_table: bool


class Wish(NamedTuple):
    """What somebody wants to send, before it is known what comes next and what came last."""

    what: str
    partition: int
    group: int
    raised: int
    """How far its owner level is from the current one."""
    off: int
    """How far its first number is from the next one."""
    ids: tuple[str, ...]
    """For each message: without an id, with a new one, with that of an earlier message, or in conflict with one."""
    many: bool
    as_table: bool
    pick: int


USUALLY_0 = st.sampled_from([0] * 12 + [1, 1, -1, 2, -2])
PARTITION = st.sampled_from([0, 0, 0, 1])
GROUP = st.sampled_from([1, 1, 2**63 - 1])
WISHES = st.builds(
    Wish,
    what=st.sampled_from(["fresh"] * 6 + ["again"] * 3 + ["other"] * 2 + ["swapped", "shorter", "longer", "plain"]),
    partition=PARTITION,
    group=GROUP,
    raised=USUALLY_0,
    off=USUALLY_0,
    ids=st.lists(st.sampled_from(["new"] * 6 + ["none"] * 3 + ["known", "conflict"]), min_size=1, max_size=4).map(
        tuple
    ),
    many=st.sampled_from([False] * 7 + [True]),
    as_table=st.booleans(),
    pick=st.integers(0, 1_000),
)


LINKS = {
    "partition": PARTITION,
    "group": GROUP,
    "raised": st.sampled_from([None, 0, 0, 1, 1, -1]),
    "offered": st.sampled_from([None, None, "last", "last", "other", "end"]),
    "off": st.integers(0, 5),
}
STEPS: Weighted = [
    (10, "publish", {"wish": WISHES}),
    (5, "publish_at_once", {"wishes": st.lists(st.tuples(WISHES, st.booleans()), min_size=2, max_size=4)}),
    (1, "publish_something_bad", {"wish": WISHES, "bad": st.sampled_from(["recipient", "partition"])}),
    (2, "link", LINKS),
    (1, "let_time_pass", {"days": st.sampled_from([0.5, 1, 2])}),
    (1, "reopen", {}),
]


class Producers(RuleBasedStateMachine):
    engine_name: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.clock = FakeClock()
        self.engine = ENGINES[self.engine_name](Path(self.folder.name) / "data")
        self.model = Model()
        self.count = 0
        self.looked_at: dict[str, tuple[int, int]] = {}
        """Of each mailbox, the last sequence number that was compared, and how many messages were."""
        self.open()

    def open(self) -> None:
        opened = self.engine.open(settings=SETTINGS, origins={}, clock=self.clock)
        assert isinstance(opened, sync.Hub)
        self.hub = opened
        assert all(self.hub.partition_of(name) == number for number, names in MAILBOXES.items() for name in names)

    def teardown(self) -> None:
        self.looked_at.clear()
        self.the_same_is_stored()
        self.hub.file()
        self.hub.close()
        if isinstance(self.engine, MemoryEngine):
            assert [finding.what for finding in examine(self.engine.store.survivor()).findings] == []
        self.folder.cleanup()

    @rule(step=weighted(STEPS))
    def do(self, step: Step) -> None:
        getattr(self, step.what)(**step.how)

    # Writing what is sent.

    def _parcel(self, wish: Wish, model: Model) -> Parcel:
        """The wish as a parcel, if this is what the hub holds."""
        known = model.group(wish.partition, wish.group)
        if wish.what == "plain":
            return Parcel(wish.partition, self._letters(wish, model), None, wish.as_table)
        level = min(max(0, (known.level if known else 0) + wish.raised), 32_767)
        if wish.what == "fresh" or known is None or known.range is None:
            expected = model.expected(wish.partition, Numbers(wish.group, level, 0))
            numbers = Numbers(wish.group, level, (expected + wish.off) % NUMBERS)
            return Parcel(wish.partition, self._letters(wish, model), numbers, wish.as_table)
        numbers = Numbers(wish.group, level, known.range.first)
        return Parcel(wish.partition, self._varied(wish, known.range.letters), numbers, wish.as_table)

    def _letters(self, wish: Wish, model: Model) -> tuple[Letter, ...]:
        ids = wish.ids + ("new",) * (FEW_MESSAGES_MAX if wish.many else 0)
        return tuple(self._letter(wish, model, how) for how in ids)

    def _letter(self, wish: Wish, model: Model, how: str) -> Letter:
        self.count += 1
        names = MAILBOXES[wish.partition]
        fresh = Letter(names[(wish.pick + self.count) % 2], f"letter {self.count}", str(UUID(int=self.count)))
        stored = [letter for letter in model.stored.get(wish.partition, []) if letter.id]
        if how == "none":
            return fresh._replace(id=None)
        if how == "new" or not stored:
            return fresh
        known = stored[wish.pick % len(stored)]
        return known if how == "known" else known._replace(text=fresh.text)

    def _varied(self, wish: Wish, last: tuple[Letter, ...]) -> tuple[Letter, ...]:
        """The last range once more, or something that may be taken for it."""
        self.count += 1
        if wish.what == "other":
            at = wish.pick % len(last)
            changed = last[at]._replace(text=f"other {self.count}", id=None)
            return (*last[:at], changed, *last[at + 1 :])
        if wish.what == "swapped":
            return last[::-1]
        if wish.what == "shorter":
            return last[1:] or last
        return (*last, *last[:1]) if wish.what == "longer" else last

    # Sending it.

    def publish(self, wish: Wish) -> None:
        parcel = self._parcel(wish, self.model)
        got = self._published(parcel)
        expected = _expected(self.model, parcel, got)
        assert got == expected
        event(f"{wish.what}: {_name(got)}")

    def _published(self, parcel: Parcel) -> Outcome:
        try:
            receipt = link_of(self.hub).call(
                Publish.of(_sent(parcel), partition=parcel.partition, producer=_numbers(parcel.numbers))
            )
        except RestanteError as error:
            return _refusal(error)
        return _answer(receipt)

    def publish_at_once(self, wishes: list[tuple[Wish, bool]]) -> None:
        """They wait for the same commit; some count on those before them."""
        after, parcels = deepcopy(self.model), []
        for wish, counts_on_them in wishes:
            parcel = self._parcel(wish, after if counts_on_them else self.model)
            parcels.append(parcel)
            _expected(after, parcel, None)
        got = self._published_at_once(parcels)
        self.model = self._explained(parcels, got)
        event(f"at once: {', '.join(sorted({_name(one) for one in got}))}")

    def _published_at_once(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        """The answers to parcels that were all there before the first of them was looked at."""
        core, entered, gate = inside(self.hub), threading.Event(), threading.Event()

        def hold(draft: RequestDraft) -> None:
            entered.set()
            assert gate.wait(PATIENCE_SECONDS)

        async def answers() -> list[CommitRequest[Receipt]]:
            loop = asyncio.get_running_loop()
            holder: asyncio.Future[CommitRequest[None]] = loop.create_future()
            core.core.committer.submit_soon(Planned(hold), holder)
            core.hand_over(loop)
            assert entered.wait(PATIENCE_SECONDS)
            futures: list[asyncio.Future[CommitRequest[Receipt]]] = [loop.create_future() for _ in parcels]
            for parcel, future in zip(parcels, futures, strict=True):
                numbers = _numbers(parcel.numbers)
                core.publish_soon(Publish.of(_sent(parcel), partition=parcel.partition, producer=numbers), future)
            core.hand_over(loop)
            gate.set()
            return [await future for future in futures]

        return [_outcome(request) for request in asyncio.run(answers())]

    def _explained(self, parcels: Sequence[Parcel], got: Sequence[Outcome]) -> Model:
        """The model after an order of the parcels that explains the answers; each group's are taken as they came."""
        for order in permutations(range(len(parcels))):
            if _keeps_groups(parcels, order):
                model = deepcopy(self.model)
                if all(_expected(model, parcels[at], got[at]) == got[at] for at in order):
                    return model
        raise AssertionError(f"no order explains {got} as answers to {parcels}")

    def publish_something_bad(self, wish: Wish, bad: str) -> None:
        """One bad message, and nothing is stored; the number stays free."""
        parcel = self._parcel(wish, self.model)
        bad_one = Letter(" " if bad == "recipient" else MAILBOXES[1 - wish.partition][0], "bad")
        got = self._published(parcel._replace(letters=(*parcel.letters, bad_one), as_table=False))
        assert isinstance(got, Refusal)
        if parcel.numbers is not None:
            self.model.refuse(parcel.partition, parcel.numbers.group, got)

    # Links, time, and opening again.

    def link(self, partition: int, group: int, raised: int | None, offered: str | None, off: int) -> None:
        known = self.model.group(partition, group)
        level = None if raised is None else max(0, (known.level if known else 0) + raised)
        numbers = {"last": known.last if known else 3, "other": off, "end": NUMBERS - 1 - off}
        last = None if offered is None else numbers[offered]
        expected = self.model.link(partition, group, level, last)
        assert self._linked(partition, group, level, last) == expected
        if expected is not None:
            self.model.refuse(partition, group, expected)
        event(f"link: {expected.code if expected else 'opened'}")

    def _linked(self, partition: int, group: int, level: int | None, last: int | None) -> Refusal | None:
        try:
            state = link_of(self.hub).call(
                OpenLink(partition, producer_group=group, owner_level=level, last_published_sequence_number=last)
            )
        except RestanteError as error:
            return _refusal(error)
        known = self.model.groups[partition, group]
        assert (state.owner_level, state.last_published_sequence_number) == (known.level, known.last)
        return None

    @initialize(off=st.sampled_from([None, 0, 1, 2, 5]))
    def start_near_the_end(self, off: int | None) -> None:
        if off is not None:
            self.link(partition=0, group=1, raised=None, offered=None, off=0)
            self.link(partition=0, group=1, raised=1, offered="end", off=off)

    def let_time_pass(self, days: float) -> None:
        self.clock.advance(days * DAY)
        self.model.now += round(days * DAY)
        self.hub.retain()
        self.model.forget(2 * DAY)

    def reopen(self) -> None:
        self.hub.close()
        self.open()
        self.looked_at.clear()

    @invariant()
    def the_same_is_known_of_each_group(self) -> None:
        for partition in MAILBOXES:
            page = link_of(self.hub).call(ListProducers(partition))
            got = {
                state.producer_group: (
                    state.owner_level,
                    state.last_published_sequence_number,
                    state.replays,
                    state.fenced_attempts,
                )
                for state in page.producers
            }
            groups = {group: known for (where, group), known in self.model.groups.items() if where == partition}
            assert got == {
                group: (known.level, known.last, known.replays, known.fenced) for group, known in groups.items()
            }

    @invariant()
    def the_same_is_stored(self) -> None:
        """What came since the last look; all of it once the hub was opened again, and in the end."""
        for partition, names in MAILBOXES.items():
            for name in names:
                after, count = self.looked_at.get(name, (0, 0))
                new = self.hub.recipient(name).history(after=after, limit=PAGE).messages
                texts = [bytes(message.data).decode() for message in new]
                assert texts == self.model.texts(partition, name)[count : count + PAGE]
                if new:
                    self.looked_at[name] = (new[-1].sequence_number or 0, count + len(new))


def _expected(model: Model, parcel: Parcel, got: Outcome | None) -> Outcome:
    """What the model answers. Of several objections it tells the one that was told, if that is among them."""
    objections = model.objections(parcel.partition, parcel.letters, parcel.numbers)
    if not objections:
        return model.publish(parcel.partition, parcel.letters, parcel.numbers)
    told = got if isinstance(got, Refusal) and got in objections else objections[0]
    if parcel.numbers is not None:
        model.refuse(parcel.partition, parcel.numbers.group, told)
    return told


def _keeps_groups(parcels: Sequence[Parcel], order: Sequence[int]) -> bool:
    """Whether the parcels of each group come in the order in which they were sent."""
    last: dict[tuple[int, int], int] = {}
    for at in order:
        numbers = parcels[at].numbers
        if numbers is not None:
            key = (parcels[at].partition, numbers.group)
            if last.get(key, -1) > at:
                return False
            last[key] = at
    return True


def _sent(parcel: Parcel) -> object:
    messages = [
        Message(recipient=letter.recipient, data=letter.text.encode(), id=letter.id) for letter in parcel.letters
    ]
    return table_of(messages) if parcel.as_table else messages


def _numbers(numbers: Numbers | None) -> ProducerNumbers | None:
    if numbers is None:
        return None
    return ProducerNumbers(group=numbers.group, owner_level=numbers.level, published_sequence=numbers.first)


def _outcome(request: CommitRequest[Receipt]) -> Outcome:
    try:
        return _answer(request.answer())
    except RestanteError as error:
        return _refusal(error)


def _answer(receipt: Receipt) -> Answer:
    extent = None
    for own in receipt.partitions:
        extent = (own.first_sequence_number, own.last_sequence_number)
    return Answer(receipt.accepted, receipt.duplicates, extent, receipt.replayed)


def _refusal(error: RestanteError) -> Refusal:
    if isinstance(error, FaultyMessages):
        return Refusal(error.code)
    return Refusal(error.code, tuple((name, cast(int | None, error.details[name])) for name in TOLD[error.code]))


def _name(outcome: Outcome) -> str:
    if isinstance(outcome, Refusal):
        return outcome.code
    return "replayed" if outcome.replayed else "stored"


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("engine", list(EXAMPLES))
def test_the_hub_does_what_the_rules_say(engine: str) -> None:
    drive(Producers, campaigns=1, examples=EXAMPLES[engine], engine_name=engine)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("engine", list(EXAMPLES))
def test_the_hub_does_what_the_rules_say_for_long(engine: str) -> None:
    drive_for_long(Producers, engine_name=engine)
