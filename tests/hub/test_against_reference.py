"""The real hub and the reference hub, driven together: whatever is done to both, they look the same after each step.

Which expired messages a peek, a purge or setting aside settles in passing is left open by the rules, so these are
followed by `expire`, which settles the rest at the same moment; see `_settle_the_rest`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, NamedTuple, cast
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from hypothesis.strategies import SearchStrategy

from restante.client.surface.surface import Hub, Recipient
from restante.model.columns import hashing
from restante.model.columns.text_ids import is_uuid
from restante.model.publishing.message import Message, State
from restante.ports.content import Content, ContentRequest, OriginPort
from restante.settings import Settings
from tests.hub import comparing, drafts
from tests.hub.drafts import (
    CONTRADICTIONS,
    DRAFTS,
    LAYOUTS,
    ORIGINS,
    PARCELS,
    RECIPIENT,
    RECIPIENTS,
    REQUESTS,
    SHAPES,
    SPOILS,
    UNHEARD_OF,
    Draft,
)
from tests.hub.engines import ENGINES, FakeClock
from tests.producers.machines import drive, drive_for_long
from tests.profiles import by_profile
from tests.reference.hub import ReferenceHub
from tests.reference.intake import as_time
from tests.reference.mailbox import BundleRecord, Letter
from tests.reference.office import Office, ReferenceStore
from tests.reference.recipient import ReferenceRecipient

CAMPAIGNS = {"memory": by_profile(dev=1, ci=8), "sqlite": by_profile(dev=1, ci=4)}
CAMPAIGNS_COLLIDING = by_profile(dev=1, ci=2)
CAMPAIGN_EXAMPLES = by_profile(dev=2, ci=9)
SHRINKING_SECONDS = 900
"""A failure is shrunk for up to five minutes before it is shown."""

BY_HAND = ("withdraw", "set_aside", "release", "find")
REFUSALS = (*SPOILS, "partition", "partition")
FORMAT = st.sampled_from([None, None, None, "json", "xml"])
PURGES: SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"origin": "charges"},
        {"origin": "points", "kind": "a"},
        {"kind": "b"},
        {"before": 0},
        {"before": 1},
        {"before": 40, "origin": "series"},
        {"all": True},
        {},
    ]
)
PAGES: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"limit": st.integers(1, 3), "state": st.sampled_from([None, None, None, *State])}
)
PICK = st.integers(0, 1_000)
MADE_BEFORE = 2**64
"""Ids that the machine gives are small numbers; those that a hub makes are not."""


def is_given(message_id: str | None) -> bool:
    return message_id is not None and (not is_uuid(message_id) or UUID(message_id).int < MADE_BEFORE)


class Courier:
    """The origins' side: delivers content or fails, and remembers what it was asked."""

    def __init__(self) -> None:
        self.delivers = True
        self.requests: list[ContentRequest] = []

    def deliver(self, request: ContentRequest) -> Content:
        self.requests.append(request)
        if not self.delivers:
            raise RuntimeError("the origin is down")
        return Content(data=f"{request.format} of {len(request.message_ids)}".encode(), media_type="text/plain")

    def ports(self) -> dict[str, OriginPort]:
        return {origin: OriginPort(content=self.deliver) for origin in ORIGINS}

    def asked(self) -> list[tuple[object, ...]]:
        return [
            (request.bundle_id, request.recipient, request.format, tuple(map(self._shown, request.message_ids)))
            for request in self.requests
        ]

    def _shown(self, message_id: str) -> str:
        return message_id if is_given(message_id) else comparing.MADE

    def request_ids_are_stable(self) -> bool:
        """One for each bundle, always the same."""
        bundles = {(request.recipient, request.bundle_id, request.message_ids) for request in self.requests}
        pairs = {(request.recipient, request.bundle_id, request.request_id) for request in self.requests}
        return len(bundles) == len(pairs) == len({request.request_id for request in self.requests})


