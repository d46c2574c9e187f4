"""When a publish is answered."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from restante.errors import InvalidRequest

AcceptName: TypeAlias = Literal["stored", "accepted"]


class Accept(Enum):
    """The promise that the answer to a publish makes about its messages."""

    STORED = "stored"
    """They are in their mailboxes."""
    ACCEPTED = "accepted"
    """They are in the log of the backplane, and will be stored."""


def accept_named(name: object) -> Accept | None:
    """The promise that a caller of the client is content with; None: it says nothing."""
    if name is None or isinstance(name, Accept):
        return name
    if name not in ("stored", "accepted"):
        raise InvalidRequest(f'accept is "stored" or "accepted", not {name!r}.', parameter="accept")
    return Accept(name)
