"""What the use cases share: the store, the memory of the partitions, the committer, the clock."""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from restante import limits
from restante.errors import InvalidRequest, OutcomeUnknown, Unavailable
from restante.hub.batch_work import BatchWork
from restante.hub.bell import Bell
from restante.hub.committer import Committer, JointPlan, Planned, Request
from restante.hub.feed_memory import FeedMemory
from restante.hub.live_mail import LivePost
from restante.hub.notice_schedule import Schedule
from restante.hub.partitions import Deed, Partition
from restante.hub.planning import Draft, Plan
from restante.hub.staging_room import StagingRoom
from restante.model.batch import Counts
from restante.model.changes import BlobKey, EntryKey, Space
from restante.model.hashing import text_hash
from restante.model.head import Head, decode_head
from restante.model.keys import Cabinet, after_prefix, key_cabinet, number_key
from restante.model.partition import partition_of
from restante.model.producer import ProducerRow
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.counters import Counters
from restante.ports.store import Store
from restante.ports.webhook import PostWebhook
from restante.settings import Settings

if TYPE_CHECKING:
    from restante.hub.hand_items import HandItems

T = TypeVar("T")


_TRIES_MAX = 1_000


class Stale(Exception):  # no error: a signal between the use cases and the committer
    """The mailbox has changed since it was looked into."""


@dataclass(frozen=True, slots=True)
class Address:
    """A recipient and where it lives."""

    recipient: str
    partition: int
    hash: int