STEPS: list[tuple[int, str, dict[str, SearchStrategy[Any]]]] = [
    (6, "publish", {"written": PARCELS, "as_table": st.booleans()}),
    (1, "publish_to_everybody", {"written": DRAFTS, "as_table": st.booleans()}),
    (2, "publish_again", {"pick": PICK, "written": st.lists(DRAFTS, max_size=2), "as_table": st.booleans()}),
    (2, "publish_in_conflict", {"pick": PICK, "written": PARCELS, "how": st.sampled_from(CONTRADICTIONS)}),
    (1, "publish_what_is_refused", {"pick": PICK, "written": PARCELS, "how": st.sampled_from(REFUSALS)}),
    (8, "peek", {"name": RECIPIENT, "request": REQUESTS, "shape": SHAPES, "format": FORMAT}),
    (3, "peek_with_an_id", {"name": RECIPIENT, "request": REQUESTS, "pick": PICK}),
    (3, "collect", {"name": RECIPIENT, "request": REQUESTS, "shape": SHAPES}),
    (4, "dequeue_an_open_bundle", {"pick": PICK}),
    (2, "dequeue", {"name": RECIPIENT, "pick": PICK}),
    (4, "settle_by_hand", {"pick": PICK, "state": st.sampled_from(State), "what": st.sampled_from(BY_HAND)}),
    (5, "set_aside_or_release", {"pick": PICK}),
    (1, "purge", {"name": RECIPIENT, "which": PURGES, "dry_run": st.booleans()}),
    (1, "erase", {"name": RECIPIENT, "dry_run": st.booleans()}),
    (6, "time_passes", {"seconds": st.sampled_from(drafts.ADVANCES)}),
    (4, "keep_house", {"what": st.sampled_from(["file", "file", "expire", "retain"])}),
    (2, "time_passes_and_all_is_tidied", {"seconds": st.sampled_from(drafts.ADVANCES)}),
    (2, "reopen", {"layout": LAYOUTS}),
    (2, "the_origins_fail_or_recover", {}),
    (1, "explain", {"name": RECIPIENT, "request": REQUESTS}),
    (1, "list_recipients", {"order": st.sampled_from(["waiting", "oldest"])}),
    (1, "page_through_history", {"name": RECIPIENT, "pick": PICK, "page": PAGES}),
]
"""Everything that may be done, how often, and with what. One rule with weights finds far more than a rule each: the
machine would switch rules off at random, and an example without publishing or peeking shows nothing."""


def _weighted_steps() -> SearchStrategy[Step]:
    some = [(what, how) for weight, what, how in STEPS for _ in range(weight)]
    return st.sampled_from(some).flatmap(lambda one: st.builds(Step, st.just(one[0]), st.fixed_dictionaries(one[1])))


class Step(NamedTuple):
    what: str
    how: dict[str, Any]


