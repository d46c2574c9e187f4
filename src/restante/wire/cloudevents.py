"""The words of CloudEvents 1.0 and of messages, side by side."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

import msgspec

from restante.decoders import converted
from restante.model.columns.text_ids import is_uuid
from restante.model.names import CONTROL

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

_control = re.compile(CONTROL)
_attribute_name = re.compile(r"[a-z0-9]+")


def is_attribute_name(text: str) -> bool:
    return _attribute_name.fullmatch(text) is not None


def id_of_event(source: str, event_id: str) -> str:
    """The UUID of an event whose id is none: always the same for the same source and id."""
    return str(uuid5(NAMESPACE_URL, f"{source}\n{event_id}"))


def is_original_id(text: str, source: str, own_id: str) -> bool:
    """Whether a text is the id of the event that became a message of this source with this UUID.

    Any message may have the property `ceid`. It is the message's own only if its UUID was made of it, so that no message
    is shown under the id of another.
    """
    return not is_uuid(text) and has_no_controls(text) and id_of_event(source, text) == own_id


def has_no_controls(text: str) -> bool:
    """Whether a text has no control characters, which CloudEvents do not allow."""
    return text.isprintable() or _control.search(text) is None


def is_time(text: str) -> bool:
    """Whether a text is a time of RFC 3339, with its zone."""
    try:
        return converted(text, datetime).utcoffset() is not None
    except msgspec.ValidationError:
        return False
