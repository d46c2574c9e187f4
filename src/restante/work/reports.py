"""A report of a worker, said to the hub: whether it was taken."""

from __future__ import annotations

import logging
from enum import Enum

from restante.calls.actions import ReportOutcomes
from restante.client.transport.link import AsyncLink
from restante.errors import GenerationStale, GroupUnknown, RestanteError, Unavailable
from restante.model.work.results import OutcomeReport

_log = logging.getLogger("restante.work")


class ReportAnswer(Enum):
    TAKEN = 1
    FAILED = 2
    """It was refused, or nobody knows whether it was taken: it is made again, the same."""
    STALE = 3
    """The partition is another's."""


async def report_answer(link: AsyncLink, group: str, report: OutcomeReport) -> ReportAnswer:
    call = ReportOutcomes(
        group,
        report.partition,
        report.generation,
        report.outcomes,
        position=report.position,
        release=report.release,
    )
    try:
        await link.call(call)
    except (GenerationStale, GroupUnknown):
        return ReportAnswer.STALE
    except RestanteError as error:
        level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
        fields = {"partition": report.partition, "outcomes": len(report.outcomes)}
        _log.log(level, "A report of %s was not taken: %s It is made again.", group, error, extra={"fields": fields})
        return ReportAnswer.FAILED
    return ReportAnswer.TAKEN
