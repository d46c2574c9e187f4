"""The log of a worker: each attempt that did not do its action, with the action's id; at level debug also the others."""

from __future__ import annotations

import logging
from typing import Any

from restante.model.work.counts import WorkCounts
from restante.model.work.results import (
    AttemptDone,
    AttemptFailed,
    AttemptNoData,
    AttemptPassing,
    AttemptRefused,
    AttemptResult,
)
from restante.work.job import ActionJob, current_job

_log = logging.getLogger("restante.work")


class WithAction(logging.Filter):
    """Adds to each line that a handler writes which action it is about."""

    def filter(self, record: logging.LogRecord) -> bool:
        job = current_job.get()
        if job is not None:
            own: dict[str, Any] = getattr(record, "fields", {})
            record.fields = {**job_fields(job), **own}
        return True


def job_fields(job: ActionJob) -> dict[str, Any]:
    found = {
        "action": job.action,
        "id": job.id,
        "concerns": job.concerns,
        "attempt": job.attempt,
        "partition": job.partition,
        "sequence_number": job.number,
        "correlation_id": job.correlation_id,
        "traceparent": job.traceparent,
    }
    return {name: value for name, value in found.items() if value is not None}


def log_attempt(job: ActionJob, result: AttemptResult) -> None:
    if isinstance(result, AttemptDone) and not _log.isEnabledFor(logging.DEBUG):
        return
    level, event, detail = _line(result)
    fields = job_fields(job)
    if detail:
        fields["detail"] = detail
    _log.log(level, "%s %s", job.action, event, extra={"fields": fields})


def _line(result: AttemptResult) -> tuple[int, str, str]:
    match result:
        case AttemptDone():
            return logging.DEBUG, "is done", ""
        case AttemptPassing():
            return logging.WARNING, "failed in passing", result.detail
        case AttemptRefused():
            return logging.INFO, "is refused", result.detail
        case AttemptNoData():
            return logging.WARNING, "has no data, and is dropped", ""
        case AttemptFailed():
            return logging.ERROR, f"could not be done ({result.code})", result.detail


def log_stuck(job: ActionJob, error: Exception) -> None:
    _log.critical("%s: the worker leaves its other work, and ends.", error, extra={"fields": job_fields(job)})


def log_fenced(job: ActionJob, error: Exception) -> None:
    _log.warning("Another worker does %s: %s", job.action, error, extra={"fields": job_fields(job)})


def log_unknown(counts: WorkCounts, told: list[str]) -> None:
    """Names that no group declared, each once; `told` are those that were."""
    for name in counts.unknown_names[len(told) :]:
        told.append(name)
        _log.warning("No group has declared the action %r: such actions fail.", name)
