"""Reports about an action: which outcome it gets, and whether that changes anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from restante import limits
from restante.errors import InvalidRequest
from restante.model.actions.action_row import ActionRow, ActionState, OutcomeTexts
from restante.model.storage.change import ChangeKind
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem, problem_of

_STATES = {
    OutcomeState.DONE: ActionState.DONE,
    OutcomeState.FAILED: ActionState.FAILED,
    OutcomeState.EXPIRED: ActionState.EXPIRED,
    OutcomeState.POISONED: ActionState.POISONED,
}
_SETTLED_AS = {
    ActionState.DONE: ChangeKind.COLLECTED,
    ActionState.FAILED: ChangeKind.COLLECTED,
    ActionState.EXPIRED: ChangeKind.EXPIRED,
    ActionState.POISONED: ChangeKind.SET_ASIDE,
}
UNKNOWN = "action_unknown"
WITHDRAWN = "action_withdrawn"
GIVEN_UP = "given_up"
WORKER_DIED = "worker_died"
_TAKEN_BACK = (WITHDRAWN, GIVEN_UP)
_PATH = re.compile(r"/(?:[!-~](?<![\\]))*")


class Ending(NamedTuple):
    """The end of an action: its row after that, what becomes of its message, and what is kept beside the row."""

    row: ActionRow
    kind: ChangeKind
    texts: OutcomeTexts


def checked_outcome(outcome: WorkOutcome, *, poison_undeclared: bool = False) -> WorkOutcome:
    """The outcome as it is taken: what cannot be kept becomes poison, and what makes no sense is refused."""
    _check_shape(outcome)
    if outcome.result is not None and len(outcome.result) > limits.RESULT_BYTES_MAX:
        size = len(outcome.result)
        return _poisoned(
            outcome,
            "result_too_large",
            f"The result has {size} bytes; at most {limits.RESULT_BYTES_MAX} are kept. Return a location.",
        )
    if outcome.location is not None and not is_location(outcome.location):
        return _poisoned(
            outcome,
            "invalid_location",
            "The location is no path, and no https address without credentials.",
        )
    if poison_undeclared and outcome.state is OutcomeState.FAILED and says_unknown(outcome):
        return msgspec.structs.replace(outcome, state=OutcomeState.POISONED)
    return outcome


def says_unknown(outcome: WorkOutcome) -> bool:
    """Whether an outcome says that nobody has declared the action's name."""
    ended = outcome.state in (OutcomeState.FAILED, OutcomeState.POISONED)
    return ended and outcome.problem is not None and outcome.problem.code == UNKNOWN


def _check_shape(outcome: WorkOutcome) -> None:
    done = outcome.state is OutcomeState.DONE
    if not 0 < outcome.sequence_number < 2**63:
        raise InvalidRequest("sequence_number is that of an action, 1 or more.", field="sequence_number")
    if not 0 <= outcome.attempts < 2**31:
        raise InvalidRequest("attempts is a number, 0 or more.", field="attempts")
    if not done and (outcome.result is not None or outcome.location is not None):
        raise InvalidRequest("Only an action that is done has a result or a location.", field="result")
    if outcome.state in (OutcomeState.FAILED, OutcomeState.POISONED) and outcome.problem is None:
        raise InvalidRequest(f"An action that is {outcome.state.value} has a problem: give its code.", field="problem")
    if outcome.problem is not None:
        _check_problem(outcome.problem)


