"""Members of a group that reads all simulated shards: they join, read, handle, write checkpoints, fall silent and come back.

What a member has, and what is due, the client library's own `Holdings` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from restante.calls.call import Call
from restante.calls.feed import ReadFeed
from restante.calls.groups import DefineGroup, JoinGroup, LeaveGroup, ReadNext, SendHeartbeat, WriteCheckpoint
from restante.calls.shards import MovePartitions
from restante.client.groups.holdings import DueCheckpoint, Holdings, Question, TakenPage
from restante.errors import GenerationStale, GroupUnknown, MemberUnknown, Unavailable
from restante.hub.engine.procedures import Ask, Rest
from restante.model.groups.group_answers import Assigned, NextPage
from restante.model.groups.group_position import decode_position
from restante.model.shards.ranges import by_shard, shard_of
from restante.model.storage.changes import Changes, Space
from tests.groups.group_world import numbers_in
from tests.shards.simulated_clients import CHAOS, QUIET, Model, SimulatedClients, Steps, broken_if
from tests.shards.simulation import HEARTBEAT, PARTITIONS, World

GROUP = "g"
MEMBERS = 3
_END = CHAOS + QUIET - 3
_LIMIT = 5


class SimulatedMember:
    """One life of a member."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.holdings = Holdings()
        self.beaten = 0.0
        """When it was answered last."""


