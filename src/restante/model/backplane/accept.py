"""When a publish is answered."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from restante.errors import InvalidRequest

AcceptName: TypeAlias = Literal["stored", "accepted"]


class Accept(Enum):
    """What the answer to a publish says of its messages."""

    STORED = "stored"
    """They are in their mailboxes."""
    ACCEPTED = "accepted"
    """They are in the log of the backplane, and will be stored."""


def accept_named(name: object) -> Accept | None:
    """What a caller of the client is content with; None: it says nothing."""
    if name is None or isinstance(name, Accept):
        return name
    if name not in ("stored", "accepted"):
        raise InvalidRequest(f'accept is "stored" or "accepted", not {name!r}.', parameter="accept")
    return Accept(name)
