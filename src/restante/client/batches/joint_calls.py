"""Small calls of several callers, sent in one request: what goes together, and whose fault a refusal is.

They are acknowledgements, or sends. A request costs the hub far more than what is in it. So while a few requests are under way, further calls wait, and go out
together. Each caller gets an answer of its own, as if its call had gone alone. No input and output is done here.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from restante import limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batch_protocol import acknowledgement
from restante.client.sending.send_queue import SendQueue
from restante.errors import Forbidden, RestanteError, Unauthenticated, Unavailable

T = TypeVar("T")
JointOutcome: TypeAlias = T | Exception


class JointCall(NamedTuple):
    """One call, as it is written on the wire."""

    text: bytes
    weight: int
    """How many items and ranges it names, or how many bytes it has."""
    owner: str | None = None
    """The node that it is best sent to, if one is known: calls of different owners share no request."""


class JointBounds(NamedTuple):
    """The bounds of joint requests: how much goes into one, and how many are under way."""

    weight: int
    calls: int
    requests: int
    first_alone: bool = False
    """A task that finds nothing under way does not wait for others that may come in its turn of the event loop."""
    share_from: int = 0
    """The number of waiting calls from which each of the requests that may still go gets its share of them; 0: the first takes all."""

    def is_large(self, call: JointCall) -> bool:
        """Too large to share a request with another of its kind: it gains nothing by waiting for others."""
        return 2 * call.weight > self.weight


ACKNOWLEDGEMENTS = JointBounds(
    limits.ACKNOWLEDGE_ITEMS_TARGET, limits.ACKNOWLEDGED_CALLS_MAX, limits.ACKNOWLEDGE_REQUESTS_MAX
)
SENDS = JointBounds(
    limits.SENDS_BYTES_TARGET,
    limits.SENDS_MAX,
    limits.SENDS_REQUESTS_MAX,
    first_alone=True,
    share_from=limits.SENDS_SHARED_MIN,
)


class JointWaiting(Protocol):
    @property
    def call(self) -> JointCall: ...


W = TypeVar("W", bound=JointWaiting)


def joint_call(call: AcknowledgeItems) -> JointCall:
    weight = len(call.items) + len(call.ranges) + sum([len(each.indices) for each in call.indices])
    return JointCall(acknowledgement(call), weight)


class JointQueue(SendQueue[W]):
    """The callers that wait for a request."""

    def __init__(self, bounds: JointBounds) -> None:
        super().__init__()
        self.bounds = bounds

    def take_first_along(self, free: int = 1) -> list[W]:
        """The first caller, and as many of the same owner as fit into one request with it, where so many requests may go.

        With a share in each of two requests, the hub works on one while the client works on the answers to the other.
        """
        waiting, bounds = len(self.waiting), self.bounds
        share = -(-waiting // free) if bounds.share_from and waiting >= bounds.share_from else bounds.calls
        (first,) = self.take_first(1)
        return [first, *self.take_along(first.call, min(share, bounds.calls))]

    def take_along(self, call: JointCall, calls: int | None = None) -> list[W]:
        """The first callers of the same owner, as many as fit into a request with this call, which has at most so many `calls`."""
        most = self.bounds.calls if calls is None else calls
        weight, taken, others = call.weight, list[W](), list[W]()
        while self.waiting and len(taken) + 1 < most:
            caller = self.waiting.popleft()
            if caller.call.owner != call.owner:
                others.append(caller)
                continue
            weight += caller.call.weight
            if weight > self.bounds.weight:
                others.append(caller)
                break
            taken.append(caller)
        self.put_back(others)
        return taken


def concerns_one_call(error: Exception) -> bool:
    """Whether a request was refused for what some call in it says: then the others go through without that one."""
    if not isinstance(error, RestanteError) or error.retriable:
        return False
    return not isinstance(error, Unavailable | Unauthenticated | Forbidden)


def is_to_be_repeated(answer: object) -> bool:
    """Whether a call was refused for now, among others that were not: alone it is repeated as long as patience lasts."""
    return isinstance(answer, RestanteError) and answer.retriable


def given(outcome: JointOutcome[T]) -> T:
    """The answer of a call. An error is raised, and no frame of its traceback keeps it: else it would be garbage."""
    try:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
    finally:
        del outcome


def own_error(error: Exception) -> Exception:
    """The error for one of several callers: where it is raised is written into it."""
    if not isinstance(error, RestanteError):
        return error
    own = copy(error)
    own.__cause__ = error.__cause__
    return own
