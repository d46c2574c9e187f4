"""Rounds: every ten seconds all that is measured is judged, one partition is checked deeply, and the result is kept.

`/healthz`, `GET /v1/health` and the metrics answer from the last round. They also say when a round does not end: a disk that
hangs would otherwise look as well as it did before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import msgspec

from restante.hub.door.hub import OpenHub
from restante.model.health.bounds import ROUND_SECONDS, Bound, flag
from restante.model.health.health_history import HealthAnswer, HealthHistory, answer_of
from restante.model.health.tree import HealthTree, Since, disabled_alike, grow, judge_leaves
from restante.settings import HealthSettings

FIRST_DEEP_SECONDS = ROUND_SECONDS
"""When the first deep check is made. To open a hub is a commit already, so nothing is lost by waiting for it."""
LATE_ROUNDS = 3
"""A result that is older than so many rounds is none."""
_LEAVE_SECONDS = 5.0
_log = logging.getLogger(__name__)

CachedCheck = Callable[[], str | None]
"""A function that gives the reason why something is not well, or None."""


class RoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round."""

    tree: HealthTree
    problems: dict[str, str | None]
    """The problem, if any, of each check of `/healthz` that was made in this round."""
    took_ms: dict[str, float]
    ended_at: float
    """When the round ended, by `time.monotonic`."""


class HealthRounds:
    """The rounds of one server."""

    def __init__(self, hub: OpenHub, settings: HealthSettings) -> None:
        self._hub = hub
        self._settings = settings
        self._bounds = bounds_of(settings)
        self._disabled = disabled_alike(settings.disabled)
        self._since: Since = {}
        self._history = HealthHistory()
        self._began_at = time.monotonic()
        self._owned = cycle(hub.owned)
        """The partitions that are written to, one after another."""
        self._partition = next(self._owned)
        """The partition that is checked deeply next."""
        self._deep_problem: str | None = None
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.last: RoundResult | None = None
        self.checks: dict[str, CachedCheck] = {}
        """Checks of `/healthz` that a round makes, beside its own."""
        hub.register_measure("store", lambda: [flag("deep_failures", self._deep_problem)])

    def begin(self) -> None:
        """Make a round now, and then every ten seconds."""
        self._thread = threading.Thread(target=self._run, name="restante-health", daemon=True)
        self._thread.start()

    def wait_for_first(self, seconds: float) -> bool:
        """Whether the first round ended in time."""
        return self._ended.wait(seconds)

    def leave(self) -> None:
        """Before the hub closes: no more checks."""
        self._closing.set()

    def close(self) -> None:
        """Wait for a check that is under way. If the hub has closed meanwhile, nobody asks what came of it."""
        self.leave()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    def overdue(self) -> str | None:
        """Why there is no result that can be relied on, if there is none."""
        if self.last is None:
            return "No round of checks has ended yet. Ask again."
        age = time.monotonic() - self.last.ended_at
        if age <= LATE_ROUNDS * ROUND_SECONDS:
            return None
        return f"The last round of checks ended {age:.0f} s ago: the hub or its disk hangs. Look into the log."

    def answer(self, *, history: bool) -> HealthAnswer | None:
        """The tree of the last round; None before there was one."""
        last = self.last
        if last is None:
            return None
        return answer_of(last.tree, self._history.minutes(datetime.now(UTC)) if history else None)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.look()
            except Exception:  # noqa: BLE001  # whatever it is, the next round is made; without one, health fails
                if not self._closing.is_set():
                    _log.exception("A round of checks failed.")
            self._closing.wait(ROUND_SECONDS)

    def look(self, *, deeply: bool | None = None) -> RoundResult:
        """Make a round; with a deep check if it is time for one, or as the caller says."""
        due = time.monotonic() - self._began_at >= FIRST_DEEP_SECONDS
        with self._lock:
            problems, took = self._checked(deeply=due if deeply is None else deeply)
            self.last = self._judged(problems, took)
        self._ended.set()
        return self.last

    def _checked(self, *, deeply: bool) -> tuple[dict[str, str | None], dict[str, float]]:
        checks = {**self.checks, "deep_write": lambda: self._deep(deeply=deeply), "switch_file": self._switched_off}
        problems: dict[str, str | None] = {}
        took: dict[str, float] = {}
        for name, check in checks.items():
            if name in self._disabled or (name == "switch_file" and self._settings.switch_file is None):
                continue
            began = time.perf_counter()
            problems[name] = check()
            took[name] = round((time.perf_counter() - began) * 1_000, 3)
        return problems, took

    def _deep(self, *, deeply: bool) -> str | None:
        """The finding of the last deep check, which is made now if it is due."""
        if deeply:
            self._deep_problem = self._hub.deep_check(self._partition)
            self._hub.check_groups()
            # A partition that fails is checked again until it is well: another one would hide it.
            if self._deep_problem is None:
                self._partition = next(self._owned)
        return self._deep_problem

    def _switched_off(self) -> str | None:
        path = self._settings.switch_file
        if path is None or Path(path).exists():
            return None
        return f"The switch file {Path(path).name} is missing: this node is out of the rotation."

    def _judged(self, problems: dict[str, str | None], took: dict[str, float]) -> RoundResult:
        now = datetime.now(UTC)
        leaves = judge_leaves(self._hub.health_leaves(), self._bounds, self._disabled)
        tree = grow(leaves, self._since, now)
        self._since = tree.since
        self._history.add(tree, now)
        return RoundResult(tree=tree, problems=problems, took_ms=took, ended_at=time.monotonic())


def bounds_of(settings: HealthSettings) -> dict[str, Bound]:
    """The bounds of every measure, by its name."""
    given = msgspec.structs.asdict(settings.bounds)
    return {name: Bound(yellow=bound.yellow, red=bound.red) for name, bound in given.items()}
