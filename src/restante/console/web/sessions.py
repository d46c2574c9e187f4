"""Sessions: who has signed in, by a cookie that no script can read.

The cookie is a random text; the token that it stands for stays in this process's memory, by the digest of the cookie. A
session ends after some hours, after an hour without use, when it is ended, and with the process. A visitor who has not
signed in has a cookie too, which stands for nothing and is kept nowhere.

The value that a form sends back against forged requests is derived from the cookie, so another site can neither know nor set
it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from restante.limits import CONSOLE_IDLE_SECONDS, CONSOLE_SESSION_SECONDS, CONSOLE_SESSIONS_MAX

_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(slots=True)
class ConsoleSession:
    """The session of a visitor who has signed in."""

    token: str
    began_at: float
    used_at: float


class ConsoleSessions:
    """The sessions that have not ended. Used from the event loop only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, ConsoleSession] = OrderedDict()
        """The one that was used longest ago first."""

    def begin(self, token: str) -> str:
        """A new cookie, which stands for a token. Where there are too many, the one unused for longest goes."""
        self._forget()
        while len(self._known) >= CONSOLE_SESSIONS_MAX:
            self._known.popitem(last=False)
        cookie, now = new_cookie(), self._clock()
        self._known[_digest(cookie)] = ConsoleSession(token, now, now)
        return cookie

    def find(self, cookie: str, *, using: bool = True) -> ConsoleSession | None:
        """The session of a cookie, which counts as used now, unless only a stream looks."""
        self._forget()
        own = self._known.get(_digest(cookie))
        if own is None or self._clock() - own.began_at > CONSOLE_SESSION_SECONDS:
            return None
        if using:
            own.used_at = self._clock()
            self._known.move_to_end(_digest(cookie))
        return own

    def end(self, cookie: str) -> None:
        self._known.pop(_digest(cookie), None)

    def seal(self, cookie: str) -> str:
        """The seal that the forms of this cookie carry."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_sealed(self, cookie: str, given: str) -> bool:
        return hmac.compare_digest(self.seal(cookie), given if given.isascii() else "")

    def _forget(self) -> None:
        oldest = self._clock() - CONSOLE_IDLE_SECONDS
        while self._known and next(iter(self._known.values())).used_at < oldest:
            self._known.popitem(last=False)


def new_cookie() -> str:
    return secrets.token_urlsafe(32)


def is_cookie(text: str | None) -> bool:
    return text is not None and _COOKIE.fullmatch(text) is not None


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
