"""Reports of a worker, said to the hub: whether each was taken."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum

from msgspec import UNSET

from restante.calls.actions import ReportEach, ReportOutcomes
from restante.client.transport.link import AsyncLink
from restante.errors import GenerationStale, GroupUnknown, RestanteError, Unavailable
from restante.model.actions.action_answers import PartitionReported
from restante.model.work.results import OutcomeReport

_log = logging.getLogger("restante.work")


class ReportAnswer(Enum):
    TAKEN = 1
    FAILED = 2
    """The report was refused, or nobody knows whether it was taken: it is made again, the same."""
    STALE = 3
    """The partition is another's."""


async def report_answers(link: AsyncLink, group: str, reports: Sequence[OutcomeReport]) -> list[ReportAnswer]:
    """Send the reports of several partitions in one request; gives an answer for each."""
    call = ReportEach([_call(group, report) for report in reports])
    try:
        reported = await link.call(call)
    except GroupUnknown:
        return [ReportAnswer.STALE] * len(reports)
    except RestanteError as error:
        level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
        _log_failed(level, group, reports, str(error))
        return [ReportAnswer.FAILED] * len(reports)
    return [_answer(group, report, own) for report, own in zip(reports, reported.partitions, strict=True)]


def _call(group: str, report: OutcomeReport) -> ReportOutcomes:
    return ReportOutcomes(
        group,
        report.partition,
        report.generation,
        report.outcomes,
        position=report.position,
        release=report.release,
    )


def _answer(group: str, report: OutcomeReport, reported: PartitionReported) -> ReportAnswer:
    problem = reported.problem
    if problem is UNSET:
        return ReportAnswer.TAKEN
    if problem.code == GenerationStale.code:
        return ReportAnswer.STALE
    _log_failed(logging.ERROR, group, [report], problem.detail)
    return ReportAnswer.FAILED


def _log_failed(level: int, group: str, reports: Sequence[OutcomeReport], why: str) -> None:
    fields = {
        "partitions": [report.partition for report in reports],
        "outcomes": sum(len(report.outcomes) for report in reports),
    }
    _log.log(level, "A report of %s was not taken: %s It is made again.", group, why, extra={"fields": fields})
