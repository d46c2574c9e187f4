"""What the schemas of batches say beyond the types of the code: which texts are UUIDs, and names on the wire."""

from __future__ import annotations

from typing import Any

from restante.server.openapi.parts import Schema

_IDS = ("BatchOpened", "CompleteBatch", "BatchStatus", "ReapedBatch")
_DESCRIPTIONS = {
    "ItemRange": "The items `from` to `upto` (exclusive) of a group, which is named `<batch>:<group>`.",
    "Acknowledged": (
        "How many items were pending until then, which of the batches named are complete (now or before), and what is "
        "not known, as it was sent."
    ),
    "Counting": "How the items of a batch are counted.",
}


def complete(made: dict[str, Any], *, uuid: Schema) -> None:
    """Fill in what the types do not say."""
    for name in _IDS:
        made[name]["properties"]["id"] = uuid
    for name, field in (("OpenBatchBody", "id"), ("AddItemsBody", "request_id")):
        made[name]["properties"][field]["anyOf"][0] = uuid
    for name, description in _DESCRIPTIONS.items():
        made[name]["description"] = description
