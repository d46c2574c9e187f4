"""UUIDs as texts: the type says how they are written. Who takes one from strangers checks it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

_PATTERN = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

UuidText = Annotated[str, Meta(extra_json_schema={"format": "uuid", "pattern": _PATTERN})]
