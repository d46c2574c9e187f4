"""The memory of actions: those handed out, the attempts under way, and counts.

All of this exists only in memory. After a restart, an action under way is shown as `accepted` until the next report.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from restante import limits
from restante.hub.action_rows.recent_actions import RecentActions
from restante.model.actions.action_counts import ActionTotals


@dataclass(frozen=True, slots=True)
class ActionPlace:
    """The place of an action's row."""

    partition: int
    recipient_hash: int
    number: int


class HandedAction(NamedTuple):
    """An action that was handed out in a page, with what is needed to find its row and its cabinet."""

    number: int
    recipient_hash: int
    concerns: str
    origin: str
    name: str
    at: int = 0
    """The time of handing out; 0 if unknown."""
    group: str = ""
    """The group that it was handed to and that had declared its name; empty if no group had, or if that is unknown."""
    generation: int = 0
    """The generation of the partition then."""


@dataclass(frozen=True, slots=True)
class TriedAction:
    """The attempts at an action that has no outcome yet."""

    attempts: int
    begun_at: int
    next_attempt_at: int
    code: str
    detail: str


@dataclass(slots=True)
class ActionMemory:
    """The actions of one open hub."""

    handed: OrderedDict[tuple[int, int], HandedAction] = field(default_factory=OrderedDict)
    """The actions handed out lately, by partition and number, for reports to find."""
    under_way: OrderedDict[tuple[int, int], TriedAction] = field(default_factory=OrderedDict)
    died: OrderedDict[tuple[int, int], int] = field(default_factory=OrderedDict)
    """How many workers died of each action that has no outcome yet."""
    opened: Mapping[int, int] = field(default_factory=dict)
    """The last number of each partition when the hub was opened. Deaths of actions up to it may be only in their rows."""
    totals: dict[str, ActionTotals] = field(default_factory=dict)
    """Totals by action name. Any sender can choose names, so names beyond a bound are counted together, under ""."""
    busy: list[Callable[[int, int, Collection[int]], Collection[int]]] = field(default_factory=list)
    """Functions that choose, by partition, hash of a thing and numbers, the actions that are running and do not expire."""
    unknown_told: set[str] = field(default_factory=set)
    """Undeclared names that have been logged."""
    recent: RecentActions = field(default_factory=RecentActions)
    """The latest waiting actions, as they came."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, visible: Mapping[int, int]) -> None:
        """Set the last number of each partition when the hub is opened."""
        self.opened = visible
        self.recent.open(visible)

    def hand_out(self, partition: int, actions: Sequence[HandedAction]) -> None:
        with self.lock:
            for action in actions:
                known = self.handed.get((partition, action.number))
                # A group that was handed an action under a name of its own may be doing it, even if others are shown it later.
                if action.group or known is None:
                    self.handed[partition, action.number] = action
            while len(self.handed) > limits.ACTIONS_REMEMBERED_MAX:
                self.handed.popitem(last=False)

    def tried(self, partition: int, number: int, under_way: TriedAction) -> None:
        with self.lock:
            self.under_way[partition, number] = under_way
            while len(self.under_way) > limits.ACTIONS_REMEMBERED_MAX:
                self.under_way.popitem(last=False)

    def note_death(self, partition: int, number: int, deaths: int) -> None:
        with self.lock:
            self.died[partition, number] = deaths
            while len(self.died) > limits.ACTIONS_REMEMBERED_MAX:
                self.died.popitem(last=False)

    def ended(self, partition: int, number: int) -> None:
        """Note that an action has an outcome, or is no longer stored."""
        with self.lock:
            self.under_way.pop((partition, number), None)
            self.died.pop((partition, number), None)
            self.handed.pop((partition, number), None)
        self.recent.drop(partition, (number,))

    def count_accepted(self, names: Sequence[str]) -> None:
        for name in names:
            self.of(name).accepted += 1

    def of(self, name: str) -> ActionTotals:
        found = self.totals.get(name)
        if found is None:
            known = name if len(self.totals) < limits.ACTION_NAMES_COUNTED_MAX else ""
            found = self.totals.setdefault(known, ActionTotals())
        return found

    def running(self, partition: int, recipient_hash: int, numbers: Collection[int]) -> set[int]:
        """The running ones among a thing's actions with these numbers."""
        return {number for busy in self.busy for number in busy(partition, recipient_hash, numbers)}
