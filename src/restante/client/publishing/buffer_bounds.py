"""Bounds of a buffered producer: what it may hold, how long it waits for more, and how it sends: one value, checked when it is made."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from restante import limits
from restante.client.surface.arguments import seconds, whole
from restante.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferBounds:
    """Named as the arguments of `BufferedProducer`."""

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
    """Check that callbacks can be called; asynchronous ones only where they are awaited."""
    for callback in callbacks:
        if callback is None:
            continue
        if not callable(callback):
            raise InvalidRequest(f"on_success and on_error are functions, not {type(callback).__name__}.")
        if not awaited and inspect.iscoroutinefunction(callback):
            raise InvalidRequest(
                "An asynchronous callback needs `restante.aio.BufferedProducer`; here give a plain function."
            )
