"""The figures of a worker in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from restante.model.work.core import WorkCore
from restante.model.work.counts import OTHERS, ActionCounts, WorkCounts

_OUTCOMES = {
    "done": "done",
    "poisoned": "poisoned",
    "refused": "refused",
    "expired": "expired",
    "no_data": "no_data",
    "unknown": "action_unknown",
}
"""Attributes of the counts, and what the outcome is called."""


class CountsWork(Protocol):
    """A worker, as far as it is measured."""

    core: WorkCore
    member: str

    @property
    def counts(self) -> WorkCounts: ...
    @property
    def is_ready(self) -> bool: ...


class ActionFigures(NamedTuple):
    """The figures of one action, for people and programs alike."""

    name: str
    begun: int
    done: int
    failed: int
    retried: int
    poisoned: int
    expired: int
    queue_seconds: float
    """The mean from acceptance to the first attempt."""
    do_seconds: float
    """The mean of an attempt."""


def figures_of(name: str, counts: ActionCounts) -> ActionFigures:
    return ActionFigures(
        name=name,
        begun=counts.begun,
        done=counts.done,
        failed=counts.refused + counts.no_data + counts.unknown,
        retried=counts.retried,
        poisoned=counts.poisoned,
        expired=counts.expired,
        queue_seconds=counts.queue_seconds / counts.queued if counts.queued else 0.0,
        do_seconds=counts.do_seconds / counts.begun if counts.begun else 0.0,
    )


def metrics_text(worker: CountsWork) -> str:
    return "".join(_lines(worker))


def _lines(worker: CountsWork) -> Iterator[str]:
    counts = worker.counts
    actions = sorted(counts.actions.items())
    yield from _help("restante_work_actions_total", "counter", "Actions that ended, by name and outcome.")
    for name, own in actions:
        for attribute, outcome in _OUTCOMES.items():
            yield f'restante_work_actions_total{{action="{_label(name)}",outcome="{outcome}"}} {getattr(own, attribute)}\n'
    yield from _each("restante_work_retries_total", "Attempts that failed in passing.", actions, "retried")
    yield from _each("restante_work_attempts_total", "Attempts that were begun.", actions, "begun")
    yield from _summary(
        "restante_work_queue_seconds", "From acceptance to the first attempt.", actions, ("queue_seconds", "queued")
    )
    yield from _summary("restante_work_do_seconds", "How long attempts took.", actions, ("do_seconds", "begun"))
    yield from _one("restante_work_health_checks_total", "counter", "Health checks dropped.", counts.health_checks)
    yield from _one(
        "restante_work_health_check_age_seconds",
        "gauge",
        "The age of the last health check when it was dropped.",
        counts.health_check_seconds,
    )
    yield from _one("restante_work_passed_over_total", "counter", "Actions of other groups.", counts.passed_over)
    yield from _one(
        "restante_work_orphaned_total", "counter", "Attempts that ended after the partition was lost.", counts.orphaned
    )
    yield from _one("restante_work_running", "gauge", "Attempts under way.", worker.core.attempts_running)
    yield from _one("restante_work_partitions", "gauge", "Partitions that the worker has.", len(worker.core.partitions))
    yield from _one("restante_work_ready", "gauge", "1 if the hub answers.", int(worker.is_ready))


def _help(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}\n# TYPE {name} {kind}\n"


def _one(name: str, kind: str, told: str, value: float) -> Iterator[str]:
    yield from _help(name, kind, told)
    yield f"{name} {value:.6g}\n" if value < 1_000_000 else f"{name} {value:.0f}\n"


def _each(name: str, told: str, actions: list[tuple[str, ActionCounts]], attribute: str) -> Iterator[str]:
    yield from _help(name, "counter", told)
    for action, own in actions:
        yield f'{name}{{action="{_label(action)}"}} {getattr(own, attribute)}\n'


def _summary(
    name: str, told: str, actions: list[tuple[str, ActionCounts]], attributes: tuple[str, str]
) -> Iterator[str]:
    yield from _help(name, "summary", told)
    for action, own in actions:
        label = _label(action)
        yield f'{name}_sum{{action="{label}"}} {getattr(own, attributes[0]):.6f}\n'
        yield f'{name}_count{{action="{label}"}} {getattr(own, attributes[1])}\n'


def _label(name: str) -> str:
    shown = name if name != OTHERS else "(others)"
    return shown.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