class Pins:
    """Which readers are reading: blobs of merged runs go only when no reader that could name them is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._readers: dict[int, int] = {}
        self._buried: list[tuple[int, Sequence[BlobKey]]] = []

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            epoch = self._epoch
            self._readers[epoch] = self._readers.get(epoch, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._readers[epoch] -= 1
                if not self._readers[epoch]:
                    del self._readers[epoch]

    def bury(self, blobs: Sequence[BlobKey]) -> None:
        """Blobs that no run names any more."""
        with self._lock:
            self._buried.append((self._epoch, blobs))
            self._epoch += 1

    def bury_unless_named(self, blobs: Sequence[BlobKey], error: BaseException) -> None:
        """Blobs that were written ahead of a commit, which failed: they go, if it is sure that it will never name them.

        Whoever was interrupted while it waited, or does not know what became of the commit, leaves them where they are.
        What nobody names then is dropped when the store is opened.
        """
        if isinstance(error, Exception) and not isinstance(error, OutcomeUnknown):
            self.bury(blobs)

    def unreachable(self) -> list[BlobKey]:
        """Take the buried blobs that no reader can reach."""
        with self._lock:
            oldest = min(self._readers, default=self._epoch)
            free = [blob for epoch, blobs in self._buried if epoch < oldest for blob in blobs]
            self._buried = [entry for entry in self._buried if entry[0] >= oldest]
            return free


@dataclass(slots=True)
class Tally:
    """What numbered publishes met with, and batches and consignments came to, since the hub was opened."""

    replays: int = 0
    fenced: int = 0
    refused_numbers: int = 0
    batches_opened: int = 0
    batches_completed: int = 0
    batches_reaped: int = 0
    items_acknowledged: int = 0
    consignments_committed: int = 0
    consigned_accepted: int = 0
    consigned_duplicates: int = 0
    """Messages of committed consignments."""
    notices_delivered: dict[str, int] = field(default_factory=dict)
    notices_failed: dict[str, int] = field(default_factory=dict)
    """Attempts that failed, whether they are made again or not."""


@dataclass(slots=True)
class Core:
    """One open hub."""

    store: Store
    settings: Settings
    origins: Mapping[str, OriginPort]
    clock: Clock
    deed: Deed
    fence: int
    partitions: list[Partition]
    random: Callable[[int], bytes] = os.urandom
    pins: Pins = field(default_factory=Pins)
    bell: Bell = field(default_factory=Bell)
    live: LivePost = field(default_factory=LivePost)
    feed: FeedMemory = field(default_factory=FeedMemory)
    filing_locks: list[threading.Lock] = field(default_factory=list)
    """Whoever rewrites the runs of a partition holds its lock."""
    overdue: set[int] = field(default_factory=set)
    """Partitions with so many runs that their publishers have to help filing."""
    producers: dict[tuple[int, int], ProducerRow] = field(default_factory=dict)
    """By partition and group, the states of those who published last; only the committer's thread looks here."""
    producers_due: dict[int, int] = field(default_factory=dict)
    """By partition, before when no producer's state is past its retention."""
    batch_counts: dict[EntryKey, Counts] = field(default_factory=dict)
    """The counts of batches used last; only the committer's thread looks here."""
    hand_items: dict[bytes, HandItems] = field(default_factory=dict)
    """The items of batches used last, which comes last here; only the committer's thread looks here."""
    between_commits: deque[Callable[[], object]] = field(default_factory=deque)
    """What is done in the committer's thread before it plans the next commit, when none is half done."""
    batches_due: int = 0
    """Before this time no batch has been idle for so long that it may go."""
    batch_work: BatchWork = field(default_factory=BatchWork)
    staging: StagingRoom = field(default_factory=StagingRoom)
    """What consignments have staged."""
    tally: Tally = field(default_factory=Tally)
    filing_wanted: threading.Event = field(default_factory=threading.Event)
    outbox_waits: threading.Event = field(default_factory=threading.Event)
    notices: Schedule = field(default_factory=Schedule)
    """Whom to tell of completed batches, and when."""
    post_webhook: PostWebhook | None = None
    counters: Counters | None = None
    """Where estimated batches are counted."""
    closing: threading.Event = field(default_factory=threading.Event)
    content_seconds: float = limits.CONTENT_SECONDS_MAX
    committer: Committer = field(init=False)
    locate: Callable[[str], Address] = field(init=False)
    """Where a recipient lives; those asked for last are remembered."""

    def __post_init__(self) -> None:
        self.filing_locks = [threading.Lock() for _ in self.partitions]
        self.locate = lru_cache(limits.ADDRESSES_REMEMBERED_MAX)(self._locate)

    def start(self, plan_jointly: JointPlan) -> None:
        """Begin to commit."""
        self.committer = Committer(self._new_plan, plan_jointly, self._announce)

    def _announce(self, plan: Plan) -> None:
        self.live.announce(plan.mail)
        self.bell.ring(plan)

    def _new_plan(self) -> Plan:
        while self.between_commits:
            self.between_commits.popleft()()
        return Plan(self.store, self.partitions, self.fence)

    def commit(self, plan: Callable[[Draft], T]) -> T:
        """Plan and commit one small request, and wait for it."""
        return self.submit(Planned(plan))

    def do_between_commits(self, work: Callable[[], T]) -> T:
        """Have something done in the committer's thread while no commit is half done; gives what came of it.

        What it raises is the caller's to hear: the thread that everybody's commits depend on goes on.
        """
        done: Future[T] = Future()
        self.between_commits.append(partial(_do, work, done))
        while not done.done():
            self.commit(lambda _: None)
        return done.result()

    def submit(self, request: Request[T]) -> T:
        return self.committer.submit(request)

    def look_and_commit(self, attempt: Callable[[], T]) -> T:
        """Do what looks into a mailbox and then commits; again, if the mailbox changed in between."""
        for _ in range(_TRIES_MAX):
            with self.pins.reading():
                try:
                    return attempt()
                except Stale:
                    continue
        raise Unavailable("The mailbox changes faster than it can be read. Try again.")

    def address(self, recipient: str) -> Address:
        if not is_text(recipient) or not recipient.strip():
            raise InvalidRequest(f"A recipient's name is text that is not blank, not {recipient!r}.")
        if len(recipient) > limits.RECIPIENT_CHARACTERS_MAX:
            raise InvalidRequest(
                f"A recipient's name has at most {limits.RECIPIENT_CHARACTERS_MAX} characters, not {len(recipient)}."
            )
        return self.locate(recipient)

    def _locate(self, recipient: str) -> Address:
        return Address(
            recipient, partition_of(recipient, self.deed.partition_count), text_hash(recipient, self.deed.key)
        )

    def note_runs(self, partition: Partition) -> None:
        """The runs of a partition have changed."""
        if len(partition.runs) > limits.UNFILED_RUNS_MAX:
            self.overdue.add(partition.number)
        else:
            self.overdue.discard(partition.number)

    def claim_check_origins(self) -> frozenset[str]:
        return frozenset(name for name, port in self.origins.items() if port.content is not None)

    def heads(self, address: Address) -> dict[Cabinet, Head]:
        """The heads of a recipient's cabinets, as committed."""
        prefix = number_key(address.hash)
        entries = self.store.scan(address.partition, Space.HEAD, start=prefix, end=after_prefix(prefix))
        heads = {key_cabinet(key): decode_head(value) for key, value in entries}
        return {cabinet: head for cabinet, head in heads.items() if cabinet.recipient == address.recipient}

    def new_uuid(self) -> bytes:
        """A UUIDv7: sorts by time, to the microsecond or so."""
        milliseconds, microseconds = divmod(self.clock(), 1000)
        value = int.from_bytes(self.random(8), "big") & ~(0x3 << 62)
        value |= (milliseconds << 80) | (0x7 << 76) | ((microseconds * 4096 // 1000) << 64) | (0x2 << 62)
        return value.to_bytes(16, "big")


def _do(work: Callable[[], T], done: Future[T]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001  # whatever it is, whoever waits for it hears of it
        done.set_exception(error)


def is_text(value: object) -> bool:
    """Whether it can be stored as text: lone surrogates cannot."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def parse_uuid(text: str, what: str) -> bytes:
    try:
        parsed = uuid.UUID(text)
        if str(parsed) != text.lower():  # UUID takes braces, and dashes anywhere
            raise ValueError(text)
        return parsed.bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"{what} must be a UUID of 36 characters, not {text!r}.") from error


def uuid_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))
