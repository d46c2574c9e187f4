"""The holdings of a member: partitions, pages read of them, how far each is done with. Without any input and output.

A partition is held under a generation. Pages of it are read ahead, handed out one at a time, and done with in order; then
their position is due to be written as a checkpoint. A partition that is to be given up loses its pages that nobody has
begun; when the page under way is done with, or at once if there is none, the last checkpoint is due, which releases it.
A hub that was opened since may have decided otherwise, and say that the member still has a partition that it released: then
the member goes on with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from restante.model.groups.group_answers import Assigned, NextPage, ReadAfter


@dataclass(slots=True, eq=False)
class Holding:
    """A partition under one generation."""

    partition: int
    generation: int
    read: int
    """Up to where pages were read."""
    done: int
    """Up to where all is done with."""
    written: int
    """Up to where the hub knows that all is done with."""
    asked: bool = False
    """Whether a question to the hub for more of it is under way."""
    behind: bool = True
    """Whether there may be more at once."""
    under_way: bool = False
    """Whether a page of it was handed out, and is not done with."""
    skimmed: bool = False
    """Whether `done` has only moved over what the filter leaves out, which is written now and then."""
    pages: deque[TakenPage] = field(default_factory=deque)
    """Read, and not handed out."""


@dataclass(frozen=True, slots=True, eq=False)
class TakenPage:
    """A page of a partition that a member has."""

    holding: Holding
    table: pa.Table
    position: int
    end: int


class Question(NamedTuple):
    """A question to the hub: more of these partitions, all of which nobody asks for meanwhile."""

    holdings: tuple[Holding, ...]
    waits: bool
    """Whether to wait for what comes; otherwise there may be more at once."""
    whole: bool
    """Whether the question is about all that the member has, so that it may wait for long."""

    @property
    def after(self) -> tuple[ReadAfter, ...]:
        return tuple(
            ReadAfter(partition=own.partition, generation=own.generation, position=own.read) for own in self.holdings
        )


class DueCheckpoint(NamedTuple):
    """A checkpoint to be written."""

    holding: Holding
    position: int
    release: bool


class Holdings:
    """The partitions that one member has. Its caller sees to it that one thread at a time uses it."""

    def __init__(self) -> None:
        self._held: dict[int, Holding] = {}
        self._endings: list[Holding] = []
        """Holdings that are to be given up."""
        self._waiting: deque[int] = deque()
        """Partitions in the order in which they are asked for and handed out: the one served last comes last."""
        self._busy: set[int] = set()
        """Partitions with a page under way, under whatever generation."""
        self._latest: dict[int, int] = {}
        """The latest generation of each partition: one that is over does not begin again, unless it was released and nobody took it."""
        self._released: dict[int, int] = {}
        """The generation of each partition under which the hub took a release."""

    @property
    def rows_unread(self) -> int:
        """Changes that were read and not handed out."""
        return sum(page.table.num_rows for own in self._held.values() for page in own.pages)

    def partitions(self) -> frozenset[int]:
        return frozenset(self._held)

    def assign(self, assigned: Iterable[Assigned]) -> bool:
        """Take over the partitions that the member has from now on; return whether anything has changed."""
        wanted = {own.partition: own for own in assigned}
        changed = False
        for partition, own in list(self._held.items()):
            if partition not in wanted:
                self._give_up(own)
                changed = True
        for partition, given in wanted.items():
            if given.generation > self._latest.get(partition, -1) or given.generation == self._released.get(partition):
                self._hold(given)
                changed = True
        return changed

    def _hold(self, given: Assigned) -> None:
        at = given.position
        self._latest[given.partition] = given.generation
        self._released.pop(given.partition, None)
        self._held[given.partition] = Holding(given.partition, given.generation, at, at, at)
        if given.partition not in self._waiting:
            self._waiting.append(given.partition)

    def _give_up(self, own: Holding) -> None:
        del self._held[own.partition]
        own.pages.clear()
        self._endings.append(own)

    def drop_all(self) -> None:
        """Drop all partitions: nothing is the member's any more, and nothing more is written."""
        self._held.clear()
        self._endings.clear()

    def drop_stale(self, in_force: Mapping[int, int]) -> None:
        """Drop the partitions that the member has under another generation than the one in force: they are another's."""
        for partition, generation in in_force.items():
            own = self._held.get(partition)
            if own is not None and own.generation != generation:
                del self._held[partition]

    def forget(self, due: DueCheckpoint) -> None:
        """The hub refused a checkpoint: the partition is another's."""
        own = due.holding
        if self._held.get(own.partition) is own:
            del self._held[own.partition]
        if own in self._endings:
            self._endings.remove(own)

    def ask(self, most: int) -> Question | None:
        """The next question: one partition that has more at once, the one served longest ago; else all at which nobody waits."""
        held = [self._held[partition] for partition in self._waiting if partition in self._held]
        free = [own for own in held if not own.asked]
        behind = [own for own in free if own.behind]
        chosen = tuple(behind[:1] or free[:most])
        for own in chosen:
            own.asked = True
        return Question(chosen, waits=not behind, whole=len(chosen) == len(held)) if chosen else None

    def unasked(self, question: Question) -> None:
        """Nobody asks any more."""
        for own in question.holdings:
            own.asked = False

    def took(self, question: Question, pages: Iterable[NextPage]) -> None:
        """Pages that were asked for. Those that are the member's no more are left out."""
        found = {page.partition: page for page in pages}
        self.unasked(question)
        for own in question.holdings:
            page = found.get(own.partition)
            own.behind = page is not None and page.next < page.end
            if page is not None and self._held.get(own.partition) is own:
                self._take_in(own, page)

    def _take_in(self, own: Holding, page: NextPage) -> None:
        if page.table.num_rows:
            own.pages.append(TakenPage(own, page.table, page.next, page.end))
        elif own.done == own.read:
            own.done, own.skimmed = page.next, own.skimmed or own.done == own.written
        own.read = page.next

    def take(self) -> TakenPage | None:
        """The next page of a partition that nobody works on; None if there is none."""
        for partition in self._waiting:
            own = self._held.get(partition)
            if own is not None and own.pages and partition not in self._busy:
                own.under_way = True
                self._busy.add(partition)
                self._waiting.remove(partition)
                self._waiting.append(partition)
                return own.pages.popleft()
        return None

    def done(self, page: TakenPage) -> None:
        """The page is done with, and so is what the filter leaves out up to the next page."""
        own = page.holding
        self._end(own)
        own.done, own.skimmed = max(own.done, page.position), False
        if not own.pages and own not in self._endings:
            own.done = own.read

    def undone(self, page: TakenPage) -> None:
        """The page was given up, and is not done with."""
        self._end(page.holding)

    def _end(self, own: Holding) -> None:
        if own.under_way:
            own.under_way = False
            self._busy.discard(own.partition)

    def due(self, *, skims: bool = True) -> DueCheckpoint | None:
        """A checkpoint that is to be written; without `skims`, not for what the filter leaves out alone."""
        for own in self._endings:
            if not own.under_way:
                return DueCheckpoint(own, own.done, release=True)
        for own in self._held.values():
            if own.done > own.written and (skims or not own.skimmed):
                return DueCheckpoint(own, own.done, release=False)
        return None

    def wrote(self, due: DueCheckpoint) -> None:
        """The hub has taken a checkpoint."""
        own = due.holding
        own.written = max(own.written, due.position)
        if own.written >= own.done:
            own.skimmed = False
        if due.release and own in self._endings:
            self._endings.remove(own)
            self._note_released(own)

    def _note_released(self, own: Holding) -> None:
        if self._latest.get(own.partition) == own.generation:
            self._released[own.partition] = own.generation
