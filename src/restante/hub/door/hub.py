"""The hub: all use cases behind one door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar

import pyarrow as pa

from restante.calls.batches import AcknowledgeEach
from restante.calls.call import Answer, Call
from restante.calls.groups import WriteCheckpoint
from restante.calls.homes import home_of_call
from restante.calls.mailboxes import Dequeue, FindMessage, ListPartitions, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import DataDamaged, NotOwner, RestanteError, Unavailable
from restante.hub.actions.group_checks import check_groups
from restante.hub.backplane import calls as backplane_calls
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.batches import calls as batches
from restante.hub.batches.batch_counts import bell_hash
from restante.hub.batches.batches import check_id
from restante.hub.batches.part_calls import is_to_be_enlisted
from restante.hub.consignments import calls as consigning
from restante.hub.consignments.rounds import hasten
from restante.hub.door import subjects
from restante.hub.door.commit_plans import plan_jointly, plan_lightly
from restante.hub.door.delayed_calls import find_table
from restante.hub.door.in_process_live import HubDoor
from restante.hub.door.open_store import load_partitions, take_partitions
from restante.hub.door.opening_rows import BlobsAhead, opening_rows
from restante.hub.engine import filing
from restante.hub.engine.commit_request import CommitRequest, LoopWaiter
from restante.hub.engine.committer import Committer
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.health_sources import HealthSources
from restante.hub.engine.partitions import OwnedPartitions, Unfiled
from restante.hub.engine.procedures import OwnAnswers
from restante.hub.engine.subject import Opening
from restante.hub.engine.tasks import Tasks
from restante.hub.groups.checkpoints import checkpoint_request
from restante.hub.health.deep_check import deep_check
from restante.hub.mailboxes import calls as mailboxes
from restante.hub.mailboxes import live_collect
from restante.hub.mailboxes.live_mail import LivePost
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing import calls as publishing
from restante.hub.publishing.publish_request import ReadMessages
from restante.hub.upkeep import backup
from restante.hub.upkeep.backup import BackupStream
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch_answers import Acknowledged
from restante.model.consignments.consignment_answers import ConsignmentTotals
from restante.model.groups.group_answers import Checkpointed
from restante.model.health.bounds import Measure
from restante.model.health.hub_metric import HubMetric
from restante.model.health.tree import HealthLeaf
from restante.model.live.committed_mail import Take
from restante.model.mailboxes.answers import Dequeued, PartitionStatus, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.storage.letter import Letter
from restante.ports.backplane import Backplane
from restante.ports.carrier import Shard
from restante.ports.clerk import Clerk, OwnClerk
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.counters import Counters
from restante.ports.store import Store, StoreSize
from restante.ports.webhook import PostWebhook
from restante.settings import Settings
from restante.wire.live_lines import LiveDoor


class OpenHub:
    """An open hub. Every method may be called from any thread."""

    committer_kind: ClassVar[type[Committer]] = Committer

    def __init__(  # noqa: PLR0913 - all that a hub is made of
        self,
        store: Store,
        *,
        settings: Settings,
        origins: Mapping[str, OriginPort],
        clock: Clock,
        random: Callable[[int], bytes],
        counters: Counters | None = None,
        post_webhook: PostWebhook | None = None,
        backplane: Backplane | None = None,
        shard: Shard | None = None,
        clerk: Clerk | None = None,
        ahead: BlobsAhead | None = None,
    ) -> None:
        taken = take_partitions(store, settings, random, shard)
        rows = opening_rows(store, taken.owned, ahead, unused=taken.unused)
        loaded = load_partitions(store, rows, taken)
        partitions = loaded if shard is None else OwnedPartitions(loaded)
        self._core = core = Core(
            store, settings, clock, taken.deed, taken.fence, partitions, random, shard, clerk or OwnClerk()
        )
        core.memory(OwnAnswers).call = self.call
        self._caller = EVERYTHING
        opening = Opening(rows, origins, counters, post_webhook, backplane)
        subjects.open_all(core, opening)
        core.start(partial(plan_jointly, core), partial(plan_lightly, core), self.committer_kind)
        subjects.begin_all(core, opening)
        self._background = self._start_background()

    def _start_background(self) -> Tasks:
        return subjects.start_tasks(self._core)

    def on_behalf_of(self, caller: Grant) -> OpenHub:
        """The hub on behalf of a caller who may do what the grant says. A program that has the hub in process may do everything."""
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen._caller = caller
        return seen

    def close(self) -> None:
        """Finish what is under way, and let go of the store."""
        core = self._core
        if core.closing.is_set():
            return
        core.closing.set()
        core.bell.ring_all()
        moves = core.shard is not None and core.store.shared
        if moves:
            self._background.wake()  # The next owner may wait: it goes on with what these are about to do.
        else:
            self._background.close()
        try:
            filing.drop_unreachable(core)
            if not moves:
                subjects.do_last_chores(core)
        except (Unavailable, DataDamaged):
            pass  # what is left is dropped, or done, when the store is opened again
        finally:
            core.committer.close()
            core.store.close()
            core.clerk.close()
            subjects.close_all(core)

    def publish_soon(self, call: Publish, waiter: LoopWaiter[Receipt]) -> None:
        """Publish a few messages; the waiter gets the request, answered, in its own event loop."""
        if not backplane_calls.publish_soon(self._core, call, self._caller, waiter):
            self._core.committer.submit_soon(publishing.publish_request(self._core, call, self._caller), waiter)

    def publish_letters_soon(
        self,
        letters: Sequence[Letter],
        read: ReadMessages,
        waiter: LoopWaiter[Receipt],
        caller: Grant = EVERYTHING,
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
    ) -> None:
        """Publish a few messages that were found to be plainly right, for `caller`; `read` gives them as they were sent."""
        core = self._core
        if numbers is None and core.memory(BackplaneMemory).doorway is not None:
            backplane_calls.publish_letters_soon(core, letters, read, partition, caller, waiter)
            return
        request = publishing.plain_request(core, letters, read, caller, partition, numbers)
        core.committer.submit_soon(request, waiter)

    def write_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let an event loop write small commits itself, where that takes little time. No interrupt may strike in it."""
        self._core.committer.write_in(loop)

    def hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queue at once what came in the present turn of this event loop."""
        self._core.committer.hand_over(loop)

    @property
    def crowded(self) -> bool:
        """Whether publishers have to wait, or to file: then not in an event loop."""
        core = self._core
        return bool(core.memory(Unfiled).overdue) or core.committer.full

    def asks_first(self, call: Publish) -> bool:
        """Whether a publish has to ask another shard first: then not in an event loop."""
        return call.batch is not None and is_to_be_enlisted(self._core, check_id(call.batch))

    @property
    def closing(self) -> bool:
        return self._core.closing.is_set()

    def listening(self, recipient: str, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `ring` is called after each commit that concerns the recipient."""
        return self._core.bell.listening(self._core.address(recipient).hash, ring)

    def apart(self, *, timeout: float | None = None) -> ApartHub:
        """The link for the threads of a member, which need none of their own here."""
        del timeout
        return ApartHub(self)

    @property
    def core(self) -> Core:
        """The core of the hub, for what builds on it: doctor, tests, the asynchronous door."""
        return self._core

    @property
    def owned(self) -> range:
        """The partitions that this hub has: all of them, unless it is one shard of several."""
        return self._core.owned

    @property
    def partition_count(self) -> int:
        """How many partitions the store has."""
        return len(self._core.partitions)

    @property
    def commit_totals(self) -> tuple[int, float]:
        """How many commits there were since the hub was opened, and how many seconds they took together."""
        totals = self._core.committer.totals
        return totals.commits, totals.seconds

    def metrics(self) -> list[HubMetric]:
        """The metrics of all subjects, as they are now."""
        return subjects.metrics_of(self._core)

    def register_measure(self, component: str, measure: Measure) -> None:
        """Register a measure that only the server of this hub can take."""
        self._core.memory(HealthSources).register(component, measure)

    def health_leaves(self) -> list[HealthLeaf]:
        """Take every measure of this hub now."""
        return self._core.memory(HealthSources).leaves()

    def deep_check(self, partition: int) -> str | None:
        """Write, read back and dequeue a message in a partition; gives what went wrong."""
        return deep_check(self._core, partition)

    def check_groups(self) -> None:
        """Send a health check through each group with actions that runs, and see what became of the last ones."""
        check_groups(self._core)

    @property
    def committing(self) -> bool:
        """Whether the thread that commits is alive."""
        return self._core.committer.alive

    def seconds_without_room(self) -> float:
        """How long ago the last commit found no room; infinite unless it did."""
        return self._core.committer.seconds_without_room()

    def not_owned(self) -> str | None:
        """Why another hub may own the store by now, if one may."""
        try:
            self._core.store.require_owned()
        except NotOwner as error:
            return error.message
        return None

    def partition_statuses(self) -> tuple[PartitionStatus, ...]:
        """The status of each partition as this hub remembers it, also while it does not own them: for probes and metrics."""
        return mailboxes.list_partitions(self._core, ListPartitions(), self._caller)

    def store_failure(self) -> str | None:
        """Why the store has stopped, if it has."""
        return self._core.store.failure()

    def store_size(self) -> StoreSize:
        return self._core.store.size()

    def claim_check_origins(self) -> frozenset[str]:
        return claim_check_origins(self._core)

    def new_uuid(self) -> bytes:
        return self._core.new_uuid()

    def locate(self, recipient: str) -> MailboxAddress:
        """Where a recipient lives. The name is one that was checked."""
        return self._core.locate(recipient)

    def visible_sequence(self, recipient: str) -> int:
        """The last number that may be seen in the partition of a recipient; `NotOwner` if another may have gone on."""
        visible = self._core.partitions[self._core.address(recipient).partition].counters.visible
        self._core.store.require_owned()
        return visible

    def pushing(self, take: Take) -> AbstractContextManager[None]:
        """While inside, `take` gets what each commit brought, in the committer's thread."""
        return self._core.memory(LivePost).taking(take)

    def call(self, call: Call[Answer]) -> Answer:
        """Carry a call out."""
        if self._core.shard is not None:
            home = home_of_call(call, self._core.deed.partition_count)
            if home is not None and 0 <= home < self._core.deed.partition_count:
                self._core.require_owned(home)
        try:
            answer: Answer = subjects.FUNCTIONS[type(call)](self._core, call, self._caller)
        except RestanteError as error:
            # A refusal may rest on nothing but reads, and be as wrong as an answer.
            if not isinstance(error, Unavailable):
                self._core.store.require_owned()
            raise
        finally:
            # The store fences commits itself. An answer that only rests on reads is true only while the store is ours.
            if type(call) in subjects.READING:
                self._core.store.require_owned()
        return answer

    def dequeue_soon(self, call: Dequeue, waiter: LoopWaiter[Dequeued]) -> None:
        """Dequeue; the waiter gets the request, answered, in its own event loop."""
        self._core.committer.submit_soon(mailboxes.dequeue_request(self._core, call), waiter)

    def acknowledge_soon(self, call: AcknowledgeEach, waiters: Sequence[LoopWaiter[Acknowledged]]) -> None:
        """Acknowledge; each waiter gets its request, in its own event loop. If it `is_to_be_finished`, finish it."""
        self._core.committer.submit_each_soon(batches.acknowledgements(call, self._caller), waiters)

    def is_to_be_finished(self, request: CommitRequest[Acknowledged]) -> bool:
        """Whether an acknowledgement names items of estimated batches, which are counted after its commit."""
        return batches.is_to_be_finished(request)

    def finish(self, request: CommitRequest[Acknowledged]) -> Acknowledged:
        """Count the items of estimated batches. The counter may be another system, so this may wait for it."""
        return batches.finish(self._core, request)

    def listening_to_batch(self, batch_id: str, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `ring` is called after each commit that changes the state of the batch."""
        return self._core.bell.listening(bell_hash(check_id(batch_id)), ring)

    def checkpoint_soon(self, call: WriteCheckpoint, future: asyncio.Future[CommitRequest[Checkpointed]]) -> None:
        """Write a checkpoint; the future gets the request, answered, in its own event loop."""
        self._core.committer.submit_soon(checkpoint_request(self._core, call), future)

    def consignment_totals(self) -> ConsignmentTotals:
        """Counts of messages in consignments."""
        return consigning.consignment_totals(self._core)

    def live_collect(self, recipient: str, sequence_number: int) -> int:
        """Collect all messages up to a number, in the origin groups that are collected live; return how many."""
        return live_collect.collect(self._core, self._core.address(recipient), sequence_number)

    def live(self, recipient: str, *, client: str | None = None) -> LiveDoor:
        """The way to a mailbox that is followed."""
        return HubDoor(self, recipient, client)

    def history_table(self, call: ReadHistory) -> tuple[pa.Table, int | None]:
        """A page of history as columns, and where the next begins."""
        return mailboxes.history_columns(self._core, call)

    def find_table(self, call: FindMessage) -> pa.Table:
        return find_table(self._core, self._core.address(call.recipient), call.message_id)

    def hasten(self) -> bool:
        """Have done now what is to be done between shards; whether there is any. Ask again until there is none."""
        return hasten(self._core)

    def backup(self, cut: str | None = None) -> BackupStream:
        """A backup of everything that was acknowledged before the call, or before a cut, as bytes; close it in any case."""
        return backup.backup(self._core, cut)


class ApartHub:
    """Calls of a hub, without the right to close it."""

    def __init__(self, hub: OpenHub) -> None:
        self._hub = hub

    def call(self, call: Call[Answer]) -> Answer:
        return self._hub.call(call)

    def close(self) -> None:
        """The hub stays open."""
