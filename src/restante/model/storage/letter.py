"""`Letter`: one message that obeys every rule, as plain values, the way it is stored."""

from __future__ import annotations

import msgspec


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A message that obeys every rule."""

    id: bytes
    """Empty: the sender gave none."""
    recipient: str
    origin: str
    kind: str
    document_type: str
    media_type: str
    weight: int
    flags: int
    data: bytes
    properties: bytes
    """The properties as they are stored: with the id before them if it is no UUID."""
    expires_at: int