class TwoHubs(RuleBasedStateMachine):
    """Does the same to both and compares."""

    engine_name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.folder = TemporaryDirectory()
        self.engine = ENGINES[self.engine_name](Path(self.folder.name) / "data")
        self.store = ReferenceStore()
        self.couriers = (Courier(), Courier())
        self.sends: list[list[Message]] = []
        self.made_ids = 0
        self.bundle_ids: dict[str, None] = {}
        self.peeking = RECIPIENTS[0]
        self.real: Hub | None = None

    @initialize(layout=LAYOUTS, stock=st.lists(PARCELS, min_size=2, max_size=5))
    def begin_with_some_mail(self, layout: Settings, stock: list[list[Draft]]) -> None:
        self.open(layout)
        for written in stock:
            self.publish(written, as_table=False)

    def open(self, layout: Settings) -> None:
        real_ports, reference_ports = (courier.ports() for courier in self.couriers)
        self.real = self.engine.open(settings=layout, origins=real_ports, clock=self.clock)
        office = Office(self.store, layout, reference_ports, self.clock, self._bundle_id_of_real)
        self.reference = ReferenceHub(office)

    @property
    def hub(self) -> Hub:
        assert self.real is not None
        return self.real

    def teardown(self) -> None:
        if self.real is not None:
            self.real.close()
        self.folder.cleanup()

    def both(self, act: Callable[[Hub], object]) -> None:
        got = comparing.outcome(lambda: act(self.hub), is_given)
        expected = comparing.outcome(lambda: act(cast("Hub", self.reference)), is_given)
        assert got == expected, comparing.difference(got, expected)

    def _bundle_id_of_real(self) -> str:
        """The id that the real hub made for the bundle that the reference is about to open."""
        known = self.store.mailbox(self.peeking).bundles
        opened = self.hub.recipient(self.peeking).explain().open_bundles
        return next((bundle.bundle_id for bundle in opened if bundle.bundle_id not in known), str(uuid4()))

    def _settle_the_rest(self, *, at_most: int) -> None:
        """What the rules leave open is whether something expired was settled in passing, or will be later."""
        assert self.hub.expire() <= at_most
        self.reference.expire()

    def _expired(self) -> int:
        """How much has expired and is not settled."""
        mailboxes = [self.store.mailbox(name) for name in RECIPIENTS]
        return sum(mailbox.unsettled_expired(one, self.clock.now) for mailbox in mailboxes for one in mailbox.letters)

    @rule(step=_weighted_steps())
    def take(self, step: Step) -> None:
        getattr(self, step.what)(**step.how)

    # Publishing.

    def _messages(self, written: list[Draft]) -> list[Message]:
        start = self.made_ids
        self.made_ids += len(written)
        return [draft.message(number=start + at, now=self.clock.now) for at, draft in enumerate(written)]

    def _send(self, messages: list[Message], *, as_table: bool, partition: int | None = None) -> None:
        sendable = drafts.as_table(messages) if as_table else messages
        self.both(lambda hub: hub.producer.send(sendable, partition=partition))

    def publish(self, written: list[Draft], as_table: bool) -> None:
        messages = self._messages(written)
        self._send(messages, as_table=as_table)
        self.sends.append([message for message in messages if message.id is not None])

    def publish_to_everybody(self, written: Draft, as_table: bool) -> None:
        """One id for many recipients: these are different messages."""
        (message,) = self._messages([written._replace(has_id=True)])
        messages = [msgspec.structs.replace(message, recipient=name) for name in RECIPIENTS]
        self._send(messages, as_table=as_table)
        self.sends.append(messages)

    def publish_again(self, pick: int, written: list[Draft], as_table: bool) -> None:
        again = self.sends[pick % len(self.sends)]
        self._send([*again, *self._messages(written), *again[:1]], as_table=as_table)

    def publish_in_conflict(self, pick: int, written: list[Draft], how: str) -> None:
        sent = [message for send in self.sends for message in send]
        messages = self._messages([draft._replace(has_id=True) for draft in written])
        chosen = messages[0] if pick % 3 == 0 or not sent else sent[pick % len(sent)]
        self._send([*messages, drafts.contradicted(chosen, how)], as_table=pick % 2 == 0)

    def publish_what_is_refused(self, written: list[Draft], pick: int, how: str) -> None:
        messages = self._messages(written)
        at = pick % len(messages)
        if how == "partition":
            self._send(messages[at:], as_table=False, partition=pick % 4 - 1)
        else:
            messages[at] = drafts.spoiled(messages[at], how)
            self._send(messages, as_table=False)

    # Collecting.

    def peek(self, name: str, request: dict[str, Any], shape: dict[str, Any], format: str | None) -> None:
        self._peek(name, {**request, **shape, "format": format})

    def peek_with_an_id(self, name: str, request: dict[str, Any], pick: int) -> None:
        self._peek(name, {**request, "bundle_id": self._some_bundle_id(pick)})

    def _peek(self, name: str, wished: dict[str, Any]) -> None:
        options = self._askable(name, wished)
        self.peeking = name
        self.both(lambda hub: hub.recipient(name).peek(**options))
        self._compare_requests()
        self._settle_the_rest(at_most=self._expired())

    def _askable(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Not a group of which the recipient had messages once: a hub may know it until their bytes are gone."""
        layout = self.reference.office.settings
        stored = {letter.message.origin for letter in self.store.mailbox(name).letters}
        gone = {layout.group_of(origin) for origin in ORIGINS if origin not in stored}
        doubtful = gone - {layout.group_of(origin) for origin in stored} - set(layout.origin_groups)
        groups = [UNHEARD_OF if group in doubtful else group for group in request.get("origin_groups", ())]
        return {**request, "origin_groups": groups}

    def _compare_requests(self) -> None:
        real, reference = self.couriers
        assert real.asked() == reference.asked()
        assert real.request_ids_are_stable()

    def _bundles(self) -> list[tuple[str, BundleRecord]]:
        """Every bundle there is, open ones first."""
        held = [(name, record) for name in RECIPIENTS for record in self.store.mailbox(name).bundles.values()]
        return sorted(held, key=lambda one: not one[1].open)

    def _some_bundle_id(self, pick: int) -> str:
        """One that is open, or was used, or is another's, or was forgotten, or is new, or malformed."""
        known = [record.bundle_id for _, record in self._bundles()]
        self.bundle_ids.update(dict.fromkeys(known))
        some = [*known, *self.bundle_ids, str(UUID(int=2**100 + pick)), "malformed"]
        return some[pick % len(some)]

    def dequeue(self, name: str, pick: int) -> None:
        """Any bundle, by its recipient or by another."""
        bundle_id = self._some_bundle_id(pick)
        self.both(lambda hub: hub.recipient(name).dequeue(bundle_id))
        self.dequeue_again(pick)

    def dequeue_again(self, pick: int) -> None:
        held = [(name, record.bundle_id) for name, record in self._bundles() if not record.open]
        if held:
            name, bundle_id = held[pick % len(held)]
            self.both(lambda hub: hub.recipient(name).dequeue(bundle_id))

    def dequeue_an_open_bundle(self, pick: int) -> None:
        held = [(name, record.bundle_id) for name, record in self._bundles() if record.open]
        if held:
            name, bundle_id = held[pick % len(held)]
            self.both(lambda hub: hub.recipient(name).dequeue(bundle_id))

    def collect(self, name: str, request: dict[str, Any], shape: dict[str, Any]) -> None:
        """Peek and dequeue at once, so that mailboxes do get emptied."""
        self._peek(name, {**request, **shape})
        first = self.store.mailbox(name).open_bundle_among(None)
        if first is not None:
            self.both(lambda hub: hub.recipient(name).dequeue(first.bundle_id))

    # Settling by hand.

    def _given_letters(self, state: State | None) -> list[tuple[str, Letter]]:
        """Those stored under an id that was given, in that state (None for any)."""
        stored = [(self.store.mailbox(name), name) for name in RECIPIENTS]
        return [
            (name, letter)
            for mailbox, name in stored
            for letter in mailbox.letters
            if is_given(letter.message.id) and state in (None, mailbox.state_of(letter, self.clock.now))
        ]

    def _some_message(self, state: State, pick: int) -> tuple[str, str]:
        """One that is stored, preferably in that state; sometimes one that is not, or is malformed."""
        alike = self._given_letters(state) or self._given_letters(None)
        if pick % 17 and alike:
            name, letter = alike[pick % len(alike)]
            return name, letter.message.id or ""
        gone = [(message.recipient, message.id or "") for send in self.sends for message in send]
        some = [*gone, (RECIPIENTS[0], drafts.message_id(10**9)), (RECIPIENTS[0], "..")]
        return some[pick % len(some)]

    def settle_by_hand(self, pick: int, state: State, what: str) -> None:
        name, message_id = self._some_message(state, pick)
        self._by_hand(name, message_id, what)

    def _by_hand(self, name: str, message_id: str, what: str) -> None:
        self.both(lambda hub: getattr(hub.recipient(name), what)(message_id))
        if what == "set_aside":
            self._settle_the_rest(at_most=self._expired())

    def set_aside_or_release(self, pick: int) -> None:
        """Something lies aside, and comes back later."""
        enough = len(self._given_letters(State.SET_ASIDE)) > pick % 4
        state, what = (State.SET_ASIDE, "release") if enough else (State.WAITING, "set_aside")
        name, message_id = self._some_message(state, pick)
        self._by_hand(name, message_id, what)

    def purge(self, name: str, which: dict[str, Any], dry_run: bool) -> None:
        options = dict(which)
        if "before" in which:
            options["before"] = as_time(self.clock.now) - timedelta(seconds=which["before"])
        expired = self._expired()
        self.both(lambda hub: hub.recipient(name).purge(**options, dry_run=dry_run))
        self._settle_the_rest(at_most=expired)

    def erase(self, name: str, dry_run: bool) -> None:
        self.both(lambda hub: hub.recipient(name).erase(dry_run=dry_run))

    # Housekeeping.

    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    def keep_house(self, what: str) -> None:
        if what == "file":
            self.hub.file()
        else:
            self.both(lambda hub: getattr(hub, what)())

    def time_passes_and_all_is_tidied(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.hub.file()
        self.both(lambda hub: hub.expire())
        self.both(lambda hub: hub.retain())

    def reopen(self, layout: Settings) -> None:
        self.hub.close()
        self.open(layout)

    def the_origins_fail_or_recover(self) -> None:
        for courier in self.couriers:
            courier.delivers = not courier.delivers

    # Looking.

    def explain(self, name: str, request: dict[str, Any]) -> None:
        askable = self._askable(name, request)
        self.both(lambda hub: hub.recipient(name).explain(**askable).reason.value)

    def list_recipients(self, order: Literal["waiting", "oldest"]) -> None:
        self.clock.advance(6)
        self.both(lambda hub: hub.expire())
        self.both(lambda hub: hub.recipients(order=order))

    def page_through_history(self, name: str, pick: int, page: dict[str, Any]) -> None:
        def turned_to(hub: Hub) -> object:
            whole = hub.recipient(name).history(limit=comparing.HISTORY).messages
            number = whole[pick % len(whole)].sequence_number if whole else 7
            bounds: dict[str, Any] = {"before" if pick % 2 else "after": number}
            return hub.recipient(name).history(**bounds, **page)

        self.both(turned_to)

    @invariant()
    def every_mailbox_looks_the_same(self) -> None:
        for name in RECIPIENTS:
            got = comparing.view_mailbox(self.hub, name, is_given)
            expected = comparing.view_mailbox(cast("Hub", self.reference), name, is_given)
            assert got == expected, f"{name}: {comparing.difference(got, expected)}"

    @invariant()
    def open_bundles_keep_their_messages(self) -> None:
        for name, record in self._bundles():
            if record.open and record.letters[0].inline:
                options: dict[str, Any] = {"origins": [record.origin], "bundle_id": record.bundle_id}
                self.both(partial(_peek_with, name, options))


def _peek_with(name: str, options: dict[str, Any], hub: Hub) -> object:
    return hub.recipient(name).peek(**options)


@pytest.mark.parametrize(("reference", "real"), [(ReferenceHub, Hub), (ReferenceRecipient, Recipient)])
def test_calls_of_the_reference_take_what_those_of_the_hub_take(reference: type, real: type) -> None:
    for name, call in inspect.getmembers(reference, inspect.isfunction):
        if not name.startswith("_") and name != "pipeline":  # that of the producer, which the reference hub is too
            assert _parameters(call) == _parameters(getattr(real, name)), name


def _parameters(call: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize(
    ("engine", "campaign"), [(engine, number) for engine, count in CAMPAIGNS.items() for number in range(count)]
)
def test_the_hub_does_what_the_reference_does(engine: str, campaign: int) -> None:
    drive(TwoHubs, campaigns=1, examples=CAMPAIGN_EXAMPLES, engine_name=engine)


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("campaign", range(CAMPAIGNS_COLLIDING))
def test_recipients_whose_hashes_collide_keep_their_own_mail(monkeypatch: pytest.MonkeyPatch, campaign: int) -> None:
    monkeypatch.setattr(hashing, "_hashes_of_words", lambda matrix, lengths, key: np.full(len(lengths), 7, np.uint64))
    monkeypatch.setattr(hashing, "_hash_of_words", lambda content, key: 7)
    drive(TwoHubs, campaigns=1, examples=CAMPAIGN_EXAMPLES, engine_name="memory")


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("engine", list(CAMPAIGNS))
def test_the_hub_does_what_the_reference_does_for_long(engine: str) -> None:
    drive_for_long(TwoHubs, examples=CAMPAIGN_EXAMPLES, engine_name=engine)
