"""What clients of a served hub were told, taken down as they are told it, and held against what the hub shows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from restante.client.surface.surface import Hub, Message, Receipt
from restante.errors import RestanteError
from restante.model.publishing.message import State
from tests.crash.load import ParcelName
from tests.crash.seen import check_counters, seen

PATIENCE_SECONDS = 60


class Peeked(NamedTuple):
    """A bundle as a peek answered it."""

    recipient: str
    ids: tuple[str, ...]


class WireLedger:
    """Shared by all threads of a load."""

    def __init__(self, shards: int = 1) -> None:
        self._shards = shards
        """Of several, a send is whole in each."""
        self._changed = threading.Condition()
        self.sent: dict[ParcelName, Sequence[Message]] = {}
        self.acknowledged: set[ParcelName] = set()
        self.found_stored = 0
        """Parcels that a repetition found stored."""
        self.bundles: dict[str, Peeked] = {}
        self._bundle_of: dict[tuple[str, str], str] = {}
        self.collected: dict[str, list[Message]] = {}
        """By recipient, in the order in which they came."""
        self._dequeued: set[str] = set()
        self.refusals: list[RestanteError] = []
        self.failures: list[BaseException] = []
        self.answers = 0
        """How often something was acknowledged."""

    # What clients do and are told

    def sends(self, name: ParcelName, messages: Sequence[Message]) -> None:
        with self._changed:
            self.sent[name] = messages

    def published(self, name: ParcelName, receipt: Receipt) -> None:
        """A parcel was sent by itself: all of it is new, or all of it had been stored by an attempt before."""
        count = len(self.sent[name])
        whole = (receipt.accepted, receipt.duplicates) in ((count, 0), (0, count))
        in_each = self._shards > 1 and receipt.accepted + receipt.duplicates == count
        assert whole or in_each, (name, receipt)
        with self._changed:
            self.found_stored += receipt.duplicates > 0
        self.pipelined(name)

    def pipelined(self, name: ParcelName) -> None:
        with self._changed:
            self.acknowledged.add(name)
        self._answered()

    def peeked(self, recipient: str, bundle_id: str, messages: Sequence[Message]) -> None:
        """The same bundle always has the same messages, and a message is in one bundle only."""
        ids = tuple(message.id or "" for message in messages)
        with self._changed:
            assert self.bundles.setdefault(bundle_id, Peeked(recipient, ids)) == (recipient, ids)
            for each in ids:
                before = self._bundle_of.setdefault((recipient, each), bundle_id)
                assert before == bundle_id, f"{each} is in two bundles"
        self._answered()

    def collects(self, bundle_id: str) -> None:
        """Who alone dequeues peeked it again: so it cannot have been dequeued before."""
        assert bundle_id not in self._dequeued, f"{bundle_id} came again"

    def dequeued(self, bundle_id: str, messages: Sequence[Message], count: int) -> None:
        assert count == len(messages)
        recipient = self.bundles[bundle_id].recipient
        with self._changed:
            self._dequeued.add(bundle_id)
            self.collected.setdefault(recipient, []).extend(messages)
        self._answered()

    def refused(self, error: RestanteError) -> None:
        """Only what may be tried again."""
        assert error.retriable, repr(error)
        with self._changed:
            self.refusals.append(error)

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def _answered(self) -> None:
        with self._changed:
            self.answers += 1
            self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Wait until so many more answers have come."""
        with self._changed:
            upto = self.answers + more
            came = self._changed.wait_for(lambda: self.answers >= upto or self.failures, PATIENCE_SECONDS)
        self.check_no_failure()
        assert came, f"{self.answers} answers, not {upto}, after {PATIENCE_SECONDS} s"

    # What must hold

    def check_no_failure(self) -> None:
        if self.failures:
            raise self.failures[0]

    def check(self, hub: Hub) -> None:
        """Everything that was sent is stored once, was collected once or waits, in order. Nothing is under way now."""
        assert self.sent.keys() == self.acknowledged
        names = sorted({message.recipient for messages in self.sent.values() for message in messages})
        found = seen(hub, names)
        check_counters(found)
        wanted: dict[str, dict[str, object]] = {name: {} for name in names}
        for messages in self.sent.values():
            for message in messages:
                wanted[message.recipient][message.id or ""] = message.data
        for name, mailbox in found.mailboxes.items():
            stored = {message.id or "": message.data for message in mailbox.history}
            assert len(stored) == len(mailbox.history), "stored twice"
            assert stored == wanted[name]
            check_publishers(mailbox.history)
            self._check_collected(name, mailbox.of(State.COLLECTED))

    def _check_collected(self, name: str, shown: Sequence[Message]) -> None:
        collected = self.collected.get(name, [])
        counts = Counter(message.id for message in collected)
        assert not counts or max(counts.values()) == 1, "collected twice"
        assert counts.keys() == {message.id for message in shown}
        last: dict[tuple[str, str], int] = {}
        for message in collected:
            cabinet, number = (message.origin, message.kind), message.sequence_number or 0
            assert number > last.get(cabinet, 0), "not in order"
            last[cabinet] = number


def check_publishers(history: Sequence[Message]) -> None:
    """What a publisher sent one after another is stored in that order."""
    last: dict[int, tuple[int, int]] = {}
    for message in history:
        publisher, *place, _ = message.data
        assert tuple(place) > last.get(publisher, (-1, -1)), message
        last[publisher] = (place[0], place[1])