def _check_problem(problem: WorkProblem) -> None:
    try:
        size = len(problem.code.encode()) + len(problem.detail.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("A problem is valid Unicode text.", field="problem") from error
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", problem.code):
        raise InvalidRequest("A problem's code is lower-case letters, digits and _, at most 64.", field="problem")
    if size > limits.PROBLEM_BYTES_MAX:
        raise InvalidRequest(f"A problem has at most {limits.PROBLEM_BYTES_MAX} bytes, not {size}.", field="problem")


def is_location(text: str) -> bool:
    """A path, or an https address without credentials."""
    if not 0 < len(text) <= limits.LOCATION_CHARACTERS_MAX or not re.fullmatch(r"[!-~]+", text) or "\\" in text:
        return False
    if text.startswith("/"):
        return not text.startswith("//") and _PATH.fullmatch(text) is not None
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc


def _poisoned(outcome: WorkOutcome, code: str, detail: str) -> WorkOutcome:
    return msgspec.structs.replace(
        outcome, state=OutcomeState.POISONED, result=None, location=None, problem=problem_of(code, detail)
    )


def ending_of(row: ActionRow, outcome: WorkOutcome, *, group: str, now: int) -> Ending | None:
    """How a reported action ends; None: it has its outcome already, and that stays.

    An action that was done counts as done, even if it expired or was taken back meanwhile.
    """
    if row.is_final and not (outcome.state is OutcomeState.DONE and _was_taken_back(row)):
        return None
    state, problem = _STATES[outcome.state], outcome.problem
    begun = 0 if outcome.begun_at is None else round(outcome.begun_at * 1_000_000)
    texts = OutcomeTexts(outcome.result or b"", "" if problem is None else problem.detail)
    after = msgspec.structs.replace(
        row,
        state=state,
        attempts=max(row.attempts, outcome.attempts),
        begun_at=begun,
        ended_at=now,
        code="" if problem is None else problem.code,
        location=outcome.location or "",
        group=group,
        noted=state is not ActionState.POISONED and texts != OutcomeTexts(),
    )
    return Ending(after, _SETTLED_AS[state], texts)


def _was_taken_back(row: ActionRow) -> bool:
    return row.state is ActionState.EXPIRED or (row.state is ActionState.FAILED and row.code in _TAKEN_BACK)


def after_death(row: ActionRow, *, now: int, group: str) -> ActionRow:
    """A worker died while it did the action: the third time it is poison."""
    deaths = row.deaths + 1
    if deaths < limits.ACTION_DEATHS_MAX:
        return msgspec.structs.replace(row, deaths=deaths)
    return msgspec.structs.replace(
        row, deaths=deaths, state=ActionState.POISONED, ended_at=now, code=WORKER_DIED, group=group
    )


def after_settling(row: ActionRow, kind: ChangeKind, at: int) -> ActionRow | None:
    """An action whose message was withdrawn or has expired; None: that changes nothing."""
    if kind is ChangeKind.WITHDRAWN and row.state is ActionState.POISONED:
        return _ended(row, ActionState.FAILED, GIVEN_UP, at)
    if row.is_final or kind not in (ChangeKind.WITHDRAWN, ChangeKind.EXPIRED):
        return None
    if kind is ChangeKind.EXPIRED:
        return _ended(row, ActionState.EXPIRED, "", at)
    return _ended(row, ActionState.FAILED, WITHDRAWN, at)


def _ended(row: ActionRow, state: ActionState, code: str, at: int) -> ActionRow:
    return msgspec.structs.replace(row, state=state, code=code, ended_at=at)


def accepted_again(row: ActionRow) -> ActionRow:
    """The same action, of which nothing has become yet."""
    return ActionRow(row.concerns, row.origin, row.id, row.text_id, row.name, row.accepted_at)


def check_reports(reports: Sequence[tuple[int, Sequence[WorkOutcome]]]) -> None:
    """`InvalidRequest`, if these outcomes of these partitions cannot be reported together, or one of them cannot be meant."""
    if len({partition for partition, _ in reports}) < len(reports):
        raise InvalidRequest("Each partition is reported once.", field="partitions")
    if sum([len(outcomes) for _, outcomes in reports]) > limits.OUTCOMES_AT_ONCE_MAX:
        raise InvalidRequest(f"Reports have at most {limits.OUTCOMES_AT_ONCE_MAX:,} outcomes.", field="outcomes")
    for _, outcomes in reports:
        for outcome in outcomes:
            _check_shape(outcome)
