"""The machine of the hub's rules, with consignments: what is staged is seen by nobody, what is committed by everybody.

The reference hub knows nothing of what is staged. So the two hubs look the same after each step only if staged mail is
seen by nobody, and all of it at once when it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from uuid import UUID

import msgspec
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from restante.calls.batches import ReadBatch
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.calls.mailboxes import FindMessage, ListPartitions, PartitionOf
from restante.errors import BatchUnknown, FaultyMessages, RestanteError
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import BatchState
from restante.model.consignments.consignment_answers import ConsignmentDetails, ConsignmentState, Winner
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from restante.settings import Settings
from tests.consignments.examined import findings_at
from tests.consignments.model import (
    COMMITTED,
    DISCARDED,
    OPEN,
    Consignment,
    Consignments,
    ParcelName,
    attempts_of,
    batch_counts,
    partitions_of,
    shown_attempts,
)
from tests.crash.seen import inside
from tests.hub import comparing, drafts
from tests.hub.drafts import CONTRADICTIONS, DRAFTS, LAYOUTS, PARCELS, RECIPIENT, REQUESTS, SHAPES, SPOILS, Draft
from tests.hub.test_against_reference import BY_HAND, PICK, PURGES, TwoHubs, is_given
from tests.producers.machines import Step, Weighted, weighted
from tests.reference.intake import as_time

KEYS = ("night", "day", "week")
WRITERS = ("one", "two", "three")
IDLE_SECONDS = 60.25
RETENTION_SECONDS = 150.25
"""A quarter off every sum of the seconds that pass, so that nothing was ever done exactly that long ago."""
NOBODY = str(UUID(int=0xDEAD))

WRITER = st.sampled_from(WRITERS)
ATTEMPT = st.sampled_from([0, 0, 0, 1, 7])
PARCEL = st.sampled_from([0, 1, 2, 3, 2**63 - 1])
NAME = st.builds(ParcelName, WRITER, ATTEMPT, PARCEL)
FLAW = st.sampled_from([*[""] * 8, "count", "missing", "twice", "nobody", "nothing"])

STAGING: Weighted = [
    (12, "stage", {"pick": PICK, "name": NAME, "written": st.one_of(PARCELS, st.just([])), "as_table": st.booleans()}),
    (2, "open_one", {"key": st.sampled_from(KEYS), "batch": st.sampled_from([False, False, True])}),
    (5, "stage_what_is_known", {"pick": PICK, "name": NAME, "written": st.lists(DRAFTS, max_size=2)}),
    (4, "stage_again", {"pick": PICK, "how": st.sampled_from(["same", "same", "table", "other", "less", "more"])}),
    (2, "stage_in_conflict", {"pick": PICK, "name": NAME, "how": st.sampled_from(CONTRADICTIONS)}),
    (1, "stage_what_is_refused", {"pick": PICK, "name": NAME, "written": PARCELS, "how": st.sampled_from(SPOILS)}),
    (8, "commit", {"pick": PICK, "order": st.permutations(WRITERS), "attempts": PICK, "flaw": FLAW}),
    (2, "commit_again", {"pick": PICK, "order": st.permutations(WRITERS)}),
    (2, "discard", {"pick": PICK}),
    (2, "keep_consignments", {"seconds": st.sampled_from([0, 1, 40, 61])}),
    (3, "publish_what_is_staged", {"pick": PICK, "how": st.sampled_from([*["same"] * 4, *CONTRADICTIONS])}),
    (2, "list_consignments", {"limit": st.integers(1, 3)}),
]
MAIL: Weighted = [
    (3, "publish", {"written": PARCELS, "as_table": st.booleans()}),
    (1, "publish_again", {"pick": PICK, "written": st.lists(DRAFTS, max_size=2), "as_table": st.booleans()}),
    (4, "peek", {"name": RECIPIENT, "request": REQUESTS, "shape": SHAPES, "format": st.none()}),
    (3, "collect", {"name": RECIPIENT, "request": REQUESTS, "shape": SHAPES}),
    (2, "dequeue_an_open_bundle", {"pick": PICK}),
    (2, "settle_by_hand", {"pick": PICK, "state": st.none(), "what": st.sampled_from(BY_HAND)}),
    (3, "set_aside_or_release", {"pick": PICK}),
    (1, "purge", {"name": RECIPIENT, "which": PURGES, "dry_run": st.just(False)}),
    (1, "erase", {"name": RECIPIENT, "dry_run": st.just(False)}),
    (3, "time_passes", {"seconds": st.sampled_from(drafts.ADVANCES)}),
    (3, "keep_house", {"what": st.sampled_from(["file", "file", "expire", "retain"])}),
    (2, "time_passes_and_all_is_tidied", {"seconds": st.sampled_from(drafts.ADVANCES)}),
    (3, "reopen", {"layout": LAYOUTS}),
    (1, "list_recipients", {"order": st.sampled_from(["waiting", "oldest"])}),
]


class Consigned(TwoHubs):
    """Both hubs, and what the model of consignments makes of the second."""

    engine_name: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.consignments = Consignments()

    @property
    def core(self) -> OpenHub:
        return inside(self.hub)

    def open(self, layout: Settings) -> None:
        super().open(
            msgspec.structs.replace(
                layout, consignment_idle_seconds=IDLE_SECONDS, consignment_retention_seconds=RETENTION_SECONDS
            )
        )

    def reopen(self, layout: Settings) -> None:
        self.hub.close()
        assert findings_at(self.engine) == ()
        self.open(layout)
        for one in self.consignments.known.values():
            if one.state is OPEN and self.core.call(ReadConsignment(one.id)).last_activity_at == as_time(one.staged_at):
                one.last_activity_at = one.staged_at

    def teardown(self) -> None:
        if self.real is not None:
            self.real.close()
            self.real = None
            assert findings_at(self.engine) == ()
        super().teardown()

    @rule(step=weighted([*STAGING, *MAIL]))
    def take(self, step: Step) -> None:
        getattr(self, step.what)(**step.how)

    # Opening.

    def open_one(self, key: str, batch: bool) -> None:
        # Ids ascend with the time, so that the newest can be listed first.
        self.clock.advance(0.001)
        opened = self.core.call(BeginConsignment(key, batch=batch))
        one, created = self.consignments.open(key, now=self.clock.now, new=lambda: (opened.id, opened.batch))
        assert (opened.id, opened.key, opened.state, opened.batch) == (one.id, one.key, one.state, one.batch)
        assert opened.created == created
        if created:
            assert (opened.batch is not None) == batch
        self._adopt_activity(one)
        event(f"opened: new {created}, {one.state.value}")

    def _some(self, pick: int, *states: ConsignmentState) -> Consignment | None:
        found = [one for one in self.consignments.known.values() if not states or one.state in states]
        return found[pick % len(found)] if found else None

    def _some_open(self, pick: int) -> Consignment:
        """One that is open; it is opened if need be."""
        found = self._some(pick, OPEN)
        if found is None:
            free = [key for key in KEYS if self.consignments.with_key(key) is None]
            self.open_one((free or ["one more"])[pick % len(free or [""])], batch=pick % 3 == 0)
            found = self._some(pick, OPEN) or self._some(pick)
        assert found is not None
        return found

    def _adopt_activity(self, one: Consignment) -> None:
        """Whether something that changed nothing counts as activity is left open."""
        if one.state is OPEN:
            shown = self.core.call(ReadConsignment(one.id)).last_activity_at
            assert shown in (as_time(one.last_activity_at), as_time(self.clock.now))
            if shown != as_time(one.last_activity_at):
                one.last_activity_at = self.clock.now

    # Staging.

    def compare(self, act: Callable[[OpenHub], object], expect: Callable[[], object]) -> object:
        """The answer of both, or the error of both."""
        got, expected = outcome(lambda: act(self.core)), outcome(expect)
        assert got == expected, f"{got} ≠ {expected}"
        return got

    def _stage(self, one: Consignment, messages: Sequence[Message], name: ParcelName, *, as_table: bool) -> None:
        # The tables of the drafts have no column for document types.
        plain = all(message.document_type is None for message in messages)
        sendable = drafts.as_table(messages) if as_table and plain else list(messages)
        known = name in one.parcels
        answer = self.compare(
            lambda hub: hub.call(
                StageParcel.of(one.id, sendable, writer=name.writer, attempt=name.attempt, parcel=name.parcel)
            ),
            lambda: self.consignments.stage(self.reference, one.id, messages, name),
        )
        self._adopt_activity(one)
        event(f"staged, known {known}: {answer if isinstance(answer, tuple) else 'yes'}")

    def stage(self, pick: int, name: ParcelName, written: list[Draft], as_table: bool) -> None:
        one = self._some_open(pick) if pick % 9 else self._some(pick) or self._some_open(pick)
        if name in one.parcels:
            return self.stage_again(pick, "table" if as_table else "same")
        messages = self._messages(written)
        self.sends.append([message for message in messages if message.id is not None])
        return self._stage(one, messages, name, as_table=as_table)

    def stage_what_is_known(self, pick: int, name: ParcelName, written: list[Draft]) -> None:
        """Stored before, or staged by another writer, or by another attempt, or in another consignment."""
        one = self._some_open(pick)
        if name not in one.parcels:
            known = self.sends[pick % len(self.sends)]
            self._stage(one, [*self._messages(written), *known, *known[:1]], name, as_table=pick % 2 == 0)

    def stage_again(self, pick: int, how: str) -> None:
        one = self._some_open(pick)
        if not one.parcels:
            return
        name = sorted(one.parcels)[pick % len(one.parcels)]
        sent = one.parcels[name].sent
        messages = {
            "other": [msgspec.structs.replace(message, data=b"another") for message in sent[:1]] + sent[1:],
            "less": sent[:-1],
            "more": [*sent, *self._messages([_ANY])],
        }.get(how, sent)
        self._stage(one, messages, name, as_table=how == "table")

    def stage_in_conflict(self, pick: int, name: ParcelName, how: str) -> None:
        """With what is stored: refused at once. With what is staged only: at the commit."""
        one, sent = self._some_open(pick), [message for send in self.sends for message in send]
        if name not in one.parcels and sent:
            self._stage(one, [drafts.contradicted(sent[pick % len(sent)], how)], name, as_table=False)

    def stage_what_is_refused(self, pick: int, name: ParcelName, written: list[Draft], how: str) -> None:
        one, messages = self._some_open(pick), self._messages(written)
        messages[pick % len(messages)] = drafts.spoiled(messages[pick % len(messages)], how)
        if name not in one.parcels and one.state is OPEN:
            self._stage(one, messages, name, as_table=False)

    # Ending.

    def _winners(self, one: Consignment, order: Sequence[str], attempts: int) -> list[Winner]:
        """Of each writer one of its attempts; a few writers are left out."""
        winners = []
        for at, writer in enumerate(order):
            own = sorted({name.attempt for name in one.parcels if name.writer == writer})
            if own and (attempts + at) % 5:
                attempt = own[attempts % len(own)]
                winners.append(Winner(writer=writer, attempt=attempt, messages=one.count(writer, attempt)))
        return winners

    def commit(self, pick: int, order: Sequence[str], attempts: int, flaw: str) -> None:
        full = [one for one in self.consignments.known.values() if one.parcels]
        one = full[pick % len(full)] if full and pick % 8 else self._some(pick, OPEN)
        if one is None:
            return
        winners = self._winners(one, order, attempts)
        match flaw:
            case "count" if winners:
                winners[0] = msgspec.structs.replace(winners[0], messages=abs(winners[0].messages + pick % 3 - 1))
            case "missing":
                winners.append(Winner(writer="four", attempt=pick % 2, messages=pick % 2))
            case "twice":
                winners += winners[:1]
            case "nothing" if pick % 3 == 0:
                winners = []
        self._commit(one, winners)

    def commit_again(self, pick: int, order: Sequence[str]) -> None:
        """Of what is closed, whatever is said; or of what nobody knows."""
        one = self._some(pick, COMMITTED, DISCARDED)
        if one is None:
            self.compare(
                lambda hub: hub.call(CommitConsignment(NOBODY, [])),
                lambda: self.consignments.commit(self.reference, NOBODY, []),
            )
        elif pick % 2:
            self._commit(one, one.named[::-1])
        else:
            self._commit(one, [Winner(writer=writer, attempt=0, messages=pick) for writer in order[: pick % 3]])

    def _commit(self, one: Consignment, winners: Sequence[Winner]) -> None:
        before, visible = one.state, self.core.call(ListPartitions())
        answer = outcome(lambda: self.core.call(CommitConsignment(one.id, winners)))
        expected = outcome(lambda: self.consignments.commit(self.reference, one.id, winners))
        refused = refusals(lambda: self.consignments.commit(self.reference, one.id, winners))
        if refused:
            # What of it is told first is left open.
            told = refusals(lambda: self.core.call(CommitConsignment(one.id, winners)))
            assert told
            assert told <= refused
        else:
            assert answer == expected, f"{answer} ≠ {expected}"
        if before is OPEN and one.state is COMMITTED:
            self._check_committed(one, [status.visible_sequence for status in visible])
        self._adopt_activity(one)
        outcomes = f"{before.value}, {answer[0] if isinstance(answer, tuple) else answer}"
        event(f"committed: {outcomes}, with duplicates {bool(one.receipt and one.receipt.duplicates)}")

    def _check_committed(self, one: Consignment, visible: Sequence[int]) -> None:
        """Numbers ascend in the order of writers, parcels and messages; all lie where the receipt says."""
        receipt = self.core.call(ReadConsignment(one.id)).receipt
        assert receipt is not None
        found: dict[int, list[int]] = {}
        for letter in one.letters:
            if is_given(letter.message.id):
                message = self.core.call(FindMessage(letter.message.recipient, letter.message.id or ""))
                assert message.published_at == as_time(self.clock.now)
                found.setdefault(self.core.call(PartitionOf(message.recipient)), []).append(
                    message.sequence_number or 0
                )
        for each in receipt.partitions:
            assert visible[each.partition] < each.first_sequence_number <= each.last_sequence_number
            assert each.last_sequence_number <= self.core.call(ListPartitions())[each.partition].visible_sequence
            numbers = found.get(each.partition, [])
            assert numbers == sorted(set(numbers))
            assert all(each.first_sequence_number <= number <= each.last_sequence_number for number in numbers)

    def discard(self, pick: int) -> None:
        one = self._some(pick)
        identity = NOBODY if one is None else one.id
        self.compare(
            lambda hub: hub.call(DiscardConsignment(identity)),
            lambda: self.consignments.discard(identity, self.clock.now),
        )

    # Housekeeping.

    def keep_house(self, what: str) -> None:
        super().keep_house(what)
        if what == "retain":
            self.consignments.keep_house(self.reference.office.settings, self.clock.now)

    def time_passes_and_all_is_tidied(self, seconds: int) -> None:
        super().time_passes_and_all_is_tidied(seconds)
        self.consignments.keep_house(self.reference.office.settings, self.clock.now)

    def keep_consignments(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.keep_house("retain")

    def publish_what_is_staged(self, pick: int, how: str) -> None:
        """It is stored between staging and commit, as it is staged or with other content."""
        parcels = [parcel for one in self.consignments.known.values() for parcel in one.parcels.values()]
        staged = [message for parcel in parcels for message in parcel.sent if message.id is not None]
        if staged:
            start = pick % len(staged)
            messages = staged[start : start + 1 + pick % 3]
            if how != "same":
                messages = [drafts.contradicted(messages[0], how)]
            self._send(messages, as_table=False)

    # Looking.

    def list_consignments(self, limit: int) -> None:
        for state in (None, *ConsignmentState):
            for key in (None, KEYS[limit % len(KEYS)]):
                self._list(state, key, limit)

    def _list(self, state: ConsignmentState | None, key: str | None, limit: int) -> None:
        listed, after = list[str](), None
        while True:
            page = self.core.call(ListConsignments(state=state, key=key, limit=limit, after=after))
            assert len(page.consignments) <= limit
            listed += [one.id for one in page.consignments]
            if page.next is None:
                break
            after = page.next
        expected = [
            one.id for one in self.consignments.known.values() if state in (None, one.state) and key in (None, one.key)
        ]
        assert listed == expected[::-1], "newest first"

    @invariant()
    def consignments_are_those_of_the_model(self) -> None:
        if self.real is None:
            return
        for one in self.consignments.known.values():
            details = self.core.call(ReadConsignment(one.id))
            assert shown(details) == expected_details(one), f"{shown(details)} ≠ {expected_details(one)}"
            assert shown_attempts(details.attempts) == attempts_of(one)
            assert sum(attempt.bytes for attempt in details.attempts) == details.staged_bytes
            assert (details.staged_bytes > 0) == (details.staged_messages > 0)
            assert outcome(lambda receipt=details.receipt: receipt) == outcome(lambda one=one: one.receipt)  # type: ignore[misc]
            if one.batch is not None:
                self._check_batch(one, one.batch)

    def _check_batch(self, one: Consignment, batch: str) -> None:
        if one.state is DISCARDED:
            try:
                status = self.core.call(ReadBatch(batch))
            except BatchUnknown:
                return
            raise AssertionError(f"the batch of a discarded consignment is there: {status}")
        status, counts = self.core.call(ReadBatch(batch)), batch_counts(self.reference, one)
        assert status.key == one.key
        assert (status.items, status.pending) == (counts.items, counts.pending)
        assert (status.collected, status.expired, status.withdrawn) == (
            counts.collected,
            counts.expired,
            counts.withdrawn,
        )
        assert status.duplicates == (one.receipt.duplicates if one.receipt else 0)
        if one.state is OPEN:
            assert status.state is BatchState.OPEN
        else:
            assert status.state is (BatchState.SEALED if counts.pending else BatchState.COMPLETE)

    @invariant()
    def what_is_forgotten_is_unknown(self) -> None:
        if self.real is not None:
            assert outcome(lambda: self.core.call(ReadConsignment(NOBODY))) == ("consignment_unknown", None, ())

    @invariant()
    def partitions_count_what_waits(self) -> None:
        if self.real is not None and not self._expired():
            counted = [(one.partition, one.waiting) for one in self.core.call(ListPartitions())]
            assert counted == [(one.partition, one.waiting) for one in self.reference.partitions()]


_ANY = Draft(
    recipient=drafts.RECIPIENTS[0],
    origin=drafts.ORIGINS[0],
    kind=drafts.KINDS[0],
    weight=None,
    bundleable=True,
    data=b"more",
    expires_in=None,
    properties=(),
    has_id=True,
)


def outcome(act: Callable[[], object]) -> Any:
    """An answer or an error as plain values; numbers are compared by their order only, elsewhere."""
    try:
        answer = act()
    except RestanteError as error:
        told = error.details.get("writers") if error.code == "consignment_incomplete" else error.details.get("state")
        return (error.code, told, comparing.view_faults(error))
    if isinstance(answer, Receipt):
        return (answer.accepted, answer.duplicates, partitions_of(answer))
    return answer


def refusals(act: Callable[[], object]) -> set[tuple[str, str | None]]:
    """Code and id of each message for which something is refused."""
    try:
        act()
    except FaultyMessages as error:
        return {(fault.code, fault.id) for fault in error.faults}
    except RestanteError:
        return set()
    return set()


def shown(details: ConsignmentDetails) -> tuple[object, ...]:
    times = (details.opened_at, details.last_activity_at if details.state is OPEN else None, details.closed_at)
    return (details.id, details.key, details.state, details.batch, times, details.staged_messages)


def expected_details(one: Consignment) -> tuple[object, ...]:
    active = as_time(one.last_activity_at) if one.state is OPEN else None
    times = (as_time(one.opened_at), active, None if one.closed_at is None else as_time(one.closed_at))
    return (one.id, one.key, one.state, one.batch, times, one.staged)
