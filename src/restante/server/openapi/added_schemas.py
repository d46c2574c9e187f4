"""Additions to the schemas beyond the types of the code: names as on the wire, and bounds that the hub checks itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restante import limits
from restante.limits import WRITER_CHARACTERS_MAX, WRITER_NUMBER_MAX
from restante.server.openapi.parts import Schema
from restante.settings import GroupSettings

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
_JSON: Schema = {"description": "Any JSON value."}
_CODE = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$", "description": "Lower-case letters, digits and `_`."}
_NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.ACTION_CHARACTERS_MAX,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
    "not": {"enum": [".", ".."]},
    "description": "The name of the action.",
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


def complete_actions(made: dict[str, Any], fields: Mapping[str, Schema]) -> None:
    """Fill in what the types of actions do not say. `fields` are those of messages."""
    for name in ("ActionBody", "NamedActionBody"):
        own = made[name]["properties"]
        own["concerns"] = {**fields["recipient"], "description": "The thing: what concerns one is done in order."}
        own["id"] = {**fields["id"], "description": "Of the action: the same again is not done again."}
        own["origin"] = fields["origin"]
        own["data"] = {**fields["data"], "default": {}}
        own["expires_in"] = {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": GroupSettings().hold_seconds,
            "description": "Seconds from acceptance, at most the setting `groups.hold_seconds`; by default `actions.expires_seconds`.",
        }
    made["NamedActionBody"]["properties"]["action"] = _NAME
    made["ActionsBody"]["properties"]["actions"]["description"] = "All are accepted, or none."
    outcome = made["OutcomeBody"]["properties"]
    outcome["result"] = {"description": f"Any JSON value, at most {limits.RESULT_BYTES_MAX:,} bytes; larger is poison."}
    outcome["problem"] = {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/ProblemBody"}], "default": None}
    for name in ("sequence_number", "attempts"):
        outcome[name]["maximum"] = 2**31 - 1 if name == "attempts" else 2**63 - 1
    problem = made["ProblemBody"]["properties"]
    problem["code"] = _CODE
    problem["detail"] = {"type": "string", "maxLength": limits.PROBLEM_BYTES_MAX // 4 - 64, "default": ""}
    made["ActionStatus"]["properties"]["result"] = _JSON
    made["PoisonedAction"]["properties"]["data"] = _JSON
