"""What the hub remembers of actions: which were handed out, how attempts go, and what was counted.

All of it is in memory alone. After a restart an action that is under way reads `accepted` until the next report.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from restante import limits
from restante.model.actions.action_counts import ActionTotals
from restante.model.actions.action_row import ActionState


@dataclass(frozen=True, slots=True)
class ActionPlace:
    """Where an action's row lies."""

    partition: int
    recipient_hash: int
    number: int


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An action that was tried, and has no outcome yet."""

    attempts: int
    begun_at: int
    next_attempt_at: int
    code: str
    detail: str


@dataclass(slots=True)
class ActionMemory:
    """The actions of one open hub."""

    handed: OrderedDict[tuple[int, int], int] = field(default_factory=OrderedDict)
    """By partition and number, the hash of the thing: of actions handed out lately, so that reports find them."""
    under_way: OrderedDict[tuple[int, int], UnderWay] = field(default_factory=OrderedDict)
    totals: dict[tuple[str, str], ActionTotals] = field(default_factory=dict)
    """By group and name, for metrics. Names that no group has are counted together."""
    undeclared_told: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hand_out(self, partition: int, places: Sequence[tuple[int, int]]) -> None:
        """Numbers of a partition with the hashes of their things."""
        with self.lock:
            for number, recipient_hash in places:
                self.handed[partition, number] = recipient_hash
            while len(self.handed) > limits.ACTIONS_REMEMBERED_MAX:
                self.handed.popitem(last=False)

    def tried(self, partition: int, number: int, under_way: UnderWay) -> None:
        with self.lock:
            self.under_way[partition, number] = under_way
            while len(self.under_way) > limits.ACTIONS_REMEMBERED_MAX:
                self.under_way.popitem(last=False)

    def ended(self, partition: int, number: int) -> None:
        """It has an outcome, or is not there any more."""
        with self.lock:
            self.under_way.pop((partition, number), None)
            self.handed.pop((partition, number), None)

    def count_accepted(self, names: Sequence[str]) -> None:
        for name in names:
            self.of("", name).accepted += 1

    def of(self, group: str, name: str) -> ActionTotals:
        """The counts of a name. Strangers choose names: those beyond a bound are counted together."""
        found = self.totals.get((group, name))
        if found is None:
            key = (group, name) if len(self.totals) < limits.ACTION_NAMES_COUNTED_MAX else ("", "")
            found = self.totals.setdefault(key, ActionTotals())
        return found

    def count_ended(self, group: str, name: str, state: ActionState, *, queued: float, took: float) -> None:
        """One has ended: after so many seconds in the queue, and so many of its last attempt."""
        self.of(group, name).add(state, queued=queued, took=took)
