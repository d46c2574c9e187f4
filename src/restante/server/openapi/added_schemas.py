"""Additions to the schemas beyond the types of the code: names as on the wire, and bounds that the hub checks itself."""

from __future__ import annotations

from typing import Any

from restante.limits import WRITER_CHARACTERS_MAX, WRITER_NUMBER_MAX

_NUMBER = {"type": "integer", "format": "int64", "minimum": 0, "maximum": WRITER_NUMBER_MAX}
_DESCRIPTIONS = {
    "ItemRange": "The items `from` to `upto` (exclusive) of a group, which is named `<batch>:<group>`.",
    "Acknowledged": (
        "How many items were pending until then, which of the batches named are complete (now or before), and what is "
        "not known, as it was sent."
    ),
    "Counting": "How the items of a batch are counted.",
    "ConsignmentState": "What has become of a consignment.",
    "ConsignmentOpened": "The consignment; with `batch`, if it has one, the batch that its messages will be items of.",
    "ConsignmentStatus": "A consignment. Of one that is closed nothing is staged any more.",
    "ConsignmentDetails": "A consignment, with what each attempt has staged, by writer and attempt.",
}


def complete(made: dict[str, Any]) -> None:
    """Fill in what the types do not say."""
    # The status of the answer says it.
    del made["ConsignmentOpened"]["properties"]["created"]
    winner = made["Winner"]["properties"]
    winner["writer"] = {"type": "string", "minLength": 1, "maxLength": WRITER_CHARACTERS_MAX, "pattern": r"\S"}
    winner |= {"attempt": _NUMBER, "messages": _NUMBER}
    for name, description in _DESCRIPTIONS.items():
        made[name]["description"] = description
