"""Media types: how one looks, and which say that the data is JSON, or text."""

from __future__ import annotations

import re

JSON = "application/json"
TEXT = "text/plain"
BYTES = "application/octet-stream"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Parameters are checked no further than what an HTTP header may carry.
_looks_right = re.compile(rf"{_TOKEN}/{_TOKEN}( *;[ -~]*)?")
_is_json = re.compile(r"(application/json|[^/;]+/[^;]*\+json) *(;.*)?", re.IGNORECASE)


def looks_right(text: str) -> bool:
    """Whether the text looks like a media type: type/subtype, perhaps with parameters."""
    return _looks_right.fullmatch(text) is not None


def is_text(media_type: str) -> bool:
    """Whether a media type is of text that is no JSON: text/plain, text/csv and the like."""
    return media_type[:5].lower() == "text/" and not is_json(media_type)


def is_json(media_type: str) -> bool:
    """Whether a media type is of JSON: application/json, or any whose subtype ends in +json."""
    return _is_json.fullmatch(media_type) is not None
