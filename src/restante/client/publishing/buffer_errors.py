"""Errors of a buffered producer: it cannot do what it is asked, or what it had taken came to nothing."""

from __future__ import annotations

import logging

from restante.errors import Internal, InvalidOperation, OutcomeUnknown, Overloaded, RestanteError, Unavailable

_log = logging.getLogger(__name__)


def is_closed() -> InvalidOperation:
    return InvalidOperation("The producer has been closed: it takes no more messages.")


def from_callback(what: str) -> InvalidOperation:
    return InvalidOperation(f"A callback cannot {what} its producer: it would wait for itself.")


def no_room(messages: int, seconds: float | None) -> Overloaded:
    return Overloaded(
        f"There was no room in the buffer for {seconds} s: {messages} messages wait to be stored. Nothing was taken. "
        "Try again later, or give the buffer more room.",
        retry_after=0,
    )


def not_told(seconds: float | None) -> Unavailable:
    return Unavailable(
        f"The hub has not said within {seconds} s how many partitions it has. Nothing was taken. Try again later."
    )


def still_sending(messages: int, seconds: float | None) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{messages} messages are still being sent after {seconds} s. They are sent on: flush again to wait for them."
    )


def dropped() -> Unavailable:
    return Unavailable(
        "The producer was closed before this was sent: nothing of it was stored. Send it with another producer."
    )


def cut_off() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The program ended while the parcel was being sent, so nobody knows whether it was stored. To send the same "
        "messages again does no harm."
    )


def broken(error: Exception) -> RestanteError:
    """A defect: it is logged, and told like any other failure."""
    _log.error("A parcel could not be sent because of a defect.", exc_info=error)
    told = Internal(f"The parcel could not be sent because of a defect: {error!r}. The log has more.")
    told.__cause__ = error
    return told


def log_failure(messages: int, partition: int, error: RestanteError) -> None:
    """Log a failure that no callback hears of."""
    _log.error("%d messages for partition %d were not stored: %s", messages, partition, error.message)
