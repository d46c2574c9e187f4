"""Small acknowledgements of several callers, sent in one request: what goes together, and whose fault a refusal is.

A request costs the hub far more than the ids in it. So while a few requests are under way, further calls wait, and go out
together. Each caller gets an answer of its own, as if its call had gone alone. No input and output is done here.
"""

from __future__ import annotations

from copy import copy
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from restante import limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batch_protocol import acknowledgement
from restante.client.sending.send_queue import SendQueue
from restante.errors import Forbidden, RestanteError, Unauthenticated, Unavailable
from restante.model.batches.batch_answers import Acknowledged

REQUESTS_MAX = limits.ACKNOWLEDGE_REQUESTS_MAX

Outcome: TypeAlias = Acknowledged | Exception


class JointCall(NamedTuple):
    """One call, as it is written on the wire."""

    text: bytes
    weight: int
    """How many items and ranges it names."""

    @property
    def is_large(self) -> bool:
        """Too large to share a request with another of its kind: it gains nothing by waiting for others."""
        return 2 * self.weight > limits.ACKNOWLEDGE_ITEMS_TARGET


class JointWaiting(Protocol):
    @property
    def call(self) -> JointCall: ...


W = TypeVar("W", bound=JointWaiting)


def joint_call(call: AcknowledgeItems) -> JointCall:
    weight = len(call.items) + len(call.ranges) + sum([len(each.indices) for each in call.indices])
    return JointCall(acknowledgement(call), weight)


class JointQueue(SendQueue[W]):
    """The callers that wait for a request."""

    def take_along(self, weight: int = 0, calls: int = 0) -> list[W]:
        """The first callers, as many as fit into a request that has so much already."""
        count = 0
        for caller in islice(self.waiting, limits.ACKNOWLEDGED_CALLS_MAX - calls):
            weight += caller.call.weight
            if weight > limits.ACKNOWLEDGE_ITEMS_TARGET:
                break
            count += 1
        return self.take_first(count)


def concerns_one_call(error: Exception) -> bool:
    """Whether a request was refused for what some call in it says: then the others go through without that one."""
    if not isinstance(error, RestanteError) or error.retriable:
        return False
    return not isinstance(error, Unavailable | Unauthenticated | Forbidden)


def own_error(error: Exception) -> Exception:
    """The error for one of several callers: where it is raised is written into it."""
    if not isinstance(error, RestanteError):
        return error
    own = copy(error)
    own.__cause__ = error.__cause__
    return own
