"""A worker that kills itself at one step: `python -m tests.work.dying_worker URL STEP COUNT`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from restante.client.transport.link import AsyncLink
from restante.model.groups.group_answers import NextAnswer
from restante.model.work.results import OutcomeReport
from restante.work import reports, runner
from restante.work.lease import WorkLease
from restante.work.reader import WorkReader
from restante.work.reports import ReportAnswer
from restante.work.worker_process import WorkerPlace, work
from tests.work import ledger_app

STEPS = ("joined", "read", "begun", "handled", "committed", "reporting", "reported")


class Death:
    """Comes when a step was passed so many times."""

    def __init__(self, step: str, count: int) -> None:
        self._step = step
        self._left = count

    def passed(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, step: str, count: str) -> None:
    death = Death(step, int(count))
    ledger_app.passed = death.passed
    join, took, reported = WorkLease._join, WorkReader._took, reports.report_answers

    def joining(self: WorkLease, sent: float) -> None:
        join(self, sent)
        death.passed("joined")

    def taking(self: WorkReader, answer: NextAnswer) -> int:
        count = took(self, answer)
        if count:
            death.passed("read")
        return count

    async def reporting(link: AsyncLink, group: str, together: Sequence[OutcomeReport]) -> list[ReportAnswer]:
        any_ended = any(report.outcomes for report in together)
        if any_ended:
            death.passed("reporting")
        given = await reported(link, group, together)
        if any_ended:
            death.passed("reported")
        return given

    WorkLease._join = joining  # type: ignore[method-assign]
    WorkReader._took = taking  # type: ignore[method-assign]
    vars(runner)["report_answers"] = reporting
    sys.exit(work(ledger_app.app, WorkerPlace(hub=url)))


if __name__ == "__main__":
    main(*sys.argv[1:])
