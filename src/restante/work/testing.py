"""Tests of an app without a hub: the same decisions, with a clock that jumps over every wait.

ran = run(app, [add_comment.request(concerns="item-7", data=Comment("good"))])
assert ran.states == ["done"]
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from restante.model.work.actions import ActionPage, WorkAction
from restante.model.work.core import WorkAttempt, WorkCore
from restante.model.work.counts import WorkCounts
from restante.model.work.results import AttemptResult, OutcomeReport, WorkOutcome
from restante.work.app import App, Hook
from restante.work.attempts import ThreadStuck, attempted
from restante.work.handlers import ActionRequest
from restante.work.job import job_of
from restante.work.once.dialogue import Fenced

_STEPS_MAX = 1_000_000
_STARTED_AT = 1_767_225_600.0
"""The hub's time when a run begins: 2026 has just begun."""


@dataclass(frozen=True, slots=True)
class WorkRun:
    """The outcomes of the actions, in the order in which they were given."""

    outcomes: tuple[WorkOutcome | None, ...]
    """None: it has none, because its thing is held, or a handler in a thread did not end."""
    attempts: tuple[str, ...]
    """The ids of the actions in the order in which attempts were begun."""
    counts: WorkCounts
    seconds: float
    """How many seconds the run would have taken, with the waits and without the handlers' own time."""

    @property
    def states(self) -> list[str | None]:
        return [None if one is None else one.state.value for one in self.outcomes]


def run(app: App, actions: Sequence[ActionRequest]) -> WorkRun:
    """Do these actions, and wait until each has an outcome or cannot get one."""
    return asyncio.run(run_async(app, actions))


async def run_async(app: App, actions: Sequence[ActionRequest]) -> WorkRun:
    """Run an app as `run` does, for tests that are asynchronous themselves."""
    await _call_all(app.starting)
    try:
        return await _Bench(app, actions).work()
    finally:
        await _call_all(app.stopping)


async def _call_all(hooks: Iterable[Hook]) -> None:
    for hook in hooks:
        called = hook()
        if inspect.isawaitable(called):
            await called


class _Bench:
    """One partition, held by one worker, with a hub that takes every report."""

    def __init__(self, app: App, actions: Sequence[ActionRequest]) -> None:
        self._app = app
        self._core = WorkCore(app.rules, app.policy)
        self._now = 0.0
        self._actions = [_action(number, one) for number, one in enumerate(actions, 1)]
        self._final: dict[int, WorkOutcome] = {}
        self._tasks: dict[asyncio.Task[AttemptResult], WorkAttempt] = {}
        self._begun: list[str] = []

    async def work(self) -> WorkRun:
        self._core.assigned(0, generation=1, position=0, now=self._now)
        for _ in range(_STEPS_MAX):
            self._read()
            self._begin()
            if self._tasks:
                await self._end_some()
            elif not self._wait():
                break
            self._report()
        numbers = range(1, len(self._actions) + 1)
        outcomes = tuple(self._final.get(number) for number in numbers)
        return WorkRun(outcomes, tuple(self._begun), self._core.counts, self._now)

    def _read(self) -> None:
        for read in self._core.reads():
            found = tuple(self._actions[read.position : read.position + read.limit])
            upto = read.position + len(found)
            if found:
                hub_now = _STARTED_AT + self._now
                self._core.page(ActionPage(partition=0, generation=1, next=upto, actions=found, now=hub_now), self._now)

    def _begin(self) -> None:
        for attempt in self._core.begin(self._now):
            self._begun.append(attempt.action.id)
            handler = self._app.handlers[attempt.action.name or ""]
            self._tasks[asyncio.ensure_future(attempted(handler, job_of(self._app.name, attempt), attempt))] = attempt

    async def _end_some(self) -> None:
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            attempt = self._tasks.pop(task)
            try:
                self._core.ended(attempt.attempt_id, task.result(), now=self._now)
            except (ThreadStuck, Fenced):
                self._core.abandoned(attempt.attempt_id)

    def _wait(self) -> bool:
        """Jump to when something is to be done; False: nothing is."""
        wake_at = self._core.wake_at(self._now)
        if wake_at is None or len(self._final) == len(self._actions):
            return False
        self._now = max(self._now, wake_at)
        return True

    def _report(self) -> None:
        for report in self._core.reports(self._now):
            self._take(report)
            self._core.report_taken(report, self._now)

    def _take(self, report: OutcomeReport) -> None:
        for outcome in report.outcomes:
            if outcome.is_final:
                self._final[outcome.sequence_number] = outcome


def _action(number: int, request: ActionRequest) -> WorkAction:
    expires_at = None if request.expires_in is None else _STARTED_AT + request.expires_in
    return WorkAction(
        number=number,
        id=request.id or f"action-{number}",
        concerns=request.concerns,
        name=request.action,
        data=bytes(request.data),
        accepted_at=_STARTED_AT,
        expires_at=expires_at,
    )
