"""The states of a live connection, when it is tried again, and the texts of its errors and reasons; without I/O."""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import Protocol

import msgspec

from restante.errors import InvalidOperation, InvalidRequest, OutcomeUnknown, RestanteError, Unavailable
from restante.limits import LIVE_RECONNECT_SECONDS_MAX, LIVE_STEADY_SECONDS
from restante.wire.live import Disconnect


class LiveStage(Enum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    CATCHING_UP = "catching_up"
    """Messages that were not pushed are fetched from history."""
    RECONNECTING = "reconnecting"
    CLOSED = "closed"


class LiveState(msgspec.Struct, frozen=True):
    """The state of a live connection, as `on_state` gets it."""

    stage: LiveStage
    reason: str | None = None
    """Why the connection is tried again or has ended; or, when connected, why it begins earlier than asked."""
    delay: float | None = None
    """Seconds until the connection is tried again."""


class LivePatience(Protocol):
    """The part of a door that decides how long to wait."""

    def pause(self, attempt: int) -> float: ...
    def gives_up(self, attempt: int, seconds: float) -> bool: ...


class Course:
    """The sequence of connections to one mailbox. Times are in seconds of one clock."""

    def __init__(self, patience: LivePatience) -> None:
        self._patience = patience
        self._attempts = 0
        """How many attempts in a row have failed."""
        self._began: float | None = None
        self._connected_at: float | None = None
        self._farewell: Disconnect | None = None
        self.connections = 0
        self.owner: str | None = None
        """The address to connect to, if the hub has named another one."""

    def connecting(self, now: float) -> LiveState:
        self._attempts += 1
        self._connected_at = self._farewell = None
        if self._began is None:
            self._began = now
        return LiveState(LiveStage.CONNECTING)

    def connected(self, now: float, reason: str | None = None) -> LiveState:
        self.connections += 1
        self._connected_at = now
        return LiveState(LiveStage.CONNECTED, reason)

    def told_to_go(self, farewell: Disconnect) -> None:
        """Note the `disconnect` frame of the hub."""
        self._farewell = farewell
        if farewell.reason == "protocol_error":
            # Sending the same frames again would fail in the same way.
            raise InvalidRequest(f"The hub ended the live connection, for it did not understand: {_told(farewell)}.")

    def lost(self, reason: str, now: float) -> LiveState:
        """The state after a connection was lost, with the delay until the next one."""
        if self._connected_at is not None and now - self._connected_at >= LIVE_STEADY_SECONDS:
            self._attempts = 0
        farewell = self._farewell
        if farewell is None:
            return self._again(reason, None)
        self.owner = farewell.owner
        if farewell.reconnect_after is not None:
            self._attempts = 0
        return self._again(_told(farewell), farewell.reconnect_after)

    def refused(self, error: RestanteError, now: float) -> LiveState:
        """The state after a connection was refused, with the delay until the next try. Raises an error that retrying cannot fix."""
        owner = error.details.get("owner")
        if isinstance(owner, str) and owner != self.owner:
            self.owner = owner
            return self._again(error.message, None)
        if not error.retriable or (not self.connections and self._out_of_patience(now)):
            raise error
        # The named owner may be gone for good: try the address that the program gave.
        self.owner = None
        return self._again(error.message, error.details.get("retry_after"))

    def _out_of_patience(self, now: float) -> bool:
        assert self._began is not None, "it was tried"
        return self._patience.gives_up(self._attempts, now - self._began)

    def _again(self, reason: str, named: object) -> LiveState:
        """Reconnect after the pause that the hub asks for, or else after a longer pause each time."""
        delay = self._patience.pause(max(self._attempts, 1))
        if isinstance(named, int | float) and isfinite(named) and named >= 0:
            delay = min(float(named), LIVE_RECONNECT_SECONDS_MAX)
        return LiveState(LiveStage.RECONNECTING, reason, delay)


def _told(farewell: Disconnect) -> str:
    return farewell.reason if farewell.detail is None else f"{farewell.reason}: {farewell.detail}"


CLOSED = "this program has closed it"


def begins_earlier(number: int) -> str:
    return f"the hub has nothing after {number}, where it begins now: its data is older than the position asked for"


def ended() -> RestanteError:
    error = Unavailable(f"The live connection has ended: {CLOSED}. Ask the recipient for a new one.")
    error.retriable = False
    return error


def not_in_time() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The hub did not say in time that the messages are collected. They may be; to say it again does no harm."
    )


def read_elsewhere() -> InvalidOperation:
    return InvalidOperation(
        "Another thread or task waits for the next message already. Ask the recipient for a live connection of your own."
    )


def unreadable(why: str) -> Unavailable:
    error = Unavailable(f"What the hub pushed cannot be read: {why}. Is it a hub of this version?")
    error.retriable = False
    return error
