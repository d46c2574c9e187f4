"""The words of CloudEvents 1.0 and of messages, side by side."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

import msgspec

from restante.decoders import converted

SPECVERSION = "1.0"
ORIGINAL_ID = "ceid"
"""The property that keeps the id of an event whose id is no UUID."""

FIELDS = {
    "id": "id",
    "source": "origin",
    "type": "kind",
    "datacontenttype": "media_type",
    "recipient": "recipient",
    "documenttype": "document_type",
    "weight": "weight",
    "bundleable": "bundleable",
    "expirytime": "expires_at",
    "visibletime": "visible_at",
    "sourceposition": "source_position",
}
"""The field of a message for each attribute that has one."""
REQUIRED = ("specversion", "id", "source", "type")
RESERVED = frozenset({*FIELDS, "specversion", "data", "data_base64", ORIGINAL_ID})
"""Names that no property can have: each has a place of its own."""

_attribute_name = re.compile(r"[a-z0-9]+")


def is_attribute_name(text: str) -> bool:
    return _attribute_name.fullmatch(text) is not None


def id_of_event(source: str, event_id: str) -> str:
    """The UUID of an event whose id is none: always the same for the same source and id."""
    return str(uuid5(NAMESPACE_URL, f"{source}\n{event_id}"))


def is_time(text: str) -> bool:
    """Whether a text is a time of RFC 3339, with its zone."""
    try:
        return converted(text, datetime).utcoffset() is not None
    except msgspec.ValidationError:
        return False
