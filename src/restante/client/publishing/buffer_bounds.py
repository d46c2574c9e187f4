"""`BufferBounds`: the checked bounds of a buffered producer; and the errors of buffered producers."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass

from restante import limits
from restante.client.surface.arguments import seconds, whole
from restante.errors import (
    Internal,
    InvalidOperation,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    RestanteError,
    Unavailable,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferBounds:
    """The bounds of a buffered producer, with the names of the arguments of `BufferedProducer`."""

    max_wait_time: float = limits.BUFFER_WAIT_SECONDS_DEFAULT
    max_buffer_length: int = limits.BUFFER_MESSAGES_DEFAULT
    max_buffer_bytes: int = limits.BUFFER_BYTES_DEFAULT
    max_parcel_messages: int = limits.BUFFER_PARCEL_MESSAGES_DEFAULT
    max_parcel_bytes: int = limits.PARCEL_BYTES_DEFAULT
    max_concurrent_sends: int = limits.BUFFER_SENDS_DEFAULT

    def __post_init__(self) -> None:
        _check("max_wait_time", seconds("max_wait_time", self.max_wait_time), 0, limits.BUFFER_WAIT_SECONDS_MAX)
        self._check_whole("max_buffer_length", None)
        self._check_whole("max_buffer_bytes", None)
        self._check_whole("max_parcel_messages", limits.SEND_MESSAGES_MAX)
        self._check_whole("max_parcel_bytes", limits.PARCEL_BYTES_MAX)
        self._check_whole("max_concurrent_sends", limits.BUFFER_SENDS_MAX)

    def _check_whole(self, what: str, most: int | None) -> None:
        given = whole(what, getattr(self, what))
        if given is None:
            raise InvalidRequest(f"{what} must be a whole number, not None.")
        _check(what, given, 1, most)


def _check(what: str, given: float, least: int, most: float | None) -> None:
    if given < least or (most is not None and given > most):
        upto = f" to {most:,}" if most is not None else " or more"
        raise InvalidRequest(f"{what} must be {least}{upto}, not {given!r}.")


def check_callbacks(*callbacks: object, awaited: bool) -> None:
    """Check that callbacks are callable, and asynchronous only if they are awaited."""
    for callback in callbacks:
        if callback is None:
            continue
        if not callable(callback):
            raise InvalidRequest(f"on_success and on_error are functions, not {type(callback).__name__}.")
        if not awaited and inspect.iscoroutinefunction(callback):
            raise InvalidRequest(
                "An asynchronous callback needs `restante.aio.BufferedProducer`; here give a plain function."
            )


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
    """Log a defect, and return it as an error that is reported like any other."""
    _log.error("A parcel could not be sent because of a defect.", exc_info=error)
    told = Internal(f"The parcel could not be sent because of a defect: {error!r}. The log has more.")
    told.__cause__ = error
    return told


def log_failure(messages: int, partition: int, error: RestanteError) -> None:
    """Log a failure for which there is no callback."""
    _log.error("%d messages for partition %d were not stored: %s", messages, partition, error.message)
