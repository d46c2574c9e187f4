"""Media types: how one looks, and which say that the data is JSON."""

from __future__ import annotations

import re

JSON = "application/json"
BYTES = "application/octet-stream"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Parameters are checked no further than what an HTTP header may carry.
_looks_right = re.compile(rf"{_TOKEN}/{_TOKEN}( *;[ -~]*)?")
_is_json = re.compile(r"(application/json|[^/;]+/[^;]*\+json) *(;.*)?", re.IGNORECASE)


def looks_right(text: str) -> bool:
    """Whether the text looks like a media type: type/subtype, perhaps with parameters."""
    return _looks_right.fullmatch(text) is not None


def is_json(media_type: str) -> bool:
    """Whether it is JSON: application/json, or any whose subtype ends in +json."""
    return _is_json.fullmatch(media_type) is not None
