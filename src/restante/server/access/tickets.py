"""Tickets: what a browser carries in an address, where it can send no header.

A ticket stands for the token that asked for it, at the live routes of one recipient, for at most a minute. It is kept in
memory only, by its digest, and is worth no more than its token: a token that is revoked ends what a ticket began.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import NamedTuple

from restante.errors import Unauthenticated
from restante.limits import TICKET_SECONDS, TICKETS_MAX

_PREFIX = "rsttk_"


class Ticket(NamedTuple):
    """The grant that a ticket stands for."""

    holder: str
    """The name of the token."""
    authorization: str | None
    """The header of the token; None at a hub that asks for none."""
    recipient: str
    expires_at: float
    """When the ticket expires, by the clock of `Tickets`."""


class Tickets:
    """The tickets that have not expired. Used from the event loop only.

    When there are too many, the token that has the most loses its oldest: one that asks for many takes nothing from others.

    The clock only goes forward, as `time.monotonic` does: a ticket must not live longer because the system's time is set back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[bytes, Ticket] = {}
        """The oldest first: all last equally long."""
        self._held: dict[str, dict[bytes, None]] = {}
        """The digests of each token's tickets, the oldest first."""

    def make(self, holder: str, authorization: str | None, recipient: str) -> str:
        """A new ticket for the token of this name, which expires after `TICKET_SECONDS`."""
        self._forget()
        text = _PREFIX + secrets.token_urlsafe(32)
        digest = _digest(text)
        self._known[digest] = Ticket(holder, authorization, recipient, self._clock() + TICKET_SECONDS)
        self._held.setdefault(holder, {})[digest] = None
        if len(self._known) > TICKETS_MAX:
            most = max(self._held.values(), key=len)
            self._drop(next(iter(most)))
        return text

    def authorization(self, text: str, recipient: str | None) -> str | None:
        """The header that a ticket stands for. The error never repeats the ticket."""
        self._forget()
        found = self._known.get(_digest(text))
        if found is None or found.recipient != recipient:
            raise Unauthenticated(
                "The ticket is unknown, has expired, or is not for this recipient. Ask for a new one."
            )
        return found.authorization

    def _forget(self) -> None:
        now = self._clock()
        while self._known and self._known[next(iter(self._known))].expires_at <= now:
            self._drop(next(iter(self._known)))

    def _drop(self, digest: bytes) -> None:
        holder = self._known.pop(digest).holder
        del self._held[holder][digest]
        if not self._held[holder]:
            del self._held[holder]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
