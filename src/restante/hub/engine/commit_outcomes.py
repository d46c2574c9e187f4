"""Storing a commit until its outcome is known.

A remote store may lose its connection in mid-commit. Nothing more is planned then until the store has said whether the
commit is stored: `Outcomes` looks it up and never guesses. Callers wait up to `OUTCOME_SECONDS_MAX` for the answer, then
get `OutcomeUnknown`; the next commit asks the store again before anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from restante import limits
from restante.errors import OutcomeUnknown, StorageFull, StoreConflict, Unavailable
from restante.hub.engine.plan import CommitPlan
from restante.model.storage.changes import Changes
from restante.ports.store import Store

_LOOK_AGAIN_SECONDS = 0.05


class CommitTotals:
    """Counts of commits since the hub was opened. Only the thread that holds the pen updates them."""

    __slots__ = ("commits", "failures", "seconds")

    def __init__(self) -> None:
        self.commits = 0
        self.failures = 0
        """Commits that failed as a whole."""
        self.seconds = 0.0
        """Total time that the store spent in commits."""

    def add(self, seconds: float | None) -> None:
        """Count a commit that the store took `seconds` for; None means that it had nothing to store."""
        if seconds is not None:
            self.commits += 1
            self.seconds += seconds


class Outcomes:
    """Commits of unknown outcome are resolved here. `bring_up` is called once for each commit that is stored."""

    def __init__(self, bring_up: Callable[[CommitPlan], None], totals: CommitTotals) -> None:
        self._bring_up = bring_up
        self._totals = totals
        self._doubtful: CommitPlan | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether the outcome of the last commit is unknown."""
        return self._doubtful is not None

    def store(self, plan: CommitPlan, changes: Changes) -> None:
        """Commit. If the outcome is unknown, wait until the store reports it or `OUTCOME_SECONDS_MAX` is over."""
        try:
            self._totals.add(_store(plan.store, changes))
        except OutcomeUnknown as error:
            if plan.store.failure() is not None:
                raise
            self._doubtful = plan
            if not self._settled_in_time(error):
                raise Unavailable(
                    "The store lost its connection in a commit; nothing was stored. Try again."
                ) from error
        else:
            self._bring_up(plan)

    def settle(self) -> bool:
        """Whether the commit in doubt is stored; True if none is in doubt. `Unavailable` while the store cannot say."""
        plan = self._doubtful
        if plan is None:
            return True
        stored = plan.store.resolve()
        self._doubtful = None
        if stored:
            self._bring_up(plan)
        return stored

    def _settled_in_time(self, unknown: OutcomeUnknown) -> bool:
        until = time.monotonic() + limits.OUTCOME_SECONDS_MAX
        while True:
            try:
                return self.settle()
            except StoreConflict:
                raise unknown from None
            except Unavailable:
                if time.monotonic() >= until:
                    raise unknown from None
                time.sleep(_LOOK_AGAIN_SECONDS)


def _store(store: Store, changes: Changes) -> float | None:
    """Commit, and return how many seconds it took; None if there was nothing to store.

    A store that fails in mid-commit cannot know whether the commit will be there after it is reopened, so its `Unavailable`
    becomes `OutcomeUnknown`. With nothing to store, callers are answered from memory, which is right only while this hub
    owns the store.
    """
    if changes.empty():
        store.require_owned()
        return None
    began = time.perf_counter()
    try:
        store.commit(changes)
    except (StorageFull, StoreConflict, OutcomeUnknown):
        raise
    except Unavailable as error:
        if store.failure() is None:
            raise
        raise OutcomeUnknown(error.message, **error.details) from error
    return time.perf_counter() - began
