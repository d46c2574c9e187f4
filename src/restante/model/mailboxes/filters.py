"""Filters of callers. A filter that no message could match is a mistake, and is said to be one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from restante.errors import InvalidRequest
from restante.limits import (
    FORMAT_CHARACTERS_MAX,
    KIND_CHARACTERS_MAX,
    ORIGIN_CHARACTERS_MAX,
    RECIPIENT_CHARACTERS_MAX,
)
from restante.model.names import name_problem

_MOST = {
    "origin": ORIGIN_CHARACTERS_MAX,
    "kind": KIND_CHARACTERS_MAX,
    "recipient": RECIPIENT_CHARACTERS_MAX,
    "format": FORMAT_CHARACTERS_MAX,
    "search": RECIPIENT_CHARACTERS_MAX,
}


def check_filters(name: str, given: Iterable[object]) -> None:
    """Each must be one that a message could have."""
    for value in given:
        check_filter(name, value)


def check_filter(name: str, value: object) -> None:
    most = _MOST[name]
    if not isinstance(value, str) or not _encodes(value) or not value.strip():
        raise InvalidRequest(f"{name} must be text that is not blank, not {value!r}.", parameter=name)
    if len(value) > most:
        raise InvalidRequest(f"{name} has at most {most} characters, not {len(value)}.", parameter=name)
    problem = name_problem(value) if name == "recipient" else None
    if problem is not None:
        raise InvalidRequest(f"{name} {problem}: {value!r}.", parameter=name)


def check_purge(
    *, origin: str | None, kind: str | None, before: datetime | None, everything: bool, dry_run: bool
) -> None:
    """A purge names what it is of, or says that it is of everything: a lost variable empties no mailbox."""
    if origin is not None:
        check_filter("origin", origin)
    if kind is not None:
        check_filter("kind", kind)
    if before is not None and before.tzinfo is None:
        raise InvalidRequest("before must say its time zone.", parameter="before")
    filtered = any(given is not None for given in (origin, kind, before))
    if everything and filtered:
        raise InvalidRequest(
            "A purge of all takes no filter: leave out all, or origin, kind and before.", parameter="all"
        )
    if not (everything or filtered or dry_run):
        raise InvalidRequest(
            "A purge needs a filter: origin, kind or before. To purge everything, say so with all (true). Nothing was "
            "purged.",
            parameter="all",
        )


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
