"""Which publishes may go through a backplane, and what is said to those that may not."""

from __future__ import annotations

from restante.calls.publishing import Publish
from restante.errors import InvalidRequest, Unavailable
from restante.hub.backplane.parcels import NotForBackplane
from restante.model.backplane.accept import Accept
from restante.model.publishing.delay import are_delayed
from restante.model.publishing.message import MessageColumns

NOT_LOOKED_AT = "it was not looked at yet"
"""The reason why a backplane takes nothing before its log was seen."""


def goes_through(call: Publish, *, has_backplane: bool) -> bool:
    """Whether a publish goes through the backplane; `InvalidRequest` if it wants to be merely accepted, and cannot."""
    other = _other_way(call)
    if call.accept is Accept.ACCEPTED:
        if not has_backplane:
            raise InvalidRequest(
                "This hub has no backplane, so it can only store messages: leave `accepted` out. An operator sets one up with "
                "backplane.topic.",
                field="accept",
            )
        if other is not None:
            raise InvalidRequest(
                f"A publish with {other} is answered when it is stored: leave `accepted` out.", field="accept"
            )
    return has_backplane and other is None


def _other_way(call: Publish) -> str | None:
    """The reason why a publish goes straight to the owner: the hub's own state decides what becomes of it."""
    if call.producer is not None:
        return "a producer's numbers"
    if call.source is not None:
        return "a source"
    return None if call.batch is None else "a batch"


def refuse_delayed(columns: MessageColumns, now: int) -> None:
    """`NotForBackplane` if some messages are kept aside until they are due."""
    if are_delayed(columns, now):
        raise NotForBackplane("A message with visible_at is answered when it is stored: leave `accepted` out.")


def takes_nothing(reason: str) -> Unavailable:
    return Unavailable(f"The backplane takes no messages at present: {reason}", retry_after=1)
