"""`Core` holds what all subjects share, such as the store, the memory of the partitions, the committer and the clock."""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import merge
from typing import Any, TypeVar

from restante import limits
from restante.errors import InvalidRequest, OutcomeUnknown, Unavailable
from restante.hub.engine.bell import Bell
from restante.hub.engine.commit_request import CommitRequest, Planned
from restante.hub.engine.committer import Committer, JointPlan, LightPlan
from restante.hub.engine.partitions import Deed, Partition, not_owner
from restante.hub.engine.plan import CommitPlan, RequestDraft
from restante.model.columns.hashing import text_hash
from restante.model.names import name_problem
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.head import Head, decode_head
from restante.model.storage.keys import Cabinet, after_prefix, key_cabinet, number_key
from restante.model.storage.partition import partition_of
from restante.ports.carrier import Shard
from restante.ports.clerk import Clerk, OwnClerk
from restante.ports.clock import Clock
from restante.ports.store import Store
from restante.settings import Settings

T = TypeVar("T")
_PAGE = 200
"""The number of small rows that one scan reads."""
M = TypeVar("M")


_TRIES_MAX = 1_000


class Stale(Exception):  # no error: a signal between the use cases and the committer
    """The mailbox has changed since it was read."""


@dataclass(frozen=True, slots=True)
class MailboxAddress:
    """A recipient with its partition and its hash."""

    recipient: str
    partition: int
    hash: int


class Pins:
    """Pins keep the blobs of merged runs until the last reader that may still read them has ended.

    Each reader pins the epoch in which it began, and each burial of blobs begins a new epoch. So blobs can be dropped once
    no reader is left from their epoch or an earlier one.
    """

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

    def epoch(self) -> int:
        with self._lock:
            return self._epoch

    def any_before(self, epoch: int) -> bool:
        """Whether blobs that were buried before this epoch are still stored."""
        with self._lock:
            return any(buried < epoch for buried, _ in self._buried)

    def bury(self, blobs: Sequence[BlobKey]) -> None:
        """Give up blobs that no run names any more. `unreachable` returns them once no reader needs them."""
        with self._lock:
            self._buried.append((self._epoch, blobs))
            self._epoch += 1

    def bury_unless_named(self, blobs: Sequence[BlobKey], error: BaseException) -> None:
        """Bury blobs that were written ahead of a failed commit, if it is certain that the commit is not stored.

        After an interrupt or `OutcomeUnknown` it is not certain, so the blobs stay. If no run names them, the next opening
        of the store drops them.
        """
        if isinstance(error, Exception) and not isinstance(error, OutcomeUnknown):
            self.bury(blobs)

    def unreachable(self) -> list[BlobKey]:
        """Remove and return the buried blobs that no reader can reach."""
        with self._lock:
            oldest = min(self._readers, default=self._epoch)
            free = [blob for epoch, blobs in self._buried if epoch < oldest for blob in blobs]
            self._buried = [entry for entry in self._buried if entry[0] >= oldest]
            return free