class GroupMembers(SimulatedClients):
    """Members of one group, and what must be true of them."""

    def __init__(self, world: World, model: Model) -> None:
        super().__init__(world, model)
        world.keeps_groups = True
        world.watchers.append(self._watch)
        world.listeners.append(self._listen)
        self._given: dict[tuple[int, int], str] = {}
        """By partition and generation, which member was told that it has it."""
        self._newest: dict[int, tuple[int, float]] = {}
        """By partition the highest generation that somebody was told, and when."""
        self._handled: dict[int, dict[int, float]] = {partition: {} for partition in range(PARTITIONS)}
        """By partition and number, when it was handled first."""
        self._lately: dict[tuple[int, int], int] = {}
        """By partition and generation, the number that was handled last."""
        self._positions: dict[int, list[tuple[float, int]]] = {partition: [] for partition in range(PARTITIONS)}
        """By partition, what was stored, and when."""
        self._generations = dict.fromkeys(range(PARTITIONS), 0)
        """By partition, what was stored."""
        self._moves: dict[int, int] = {}
        """By partition, the generation from which it is moved by the call that an owner carries out."""
        self._late: list[int] = []
        """Partitions that were moved from another generation than the one in force."""

    def start(self) -> None:
        self._begin(self._defining())

    def _listen(self, call: Call[Any]) -> None:
        moves = call.moves if isinstance(call, MovePartitions) else ()
        self._moves = {move.partition: move.generation for move in moves}

    def _watch(self, changes: Changes) -> None:
        for (partition, space, key), value in changes.entries.items():
            if space is Space.GROUP_POSITION and key.decode() == GROUP and value is not None:
                row, before = decode_position(value), self._generations[partition]
                self._positions[partition].append((self.world.now, row.position))
                self._generations[partition] = row.generation
                if row.generation != before and self._moves.get(partition) != before:
                    self._late.append(partition)

    def finish(self) -> None:
        broken_if(self._late, f"the partitions {self._late} were moved by a word that came late")
        for partition in range(PARTITIONS):
            owner = self.world.owner(shard_of(self.world.ranges(), partition))
            feed = owner.hub.call(ReadFeed(partition, after=0, limit=10_000))
            numbers, handled = numbers_in(feed.table), self._handled[partition]
            broken_if(set(numbers) - set(handled), f"something of partition {partition} was not handled")
            written = [position for _, position in self._positions[partition]]
            broken_if(written != sorted(written), f"the position in partition {partition} went back: {written}")
            for at, position in self._positions[partition]:
                early = [number for number in numbers if number <= position and handled[number] > at]
                broken_if(early, f"partition {partition} is at {position}, and {early} was not handled")
            reached, end = max([0, *(position for _, position in self._positions[partition])]), max([0, *numbers])
            broken_if(reached < end, f"partition {partition} has a lag: {reached} of {end}")

    # What members do.

    def _defining(self) -> Steps:
        yield from self._at_home(DefineGroup(GROUP))
        for number in range(MEMBERS):
            self._begin(self._lives(f"m{number}"))

    def _lives(self, name: str) -> Steps:
        """One life after the other: whoever is taken for dead joins again, under the same name or another."""
        for life in count():
            if self.world.now >= _END:
                return
            name = name if self.random.random() < 0.5 else f"{name}-{life}"
            joined = yield from self._at_home(JoinGroup(GROUP, name))
            member = SimulatedMember(joined.member_id)
            self._assign(member, joined.partitions)
            try:
                yield from self._live(member)
            except (MemberUnknown, GroupUnknown):
                yield Rest(self.random.uniform(0, 0.5))

    def _live(self, member: SimulatedMember) -> Steps:
        member.beaten = self.world.now
        while self.world.now < _END:
            if self.world.now - member.beaten >= HEARTBEAT:
                yield from self._beat(member)
            yield from self._read(member)
            if self.world.now < CHAOS and self.random.random() < 0.05:
                yield Rest(self.random.uniform(0, 6))  # It hangs, or it has died: then another life begins.
                if self.random.random() < 0.5:
                    return
            if (yield from self._work(member)):
                return
            yield from self._write(member)
            yield Rest(self.random.uniform(0.2, 0.8) if self.world.now < CHAOS else 2)
        yield from self._at_home(LeaveGroup(GROUP, member.member_id))

    def _beat(self, member: SimulatedMember) -> Steps:
        asked_at = self.world.now
        try:
            answer = yield Ask(0, SendHeartbeat(GROUP, member.member_id))
        except Unavailable:
            return
        member.beaten = asked_at
        self._assign(member, answer.partitions)

    def _assign(self, member: SimulatedMember, assigned: Iterable[Assigned]) -> None:
        for own in assigned:
            holder = self._given.setdefault((own.partition, own.generation), member.member_id)
            broken_if(holder != member.member_id, f"two members have partition {own.partition} under one generation")
            if own.generation > self._newest.get(own.partition, (-1, 0.0))[0]:
                self._newest[own.partition] = own.generation, self.world.now
        member.holdings.assign(assigned)

    def _read(self, member: SimulatedMember) -> Steps:
        question = member.holdings.ask(PARTITIONS)
        if question is None:
            return
        pages: list[NextPage] = []
        for partitions in by_shard(self.world.ranges(), [own.partition for own in question.holdings]):
            pages += yield from self._pages(member, question, partitions)
        member.holdings.took(question, pages)

    def _pages(self, member: SimulatedMember, question: Question, partitions: Iterable[int]) -> Steps:
        """As a door cuts it: each shard is asked for its own."""
        after = tuple(own for own in question.after if own.partition in partitions)
        try:
            return (yield Ask(after[0].partition, ReadNext(GROUP, member.member_id, after, limit=_LIMIT))).pages
        except GenerationStale as error:
            stale = error.details.get("stale", [])
            assert isinstance(stale, list)
            member.holdings.drop_stale({own["partition"]: own["generation"] for own in stale})
            return ()
        except (Unavailable, GroupUnknown):
            return ()

    def _work(self, member: SimulatedMember) -> Steps:
        """Handle what was read; gives whether the member died of it."""
        yield Rest(0.01)
        while (page := member.holdings.take()) is not None:
            yield from self._write(member)  # Others write what is due while a page is under way.
            if self.world.now < CHAOS and self.random.random() < 0.05:
                return True
            self._handle(page)
            member.holdings.done(page)
        return False

    def _handle(self, page: TakenPage) -> None:
        """Several changes may have one number: those of a bundle that was collected."""
        place, numbers = (page.holding.partition, page.holding.generation), numbers_in(page.table)
        turn = [self._lately.get(place, 0) + 1, *numbers]
        broken_if(turn != sorted(turn), f"{numbers} of partition {place[0]} came out of turn")
        self._lately[place] = numbers[-1]
        for number in numbers:
            self._handled[place[0]].setdefault(number, self.world.now)

    def _write(self, member: SimulatedMember) -> Steps:
        while (due := member.holdings.due()) is not None:
            if not (yield from self._checkpoint(member, due)):
                return

    def _checkpoint(self, member: SimulatedMember, due: DueCheckpoint) -> Steps:
        own, began = due.holding, self.world.now
        call = WriteCheckpoint(GROUP, own.partition, due.position, own.generation, due.release)
        try:
            yield Ask(own.partition, call)
        except GenerationStale:
            member.holdings.forget(due)
        except Unavailable:
            return False
        else:
            newest, told_at = self._newest[own.partition]
            fenced = newest > own.generation and told_at < began
            broken_if(fenced, f"a member wrote in partition {own.partition} after it was given to another")
            member.holdings.wrote(due)
        return True
