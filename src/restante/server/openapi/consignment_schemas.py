"""What the schemas of consignments say beyond the types of the code: which texts are UUIDs, and bounds of numbers."""

from __future__ import annotations

from typing import Any

from restante.limits import WRITER_CHARACTERS_MAX, WRITER_NUMBER_MAX
from restante.server.openapi.parts import Schema

_NUMBER = {"type": "integer", "format": "int64", "minimum": 0, "maximum": WRITER_NUMBER_MAX}
_DESCRIPTIONS = {
    "ConsignmentState": "What has become of a consignment.",
    "ConsignmentOpened": "The consignment; with `batch`, if it has one, the batch that its messages will be items of.",
    "ConsignmentStatus": "A consignment. Of one that is closed nothing is staged any more.",
    "ConsignmentDetails": "A consignment, with what each attempt has staged, by writer and attempt.",
}


def complete(made: dict[str, Any], *, uuid: Schema) -> None:
    """Fill in what the types do not say."""
    for name in ("ConsignmentOpened", "ConsignmentStatus", "ConsignmentDetails"):
        fields = made[name]["properties"]
        fields["id"] = uuid
        fields["batch"] = {**fields["batch"], "anyOf": [uuid, {"type": "null"}]}
    # The status of the answer says it.
    del made["ConsignmentOpened"]["properties"]["created"]
    winner = made["Winner"]["properties"]
    winner["writer"] = {"type": "string", "minLength": 1, "maxLength": WRITER_CHARACTERS_MAX, "pattern": r"\S"}
    winner |= {"attempt": _NUMBER, "messages": _NUMBER}
    for name, description in _DESCRIPTIONS.items():
        made[name]["description"] = description
