"""Repeating an attempt until it is answered, or until `Retrying` allows no further one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from restante.client.transport.exchange import Dialogue, Failure, HttpRequest, LinkFrame, Pause, Reply, Response
from restante.client.transport.http_answers import error_of_response, is_problem
from restante.client.transport.options import Terms
from restante.client.transport.unreachable import unreachable
from restante.errors import OutcomeUnknown, RestanteError, Unavailable

_LATER = (421, 429, 503)
"""Statuses by which a hub refuses a call temporarily."""
_ELSEWHERE = 421
_PROXY = (502, 504)
"""Statuses by which a proxy says that it cannot reach the hub."""


@dataclass(frozen=True, slots=True)
class Answered:
    response: Response
    maybe_done: bool
    """Whether an earlier attempt got no answer, and may have been carried out."""


def answered(terms: Terms, attempt_after: Callable[[float], HttpRequest | LinkFrame]) -> Dialogue[Answered]:
    """The first answer that is not a temporary refusal.

    `attempt_after` makes an attempt, given the seconds since the first one, by which a peek shortens its wait.
    """
    began, maybe_done, said = terms.clock(), False, False
    for attempt in count(1):
        step = attempt_after(terms.clock() - began)
        reply: Reply = yield step
        if isinstance(reply, Response) and not _later(reply):
            if said:
                terms.tell(f"The hub at {terms.address.url} answers again.")
            return Answered(reply, maybe_done)
        pause = _pause(terms, attempt, reply)
        maybe_done = maybe_done or _may_be_done(terms, reply)
        if attempt > terms.retrying.times or terms.clock() - began + pause > terms.retrying.seconds:
            raise _given_up(terms, reply, attempt, maybe_done=maybe_done)
        if isinstance(reply, Failure) and not said:
            terms.tell(f"{_without_answer(terms, reply).message} {_goes_on(terms)}")
            said = True
        yield Pause(pause)
    raise AssertionError("counting does not end")


def _goes_on(terms: Terms) -> str:
    return f"Trying again, up to {terms.retrying.times} times within {terms.retrying.seconds:g} s."


def _later(response: Response) -> bool:
    return response.status in _LATER or (response.status in _PROXY and not is_problem(response))


def _may_be_done(terms: Terms, reply: Reply) -> bool:
    """Whether the attempt may have been carried out. A temporary refusal means no, unless the hub says otherwise."""
    if isinstance(reply, Failure):
        return reply.reached
    return not is_problem(reply) or isinstance(error_of_response(reply, terms.address), OutcomeUnknown)


def _pause(terms: Terms, attempt: int, reply: Reply) -> float:
    """The pause that the hub asks for, or one that grows with each attempt."""
    if attempt == 1 and isinstance(reply, Response) and reply.status == _ELSEWHERE and terms.places.several:
        return 0.0  # The next attempt goes to the owner, which the answer or the map names.
    own = terms.retrying.pause(attempt, terms.chance())
    named = reply.headers.get("retry-after", "") if isinstance(reply, Response) else ""
    return max(own, float(named)) if named.isascii() and named.isdigit() else own


def _given_up(terms: Terms, reply: Reply, attempts: int, *, maybe_done: bool) -> RestanteError:
    """The error of the last attempt, as `OutcomeUnknown` if any attempt may have been carried out."""
    error = error_of_response(reply, terms.address) if isinstance(reply, Response) else _without_answer(terms, reply)
    tried = f" It was tried {attempts} times." if attempts > 1 and isinstance(reply, Failure) else ""
    if not maybe_done:
        return Unavailable(f"{error.message}{tried}", **error.details) if tried else error
    advice = "The call may have been carried out; repeating it does no harm."
    return OutcomeUnknown(f"{error.message} {advice}{tried}", **error.details)


def _without_answer(terms: Terms, failure: Failure) -> RestanteError:
    url = terms.address.url
    if failure.reached:
        return Unavailable(f"The hub at {url} gave no answer: {failure.reason}.", address=url)
    return unreachable(terms.address, failure.reason)
