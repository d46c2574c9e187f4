"""When a publish is answered."""

from __future__ import annotations

from enum import Enum


class Accept(Enum):
    """What the answer to a publish says of its messages."""

    STORED = "stored"
    """They are in their mailboxes."""
    ACCEPTED = "accepted"
    """They are in the log of the backplane, and will be stored."""
