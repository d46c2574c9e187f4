"""Shards, simulated: the real hub, one thread, one store in memory, and a world in which everything goes wrong by a seed.

Messages between shards and from clients are delayed, lost, repeated and overtaken; the network falls apart and heals; owners
crash before and after any commit, or sleep longer than their lease and wake up believing that they own; shards are handed
over in order, too, and one of them may move five times in a row; clocks differ by an hour and run at slightly different
speeds. Leases and fences are as the theory has them. A plain model is kept beside it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Self
from unittest.mock import patch

from restante.calls.batches import SealBatch
from restante.calls.call import Call
from restante.calls.consignments import CommitConsignment, DiscardConsignment
from restante.calls.publishing import Publish
from restante.calls.shards import NoteParcel, StagePart
from restante.errors import NotOwner, RestanteError, Unavailable
from restante.hub.batches import batches, part_calls
from restante.hub.batches.batches import check_id
from restante.hub.consignments import consignments, prepared, rounds
from restante.hub.door import open_store
from restante.hub.door.hub import OpenHub
from restante.hub.door.opening_rows import BlobsAhead
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.committer import Committer
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Ask, Rest
from restante.hub.engine.tasks import Tasks
from restante.hub.groups.calls import PROCEDURES as GROUP_PROCEDURES
from restante.hub.groups.members import end_leases, keeping_shard, renew_all
from restante.hub.groups.memory import GroupMemory
from restante.hub.publishing.calls import publish_request
from restante.model.access.access import EVERYTHING
from restante.model.batches.batch_answers import Sealed
from restante.model.consignments.consignment import check_winners
from restante.model.shards.ranges import Ranges, even_ranges, shard_of
from restante.model.storage.changes import BlobKey, Buffer, Changes
from restante.ports.carrier import Shard, Silent
from restante.settings import GroupSettings, Settings
from restante.stores.memory import MemoryStore

PARTITIONS, SHARDS = 4, 3
HEARTBEAT = 1.0
SETTINGS = Settings(
    partition_count=PARTITIONS,
    filing=False,
    housekeeping_seconds=0,
    groups=GroupSettings(heartbeat_seconds=HEARTBEAT, handover_seconds=4),
)
START = 1_790_000_000_000_000
LEASE, MARGIN, BEAT = 3.0, 0.6, 1.0
_TIMEOUT = 3.0
_MOVES = 5
_LET_GO_SECONDS = 0.6
_AHEAD_SECONDS = 0.5
_DRIFT = 0.01
_HOUR = 3_600_000_000

Work = Generator[Ask | Rest, Any, Any]


class InlineCommitter(Committer):
    """Commits in the thread that asks, one request at a time: nothing happens beside the simulation."""

    def _begin(self) -> None:
        """There is no thread."""

    def close(self) -> None:
        self._closing = True

    def submit(self, request: CommitRequest[Any]) -> Any:
        answers: list[CommitRequest[Any]] = []
        self.take(request, answers.append)
        if not answers:
            raise Unavailable("It waits for a round.")
        return request.answer()

    def take(self, request: CommitRequest[Any], tell: Callable[[CommitRequest[Any]], None]) -> None:
        """Commit a request; `tell` gets it when it is answered, at once or when it is let go."""
        request.waiter = tell  # type: ignore[assignment]  # who is told, here
        self._queue.append(request)
        self._drain()

    def unpark(self) -> None:
        self._queue.extend(self.parked.taken())

    def _drain(self) -> None:
        while self._queue:
            batch = [self._queue.popleft()]
            self._commit(batch)
            for request in self._without_those_put_off(batch):
                request.waiter(request)  # type: ignore[operator, misc]  # as `take` has set it


class InlineThreads:
    """In place of the threads that load partitions side by side: there is one thread."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    map = staticmethod(map)


class SimulatedHub(OpenHub):
    committer_kind = InlineCommitter

    def __init__(self, store: OwnersStore, **given: Any) -> None:
        with patch.object(open_store, "ThreadPoolExecutor", InlineThreads):
            super().__init__(store, settings=SETTINGS, origins={}, **given)

    def _start_background(self) -> Tasks:
        return Tasks(self.core, ())


