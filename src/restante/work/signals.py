"""Signals of handlers beside returning: try again, no, and where the result is."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

_LOCATION_CHARACTERS_MAX = 2_000


class Again(Exception):
    """The signal of a handler that cannot do it now: the action is tried again, after the usual wait or after so many seconds."""

    def __init__(self, detail: str = "", *, seconds: float | None = None) -> None:
        super().__init__(detail)
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds must be 0 or more, not {seconds!r}")
        self.seconds = seconds


class Refused(Exception):
    """A plain no: the action has failed, is not tried again, and is no poison."""


class LocatedResult(msgspec.Struct, frozen=True):
    """Done, and the result is to be found there: a path, or an https address without credentials."""

    location: str
    result: Any = None

    def __post_init__(self) -> None:
        if not _is_location(self.location):
            raise ValueError(f"A location is a path or an https address without credentials, not {self.location!r}")


def _is_location(text: object) -> bool:
    if not isinstance(text, str) or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if len(text) > _LOCATION_CHARACTERS_MAX:
        return False
    if parts.scheme or parts.netloc:
        return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    return text.startswith("/")