@dataclass(slots=True)
class Core:
    """One open hub."""

    store: Store
    settings: Settings
    clock: Clock
    deed: Deed
    fence: int
    partitions: Sequence[Partition]
    """The partitions of this hub, indexed by partition number."""
    random: Callable[[int], bytes] = os.urandom
    shard: Shard | None = None
    """This hub's share when other shards have the rest of the partitions; None if this hub has all of them."""
    clerk: Clerk = field(default_factory=OwnClerk)
    """The clerk that computes merges, pages of the feed and large mailbags."""
    pins: Pins = field(default_factory=Pins)
    bell: Bell = field(default_factory=Bell)
    between_commits: deque[Callable[[], object]] = field(default_factory=deque)
    """Functions that the committer's thread calls before it plans the next commit, while no commit is in progress."""
    announcers: list[Callable[[CommitPlan], object]] = field(default_factory=list)
    """Functions of subjects that the committer calls when a commit is stored and in memory, before the bell rings."""
    closing: threading.Event = field(default_factory=threading.Event)
    committer: Committer = field(init=False)
    locate: Callable[[str], MailboxAddress] = field(init=False)
    """Computes the address of a recipient; the latest are cached."""
    _memories: dict[type, object] = field(default_factory=dict)

    owned: range = field(init=False)
    """The numbers of the partitions that this hub has."""

    def __post_init__(self) -> None:
        self.owned = range(self.deed.partition_count) if self.shard is None else self.shard.partitions
        self.locate = lru_cache(limits.ADDRESSES_REMEMBERED_MAX)(self._locate)

    def memory(self, kind: type[M]) -> M:
        """A subject's memory for this hub, found by its type and created on first use."""
        found = self._memories.get(kind)
        if found is None:
            found = self._memories.setdefault(kind, kind())
        return found  # type: ignore[return-value]  # it is kept under its own type

    def remember(self, memory: object) -> None:
        """Set a subject's memory: one that was loaded from the store, or was made with something that only the opener of the hub has."""
        self._memories[type(memory)] = memory

    def start(self, plan_jointly: JointPlan, plan_lightly: LightPlan, kind: type[Committer] = Committer) -> None:
        """Start the committer."""
        light_plan = partial(self._light_plan, plan_lightly)
        self.committer = kind(self._new_plan, plan_jointly, light_plan, self._announce, self.store.is_quick)

    def _light_plan(self, plan_lightly: LightPlan, requests: Sequence[CommitRequest[Any]]) -> CommitPlan | None:
        """A commit planned in an event loop; None if `between_commits` has work, or the requests need a closer look."""
        plan = CommitPlan(self.store, self.partitions, self.fence)
        return plan if not self.between_commits and plan_lightly(plan, requests) else None

    def _announce(self, plan: CommitPlan) -> None:
        for announce in self.announcers:
            announce(plan)
        self.bell.ring(plan)

    def _new_plan(self) -> CommitPlan:
        while self.between_commits:
            self.between_commits.popleft()()
        return CommitPlan(self.store, self.partitions, self.fence)

    def commit(self, plan: Callable[[RequestDraft], T]) -> T:
        """Commit one small request with this plan, and wait for its result."""
        return self.submit(Planned(plan))

    def do_between_commits(self, work: Callable[[], T]) -> T:
        """Call `work` in the committer's thread while no commit is in progress, and return its result.

        An error of `work` is raised here and not in the committer's thread, on which every commit depends.
        """
        done: Future[T] = Future()
        self.between_commits.append(partial(_do, work, done))
        while not done.done():
            self.commit(lambda _: None)
        try:
            return done.result()
        finally:
            del done  # The error's traceback holds this frame, and the future holds the error: this breaks the cycle.

    def submit(self, request: CommitRequest[T]) -> T:
        return self.committer.submit(request)

    def look_and_commit(self, attempt: Callable[[], T]) -> T:
        """Call `attempt`, which reads a mailbox and then commits; call it again if the mailbox changed in between."""
        for _ in range(_TRIES_MAX):
            with self.pins.reading():
                try:
                    return attempt()
                except Stale:
                    continue
        raise Unavailable("The mailbox changes faster than it can be read. Try again.")

    def address(self, recipient: str) -> MailboxAddress:
        """The address of a recipient; raises if the name is invalid or another shard has its partition."""
        address = self.address_anywhere(recipient)
        self.require_owned(address.partition)
        return address

    def address_anywhere(self, recipient: str) -> MailboxAddress:
        """The address of a recipient in any shard; raises if the name is invalid."""
        if not is_text(recipient) or not recipient.strip():
            raise InvalidRequest(f"A recipient's name is text that is not blank, not {recipient!r}.")
        if len(recipient) > limits.RECIPIENT_CHARACTERS_MAX:
            raise InvalidRequest(
                f"A recipient's name has at most {limits.RECIPIENT_CHARACTERS_MAX} characters, not {len(recipient)}."
            )
        problem = name_problem(recipient)
        if problem is not None:
            raise InvalidRequest(f"A recipient's name {problem}: {recipient!r}.")
        return self.locate(recipient)

    def require_owned(self, partition: int) -> None:
        """Raise `NotOwner` if another shard has the partition."""
        if partition not in self.owned:
            raise not_owner(partition)

    def _locate(self, recipient: str) -> MailboxAddress:
        return MailboxAddress(
            recipient, partition_of(recipient, self.deed.partition_count), text_hash(recipient, self.deed.key)
        )

    def heads(self, address: MailboxAddress) -> dict[Cabinet, Head]:
        """The heads of a recipient's cabinets, as committed."""
        prefix = number_key(address.hash)
        entries = self.store.scan(address.partition, Space.HEAD, start=prefix, end=after_prefix(prefix))
        heads = {key_cabinet(key): decode_head(value) for key, value in entries}
        return {cabinet: head for cabinet, head in heads.items() if cabinet.recipient == address.recipient}

    def new_uuid(self) -> bytes:
        """A new UUIDv7. These sort by time, to about a microsecond."""
        milliseconds, microseconds = divmod(self.clock(), 1000)
        value = int.from_bytes(self.random(8), "big") & ~(0x3 << 62)
        value |= (milliseconds << 80) | (0x7 << 76) | ((microseconds * 4096 // 1000) << 64) | (0x2 << 62)
        return value.to_bytes(16, "big")


def _do(work: Callable[[], T], done: Future[T]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001  # the caller that waits for `done` gets every error
        done.set_exception(error)


def is_text(value: object) -> bool:
    """Whether a value can be stored as text. A string with lone surrogates cannot."""
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
        named = {"parameter": what} if what.isidentifier() else {}
        raise InvalidRequest(f"{what} must be a UUID of 36 characters, not {text!r}.", **named) from error


def uuid_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))


def newest_first(
    core: Core, space: Space, decode: Callable[[bytes], T], *, below: bytes | None = None
) -> Iterator[tuple[bytes, T]]:
    """Ids and rows of all partitions, by descending id, starting below `below`."""
    partitions = [_descending(core, partition, space, decode, below) for partition in core.owned]
    return merge(*partitions, key=lambda entry: entry[0], reverse=True)


def _descending(
    core: Core, partition: int, space: Space, decode: Callable[[bytes], T], below: bytes | None
) -> Iterator[tuple[bytes, T]]:
    end = below
    while page := core.store.scan(partition, space, end=end, limit=_PAGE, reverse=True):
        for key, value in page:
            yield key, decode(value)
        end = page[-1][0]