class OwnersStore(MemoryStore):
    """One owner's way to the store that all share."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._durable = owner.world.durable._durable
        self._owner = owner

    def require_owned(self) -> None:
        if not self._owner.has_lease():
            raise NotOwner("The lease of the shard has ended.")

    def failure(self) -> str | None:
        return "crashed" if self._owner.dead else None

    def commit(self, changes: Changes) -> None:
        world = self._owner.world
        self._require_alive()
        if world.happens(world.crashes / 2):
            self._owner.crash()
        self._require_alive()
        super().commit(changes)
        world.committed(changes)
        if world.happens(world.crashes / 2):
            self._owner.crash()
        self._require_alive()

    def put_blob(self, blob: BlobKey, parts: Iterable[Buffer], *, fence: int) -> None:
        """Large blobs may be written where no fence reaches them: one on its way arrives although its owner is gone."""
        world, content = self._owner.world, b"".join(parts)
        self._require_alive()
        if world.happens(world.crashes * 20):
            world.later(world.random.uniform(0, 12), partial(self._write_blob, blob, [content]))
            self._owner.crash()
        self._require_alive()
        super().put_blob(blob, [content], fence=fence)

    def _write_blob(self, blob: BlobKey, parts: Iterable[Buffer]) -> None:
        self._owner.world.names_taken += blob in self._durable.blobs
        self._durable.blobs[blob] = b"".join(parts)

    def _require_alive(self) -> None:
        if self._owner.dead:
            raise Unavailable("It has crashed.")


class Owner:
    """A process that owns a shard, or believes so."""

    def __init__(self, world: World, shard: int, ahead: BlobsAhead | None = None) -> None:
        self.world, self.shard, self.dead = world, shard, False
        self.leaving = self.closed = False
        """Whether it takes no more: it is handing its shard over; and whether it has, so that whoever comes is told so."""
        self.busy = 0
        """How many calls are under way here that ask others meanwhile."""
        self.asleep_until = 0.0
        self._worked = world.now
        self._rate = 1 + world.random.uniform(-_DRIFT, _DRIFT)
        self._offset = world.random.randint(-_HOUR, _HOUR)
        self._renewed = self._local()
        world.leases[shard] = (self, 0)
        self.hub = SimulatedHub(
            OwnersStore(self),
            clock=self._clock,
            random=world.random.randbytes,
            shard=Shard(world.ranges()[shard], world, key=7),
            ahead=ahead,
        )
        self.core.memory(prepared.Prepared).look_again = 5_000_000
        self.core.memory(GroupMemory).monotonic = self._local
        renew_all(self.core)
        world.later(BEAT, self._renew)
        world.later(world.random.random(), self._work)

    @property
    def core(self) -> Core:
        return self.hub.core

    def _local(self) -> float:
        return self.world.now * self._rate

    def _clock(self) -> int:
        return START + self._offset + int(self._local() * 1_000_000)

    def has_lease(self) -> bool:
        return not self.dead and self._local() < self._renewed + LEASE - MARGIN

    def crash(self) -> None:
        self.dead = True

    def _renew(self) -> None:
        if self.dead or self.world.now < self.asleep_until:
            if not self.dead:
                self.world.later(self.asleep_until - self.world.now + self.world.random.random(), self._renew)
            return
        owner, beat = self.world.leases[self.shard]
        if owner is not self:
            self.crash()  # it was taken over, and hears of it
            return
        self.world.leases[self.shard] = (self, beat + 1)
        self._renewed = self._local()
        self.world.later(BEAT, self._renew)

    def _work(self) -> None:
        if self.dead:
            return

        def work() -> Work:
            if self.world.keeps_groups:
                yield from self._keep_groups()
            yield from rounds.between_shards(self.core)
            yield from part_calls.between_shards(self.core)
            self.core.committer._drain()  # type: ignore[attr-defined]  # the one of the simulation

        def again(*_: object) -> None:
            self.world.later(1.0 if self.world.crashes else 2.5, self._work)

        self.world.start(work(), self, again, again)

    def _keep_groups(self) -> Work:
        """As the thread of groups does it: who stood still takes nobody for gone."""
        if self.world.now - self._worked > 2.5 + HEARTBEAT:
            renew_all(self.core)
        self._worked = self.world.now
        end_leases(self.core)
        yield from keeping_shard(self.core)

    def close(self) -> None:
        """Let go of the shard, with all that was promised stored."""
        self.hub.close()
        self.closed = not self.dead
        self.dead = True

    def answer(self, call: Call[Any], tell: Callable[[Any], None], refuse: Callable[[RestanteError], None]) -> None:
        """Carry a call out, and tell its answer, or its error."""
        if self.leaving:
            refuse(NotOwner("The shard is being handed over."))
        else:
            self.carry_out(call, tell, refuse)

    def carry_out(self, call: Call[Any], tell: Callable[[Any], None], refuse: Callable[[RestanteError], None]) -> None:
        work = self._procedure(call)
        if work is not None:
            self.busy += 1
            self.world.start(work, self, partial(self._end, tell), partial(self._end, partial(self._refuse, refuse)))
            return
        for listen in self.world.listeners:
            listen(call)
        try:
            answer = self.hub.call(call)
        except RestanteError as error:
            refuse(error)
        else:
            tell(answer)

    def _end(self, how: Callable[[Any], None], what: Any) -> None:
        self.busy -= 1
        how(what)

    def _refuse(self, refuse: Callable[[RestanteError], None], error: RestanteError) -> None:
        """As the door of a hub does it: a refusal is told only by who still owns the shard."""
        try:
            self.core.store.require_owned()
        except NotOwner as lost:
            refuse(lost)
        else:
            refuse(error)

    def _procedure(self, call: Call[Any]) -> Work | None:  # noqa: PLR0911  # one for each kind of call
        """Calls that ask others meanwhile; the rest is answered at once."""
        core = self.core
        match call:
            case Publish():
                return self._publishing(call)
            case SealBatch():
                return _sealing(core, call)
            case StagePart():
                return prepared.staging(core, call, EVERYTHING)
            case NoteParcel():
                return rounds.noting(core, call, EVERYTHING)
            case CommitConsignment():
                return rounds.committing(core, check_id(call.consignment_id), check_winners(call.writers), EVERYTHING)
            case DiscardConsignment():
                return _discarding(core, call)
            case _:
                begin = GROUP_PROCEDURES.get(type(call))
                return None if begin is None else begin(core, call, EVERYTHING)

    def _publishing(self, call: Publish) -> Work:
        if call.batch is not None and part_calls.is_to_be_enlisted(self.core, check_id(call.batch)):
            yield from part_calls.enlisting(self.core, check_id(call.batch))
        answered: list[CommitRequest[Any]] = []
        self.core.committer.take(publish_request(self.core, call, EVERYTHING), answered.append)  # type: ignore[attr-defined]
        while not answered:
            yield Rest(0.05)
        return answered[0].answer()


def _sealing(core: Core, call: SealBatch) -> Work:
    batch_id = check_id(call.batch_id)
    core.commit(partial(batches.plan_seal, core, batch_id, EVERYTHING))
    yield from part_calls.closing(core, batch_id)
    row = batches.stored_row(core, batch_id)
    return Sealed(complete=row is not None and bool(row.completed_at))


def _discarding(core: Core, call: DiscardConsignment) -> Work:
    yield from rounds.waiting_out(core, check_id(call.consignment_id))
    consignments.discard(core, check_id(call.consignment_id), EVERYTHING)


class World:
    """Time, chance, the network and the owners of all shards."""

    keeps_groups = False
    """Whether somebody reads by group: else nobody asks about them."""

    def __init__(self, seed: int, *, troubles: float = 1.0) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.crashes = self.losses = self.repeats = 0.0
        self.durable = MemoryStore()
        self.names_taken = 0
        """How often a blob was written under a name that another had."""
        self.leases: dict[int, tuple[Owner, int]] = {}
        self.watchers: list[Callable[[Changes], None]] = []
        self.listeners: list[Callable[[Call[Any]], None]] = []
        """Who hears of each call that an owner answers at once, before it does."""
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._apart: set[int] = set()
        self._former: dict[int, Owner] = {}
        for shard in range(SHARDS):
            Owner(self, shard)
            self._watch(shard, None, 0.0)
        if troubles:
            self.crashes, self.losses, self.repeats = 0.01 * troubles, 0.03 * troubles, 0.03 * troubles
            self.later(self.random.uniform(0.2, 3), self._trouble)

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, work))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, work = heapq.heappop(self._events)
            work()
        self.now = until

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        self.crashes = self.losses = self.repeats = 0.0
        self._apart.clear()

    def committed(self, changes: Changes) -> None:
        for watcher in self.watchers:
            watcher(changes)

    def ranges(self) -> Ranges:
        return even_ranges(PARTITIONS, SHARDS)

    def carry(self, partition: int, call: Call[Any]) -> Any:
        raise AssertionError(f"{call} of partition {partition} is to be yielded, not carried")

    def owner(self, shard: int) -> Owner:
        return self.leases[shard][0]

    def start(
        self, work: Work, owner: Owner | None, tell: Callable[[Any], None], refuse: Callable[[RestanteError], None]
    ) -> None:
        """Carry a procedure out, step by step, for an owner or a client."""
        self._step(work, owner, lambda: next(work), tell, refuse)

    def _step(
        self,
        work: Work,
        owner: Owner | None,
        go_on: Callable[[], Ask | Rest],
        tell: Callable[[Any], None],
        refuse: Callable[[RestanteError], None],
    ) -> None:
        if owner is not None and owner.dead:
            if owner.closed:
                refuse(Unavailable("The hub is closed."))
            return
        if owner is not None and owner.asleep_until > self.now:
            self.later(owner.asleep_until - self.now, partial(self._step, work, owner, go_on, tell, refuse))
            return
        try:
            step = go_on()
        except StopIteration as end:
            tell(end.value)
            return
        except RestanteError as error:
            refuse(error)
            return
        again = partial(self._step, work, owner)
        if isinstance(step, Rest):
            self.later(step.seconds, lambda: again(lambda: next(work), tell, refuse))
            return

        def answered(answer: object) -> None:
            again(lambda: work.send(answer), tell, refuse)

        def refused(error: RestanteError) -> None:
            again(lambda: work.throw(error), tell, refuse)

        if owner is not None and step.partition in owner.core.owned:
            self.later(0.0, lambda: owner.carry_out(step.call, answered, refused))  # Who asks itself, answers.
        else:
            self.ask(step, None if owner is None else owner.shard, answered, refused)

    def ask(
        self, step: Ask, asker: int | None, tell: Callable[[Any], None], refuse: Callable[[RestanteError], None]
    ) -> None:
        """Bring a call to an owner, or lose it; the first answer counts, and none after the time is up."""
        shard, open_ = shard_of(self.ranges(), step.partition), [True]

        def answered(how: Callable[[Any], None], what: Any) -> None:
            if open_.pop() if open_ else False:
                how(what)

        def arrive() -> None:
            owner = self.reached(shard)
            if owner.dead:
                if owner.closed:
                    self._travel(shard, asker, partial(answered, refuse, NotOwner("The shard was handed over.")))
                return
            if owner.asleep_until > self.now:
                self.later(owner.asleep_until - self.now + 0.001, lambda: None if owner.dead else take(owner))
                return
            take(owner)

        def take(owner: Owner) -> None:
            def back(how: Callable[[Any], None], what: Any) -> None:
                if owner.closed or not owner.dead:
                    self._travel(shard, asker, partial(answered, how, what))

            owner.answer(step.call, partial(back, tell), partial(back, refuse))

        self._travel(asker, shard, arrive)
        self.later(_TIMEOUT, partial(answered, refuse, Silent("Nobody answered.")))

    def reached(self, shard: int, former: float = 0.2) -> Owner:
        """Whom a call reaches: now and then the former owner, of whom somebody knows no better."""
        found = self._former.get(shard) if self.happens(former) else None
        return found if found is not None and not found.dead else self.owner(shard)

    def are_apart(self, one: int | None, other: int | None) -> bool:
        return (one in self._apart) != (other in self._apart)

    def _travel(self, start: int | None, end: int | None, arrive: Callable[[], object]) -> None:
        if start == end:
            self.later(0.0, arrive)
            return
        for _ in range(1 + self.happens(self.repeats)):
            if not self.happens(self.losses) and not self.are_apart(start, end):
                slow = self.random.uniform(0, 6) if self.happens(3 * self.losses) else 0.0
                self.later(self.random.uniform(0.001, 0.03) + slow, arrive)

    def _trouble(self) -> None:
        """An owner crashes or falls asleep, or a shard is cut off from the others."""
        if not self.crashes:
            return
        shard, what = self.random.randrange(SHARDS), self.random.randrange(5)
        owner = self.owner(shard)
        if what == 0:
            owner.crash()
        elif what == 1:
            owner.asleep_until = self.now + self.random.uniform(1, 9)
        elif what == 2:
            self._apart = {shard}
            self.later(self.random.uniform(0.5, 5), self._apart.clear)
        elif what == 3:
            self.hand_over(shard)
        self.later(self.random.uniform(0.5, 4), self._trouble)

    def move_on_and_on(self, shard: int, moves: int = _MOVES) -> None:
        """A shard that moves again as soon as it has moved, while all is under way."""
        if moves:
            self.hand_over(shard)
            self.later(self.random.uniform(0.3, 1.2), partial(self.move_on_and_on, shard, moves - 1))

    def hand_over(self, shard: int) -> None:
        """A planned move: the heir looks, and the owner goes on; then it ends what is under way, and lets go, and the heir takes the shard."""
        owner = self.owner(shard)
        if not owner.dead and owner.asleep_until <= self.now:
            ahead = open_store.look_ahead(self.durable, self.ranges()[shard])
            self.later(self.random.uniform(0, _AHEAD_SECONDS), partial(self._leave, owner, ahead))

    def _leave(self, owner: Owner, ahead: BlobsAhead) -> None:
        owner.leaving = True
        self._let_go(owner, self.now + _LET_GO_SECONDS, ahead)

    def _let_go(self, owner: Owner, until: float, ahead: BlobsAhead) -> None:
        if owner.dead or self.owner(owner.shard) is not owner:
            return
        if owner.asleep_until > self.now or (owner.busy and self.now < until):
            self.later(max(0.05, owner.asleep_until - self.now), partial(self._let_go, owner, until, ahead))
            return
        owner.close()
        self.later(self.random.uniform(0, 0.2), partial(self._succeed, owner, ahead))

    def _succeed(self, owner: Owner, ahead: BlobsAhead) -> None:
        if self.owner(owner.shard) is owner:
            self._former[owner.shard] = owner
            with suppress(Unavailable):  # It crashed while it opened; the next one tries it.
                Owner(self, owner.shard, ahead)

    def _watch(self, shard: int, seen: tuple[Owner, int] | None, since: float) -> None:
        """Whoever wants a shard must have seen the beat unchanged for the whole lease, by a clock of its own."""
        now = self.leases[shard]
        rate = 1 - _DRIFT
        if now != seen:
            seen, since = now, self.now
        elif (self.now - since) * rate >= LEASE:
            self._former[shard] = now[0]
            with suppress(Unavailable):  # It crashed while it opened; the next one tries it.
                Owner(self, shard)
            seen = None
        self.later(0.3, partial(self._watch, shard, seen, since))
