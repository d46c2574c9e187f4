"""How attempts end, and what is reported of an action."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from restante.limits import GROUP_PARTITIONS_AT_ONCE_MAX
from restante.model.work.rules import PROBLEM_BYTES_MAX, REPORT_OUTCOMES_MAX


class AttemptDone(msgspec.Struct, frozen=True, kw_only=True):
    """The handler did it."""

    result: bytes | None = None
    """The value that it returned, as JSON."""
    location: str | None = None


class AttemptPassing(msgspec.Struct, frozen=True, kw_only=True):
    """An error that may pass, or a time-out: it is tried again."""

    detail: str
    seconds: float | None = None
    """When, if the handler said so."""


class AttemptRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The handler said no: it is not tried again, and is no poison."""

    detail: str


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """Any other error, or a body that does not fit: poison at once."""

    code: str
    detail: str


class AttemptNoData(msgspec.Struct, frozen=True, kw_only=True):
    """The body is JSON's null where the handler takes none: dropped."""


AttemptResult = AttemptDone | AttemptPassing | AttemptRefused | AttemptFailed | AttemptNoData


class OutcomeState(Enum):
    """The outcomes of an action; the first one is not final."""

    UNDER_WAY = "under_way"
    DONE = "done"
    POISONED = "poisoned"
    EXPIRED = "expired"
    FAILED = "failed"


class WorkProblem(msgspec.Struct, frozen=True):
    """The reason why an action was not done."""

    code: str
    detail: str = ""


class WorkOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one action, as it is reported."""

    sequence_number: int
    state: OutcomeState
    attempts: int
    result: bytes | None = None
    """The value that its handler returned, as JSON."""
    location: str | None = None
    problem: WorkProblem | None = None
    next_attempt_at: float | None = None
    begun_at: float | None = None
    """When the last attempt began, by the hub's clock."""

    @property
    def is_final(self) -> bool:
        return self.state is not OutcomeState.UNDER_WAY


def problem_of(code: str, detail: str) -> WorkProblem:
    """With as much of the detail as is kept: its end, where the error itself is named."""
    kept = detail.encode(errors="backslashreplace")[-(PROBLEM_BYTES_MAX - len(code.encode())) :]
    return WorkProblem(code, kept.decode(errors="ignore"))


class OutcomeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a worker about a partition in one call, which is taken whole or not at all."""

    partition: int
    generation: int
    outcomes: tuple[WorkOutcome, ...]
    position: int | None = None
    """Up to where everything has an outcome, in this report or before; None: it stays where it was."""
    release: bool = False
    """Whether this report is the last one: the partition is given up with it."""


def sent_together(reports: Sequence[OutcomeReport]) -> list[list[OutcomeReport]]:
    """Reports of different partitions as they are sent: as many in one request as its bound of outcomes allows."""
    requests: list[list[OutcomeReport]] = []
    room = 0
    for report in reports:
        if not requests or len(report.outcomes) > room or len(requests[-1]) == GROUP_PARTITIONS_AT_ONCE_MAX:
            requests.append([])
            room = REPORT_OUTCOMES_MAX
        requests[-1].append(report)
        room -= len(report.outcomes)
    return requests
