"""Reports of several partitions at once: each is taken or refused separately, and those taken go into one commit.

A worker with many partitions reports the outcomes of all of them in one request. A partition that it has lost meanwhile is
refused with its own problem, without any effect on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import UNSET

from restante.calls.actions import ReportEach, ReportOutcomes
from restante.errors import GenerationStale, InvalidRequest, PartitionUnknown, PositionAhead, RestanteError
from restante.hub.actions.outcomes import are_light, report_request, tell_if_release
from restante.hub.engine.commit_request import LastListener, LoopWaiter, Planned
from restante.hub.engine.core import Core
from restante.model.access.access import Grant
from restante.model.actions.action_answers import OutcomesReported, OutcomesTaken, reported
from restante.model.actions.action_reports import check_reports
from restante.model.groups.group_names import check_group

PreparedReport = Planned[OutcomesTaken] | RestanteError
"""A report to be committed, or the error that refuses it."""
_OF_A_PARTITION = (GenerationStale, PositionAhead, PartitionUnknown)


def report_each(core: Core, call: ReportEach, _: Grant) -> OutcomesReported:
    prepared = _prepared(core, call)
    core.committer.submit_each([one for one in prepared if isinstance(one, Planned)])
    answer = _answered(call, prepared)
    for own, told in zip(call.reports, answer.partitions, strict=True):
        if told.problem is UNSET:
            tell_if_release(core, own)
    return answer


def report_each_soon(core: Core, call: ReportEach, waiter: LoopWaiter[OutcomesReported]) -> bool:
    """Submit small reports from an event loop if nothing must be read for them; return False if nothing was done."""
    if not are_light(core, call.reports):
        return False
    prepared = _prepared(core, call)
    requests = [one for one in prepared if isinstance(one, Planned)]
    if not requests:
        return False
    listener = LastListener(len(requests), partial(_answered, call, prepared), waiter)
    core.committer.submit_each_soon(requests, [listener] * len(requests))
    return True


def _prepared(core: Core, call: ReportEach) -> list[PreparedReport]:
    for name in {own.group for own in call.reports}:
        check_group(name)
    check_reports([(own.partition, own.outcomes) for own in call.reports])
    return [_one_prepared(core, own) for own in call.reports]


def _one_prepared(core: Core, call: ReportOutcomes) -> PreparedReport:
    try:
        return report_request(core, call)
    except RestanteError as error:
        if isinstance(error, InvalidRequest) and not isinstance(error, PartitionUnknown):
            raise  # An invalid report refuses the whole request, before anything is done.
        return error


def _answered(call: ReportEach, prepared: Sequence[PreparedReport]) -> OutcomesReported:
    """The answer to all reports. If none was taken, and no error concerns only its partition, raise the first error."""
    found = [_outcome(one) for one in prepared]
    errors = [one for one in found if isinstance(one, RestanteError)]
    if errors and len(errors) == len(found) and not any(isinstance(error, _OF_A_PARTITION) for error in errors):
        raise errors[0]
    told = [reported(own.partition, one) for own, one in zip(call.reports, found, strict=True)]
    return OutcomesReported(partitions=tuple(told))


def _outcome(one: PreparedReport) -> OutcomesTaken | RestanteError:
    if isinstance(one, RestanteError):
        return one
    try:
        return one.answer()
    except RestanteError as error:
        return error
