"""A few actions as values, where columns would cost more: each as the JSON of a change has it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.model.columns import media_types


class HandedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One action that waits, handed out to a member of a group."""

    sequence_number: int
    change: str = "published"
    at: datetime
    message_sequence_number: int
    id: str
    recipient: str
    origin: str
    kind: str
    document_type: str
    weight: int
    bundleable: bool
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    media_type: str
    properties: Mapping[str, str] | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET
    owner: str
    attempts: int
    deaths: int

    @property
    def body(self) -> bytes:
        """The data as it was sent."""
        if self.data is not UNSET:
            return bytes(self.data)
        if self.text is not UNSET:
            return self.text.encode()
        return b"" if self.data_base64 is UNSET else base64.b64decode(self.data_base64)


class ShownBody(msgspec.Struct, frozen=True):
    """Data by its media type: JSON as it is, text as text, all other in base64."""

    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


def shown_body(data: bytes, media_type: str) -> ShownBody:
    if media_types.is_json(media_type):
        return ShownBody(data=Raw(data))
    if media_types.is_text(media_type):
        try:
            return ShownBody(text=data.decode())
        except UnicodeDecodeError:
            pass
    return ShownBody(data_base64=base64.b64encode(data).decode())
