"""The schemas of bodies: messages by hand with the bounds of the hub, answers out of the values that it answers."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec

from restante import limits
from restante.model.actions.action_answers import (
    AcceptedActions,
    ActionStatus,
    OutcomesReported,
    OutcomesTaken,
    PoisonPage,
)
from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedRecord
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    ItemGroups,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
)
from restante.model.consignments.consignment_answers import (
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    Staged,
)
from restante.model.feed.feed import CHANGES
from restante.model.groups.group_answers import Checkpointed, GroupPage, GroupStatus, HeartbeatAnswer, Joined
from restante.model.health.health_history import HealthAnswer
from restante.model.jobs.job_answers import JobPage, JobRun, JobRunPage, JobStatus
from restante.model.mailboxes.answers import (
    Dequeued,
    Explanation,
    LogPosition,
    PartitionReceipt,
    PartitionStatus,
    ProducerState,
    Receipt,
    RecipientSummary,
)
from restante.model.publishing.message import State
from restante.model.shards.node_answers import NodeDrain, NodeMap, RoundsInDoubt
from restante.model.sources.source_answers import SourceStatus
from restante.model.uuid_text import UuidText
from restante.server.health.rates import RateHistory
from restante.server.openapi import added_schemas
from restante.server.openapi.parts import Schema, of_schema
from restante.server.routes import batches, consignments, groups, jobs, producers, removal
from restante.server.routes.acknowledgements import AcknowledgeBody, Answers
from restante.server.routes.health import Health
from restante.server.routes.live_clients import LiveClientPage
from restante.server.routes.partitions import Place
from restante.server.routes.sends import SendAnswer, SendsAnswer
from restante.server.routes.tokens import Caller, TicketAnswer, TicketBody, TokenBody, TokenMade, TokenPage
from restante.server.routes.upkeep import Done, SettingsInForce
from restante.wire.action_bodies import ActionBody, ActionsBody, JointOutcomesBody, OutcomesBody

UUID: Schema = msgspec.json.schema(UuidText)
BINARY: Schema = {"type": "string", "format": "binary"}
ARROW: Schema = {**BINARY, "description": "An Arrow stream (IPC), with the fields of messages as columns."}
TEXT: Schema = {"type": "string"}
_MEDIA_TYPE = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+( *;[ -~]*)?$"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def text(characters_max: int, description: str, **more: object) -> dict[str, object]:
    """A text that may not be blank."""
    bounds = {"minLength": 1, "maxLength": characters_max, "pattern": r"\S"}
    return {"type": "string", **bounds, "description": description, **more}


_NO_CONTROLS = r"[^\x00-\x1f\x7f-\x9f]*"


def plain_text(characters_max: int, description: str) -> dict[str, object]:
    """A text without control characters that may not be blank."""
    pattern = rf"^{_NO_CONTROLS}[^\s\x00-\x1f\x7f-\x9f]{_NO_CONTROLS}$"
    return {**text(characters_max, description), "pattern": pattern}


def url_text(characters_max: int, description: str) -> dict[str, object]:
    """A text that stands in URLs."""
    return {**plain_text(characters_max, description), "not": {"enum": [".", ".."]}}


def time(description: str) -> dict[str, object]:
    return {"type": "string", "format": "date-time", "description": description}


def record(properties: Schema, *, optional: tuple[str, ...] = (), **more: object) -> dict[str, object]:
    """An object with these fields and no others."""
    required = [name for name in properties if name not in optional]
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {**shape, **more}


def page(plural: str, entries: Schema, following: Schema) -> dict[str, object]:
    """A list that is read page by page."""
    return record({plural: {"type": "array", "items": entries}, "next": following})


ID = url_text(
    limits.ID_CHARACTERS_MAX,
    "A UUID, or any other text that can stand in a URL. The hub makes one (UUIDv7) if it is left out.",
)
_PROPERTIES = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "maxProperties": limits.PROPERTIES_MAX,
    "description": f"Text to text, at most {limits.PROPERTIES_BYTES_MAX:,} bytes in all.",
}
_DATA: Schema = {
    "description": f"Any JSON value, null too; at most {limits.DATA_BYTES_MAX:,} bytes unless the hub is set otherwise, stored without white space."
}
_TEXT = {
    "type": "string",
    "description": f"Text instead of `data`; at most {limits.DATA_BYTES_MAX:,} bytes in UTF-8 unless the hub is set otherwise.",
}
_DATA_BASE64 = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": _BASE64,
    "description": f"Bytes instead of `data`; at most {limits.DATA_BYTES_MAX:,} of them unless the hub is set otherwise.",
}
_WEIGHT = {
    "type": "integer",
    "minimum": 1,
    "maximum": limits.WEIGHT_KIB_MAX,
    "description": "In units of 1 KiB. If left out, and at least: the data rounded up, 1 or more.",
}
_FIELDS: dict[str, Schema] = {
    "id": ID,
    "recipient": url_text(limits.RECIPIENT_CHARACTERS_MAX, "Who gets it."),
    "origin": text(limits.ORIGIN_CHARACTERS_MAX, "Which system it comes from.", default="default"),
    "kind": text(limits.KIND_CHARACTERS_MAX, "What sort of message it is.", default="default"),
    "document_type": text(limits.DOCUMENT_TYPE_CHARACTERS_MAX, "What the recipient is told; `kind` if left out."),
    "weight": _WEIGHT,
    "bundleable": {"type": "boolean", "default": True, "description": "Whether it may share a bundle with others."},
    "data": _DATA,
    "text": _TEXT,
    "data_base64": _DATA_BASE64,
    "media_type": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.MEDIA_TYPE_CHARACTERS_MAX,
        "pattern": _MEDIA_TYPE,
        "description": (
            "Of the data. If left out: `application/json` for `data`, `text/plain` for `text`, else "
            "`application/octet-stream`."
        ),
    },
    "properties": _PROPERTIES,
    "expires_at": time("After it the message is no longer delivered, unless it is in an open bundle."),
    "visible_at": time(
        "Before it the hub keeps the message aside, and publishes it then. Shown of a delayed message only."
    ),
}
_RECIPIENTS: Schema = {
    "type": "array",
    "items": _FIELDS["recipient"],
    "minItems": 1,
    "maxItems": limits.SEND_MESSAGES_MAX,
    "description": "Instead of `recipient`: one message for each of these, all with the `id`, if one is given.",
}
_SOURCE_POSITION = {
    "type": "integer",
    "minimum": 0,
    "maximum": limits.SOURCE_POSITION_MAX,
    "description": "Where it stands in the source that the publish names (`Restante-Source`): positions ascend.",
}
MESSAGE = record(
    {**_FIELDS, "source_position": _SOURCE_POSITION, "recipients": _RECIPIENTS},
    optional=(*_FIELDS, "source_position", "recipients"),
    description=(
        "A message as it is sent. Without `data`, `text` and `data_base64` it is a claim check: its origin, which must "
        "have a `content_url`, delivers the content when it is peeked."
    ),
    oneOf=[{"required": ["recipient"]}, {"required": ["recipients"]}],
    **{"not": {"anyOf": [{"required": list(two)} for two in combinations(("data", "text", "data_base64"), 2)]}},
)
_MESSAGES: Schema = {"type": "array", "items": of_schema("Message"), "maxItems": limits.SEND_MESSAGES_MAX}
_NUMBER = {"type": "integer", "minimum": 1, "description": "Ascends within a partition, from 1."}
_SHOWN: dict[str, Schema] = {
    "sequence_number": _NUMBER,
    **_FIELDS,
    "published_at": time("When it was stored."),
    "collected_at": time("When it was dequeued; not there before."),
    "state": {"enum": [state.value for state in State], "description": "What has become of it."},
}
_NOT_OF_DELAYED = ("sequence_number", "published_at")
SHOWN = record(
    _SHOWN,
    optional=(*("data", "text", "data_base64", "expires_at", "collected_at"), *_NOT_OF_DELAYED, "visible_at"),
    description=(
        "A message as the hub shows it: `data` if its media type is JSON, `text` if it is `text/*` and UTF-8, else "
        "`data_base64`. One that is delayed has `visible_at`, and no `sequence_number` and `published_at`."
    ),
)
_CHANGED: dict[str, Schema] = {
    "sequence_number": {"type": "integer", "minimum": 1, "description": "The number of the change."},
    "change": {"enum": list(CHANGES), "description": "What happened."},
    "at": time("When it happened."),
    "message_sequence_number": {"type": "integer", "minimum": 1, "description": "The number of the message."},
    **_FIELDS,
    "bundle_id": {**UUID, "description": "The bundle that it was collected with."},
    "batch": {**UUID, "description": "The batch that is complete."},
    "key": {**TEXT, "description": "The key of that batch."},
    "messages": {"type": "integer", "minimum": 0, "description": "How many messages were erased."},
    "owner": {
        "enum": ["group", "nobody"],
        "description": "Of what a group with actions reads: whether the name of the action is its own, or nobody's.",
    },
    "attempts": {
        "type": "integer",
        "minimum": 0,
        "description": "Of what a group with actions reads: how often it was tried before, as far as the hub knows.",
    },
    "deaths": {
        "type": "integer",
        "minimum": 0,
        "description": "Of what a group with actions reads: how many workers died of it, as far as the hub knows.",
    },
}
CHANGE = record(
    _CHANGED,
    optional=tuple(name for name in _CHANGED if name not in {"sequence_number", "change"}),
    description="A change, without the fields that it has not.",
)
SNAPSHOT_MESSAGE = record(
    _SHOWN,
    optional=tuple(name for name in _SHOWN if name != "sequence_number"),
    description="A message as the hub shows it, with the fields that were asked for.",
)
BUNDLE = record(
    {
        "bundle_id": UUID,
        "origin": TEXT,
        "kind": TEXT,
        "document_types": {"type": "array", "items": TEXT, "description": "The distinct ones."},
        "messages": {"type": "array", "items": of_schema("ShownMessage"), "minItems": 1},
    },
    description="Messages of one recipient, origin and kind, in the order in which they were stored.",
)
_ATTRIBUTE: Schema = {"type": ["string", "number", "boolean", "null"]}


def _unless_null(schema: Schema) -> dict[str, object]:
    """An attribute of an event that is null is one that is not there."""
    return {**schema, "type": [schema["type"], "null"]}


EVENT: Schema = {
    "type": "object",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {
            "type": "string",
            "minLength": 1,
            "pattern": f"^{_NO_CONTROLS}$",
            "description": "If it is no UUID, the hub makes one of source and id.",
        },
        "source": plain_text(limits.ORIGIN_CHARACTERS_MAX, "The `origin`."),
        "type": plain_text(limits.KIND_CHARACTERS_MAX, "The `kind`."),
        "recipient": _FIELDS["recipient"],
        "documenttype": _unless_null(
            text(limits.DOCUMENT_TYPE_CHARACTERS_MAX, "The `document_type`; `type` if left out.")
        ),
        "weight": _unless_null(_WEIGHT),
        "bundleable": _unless_null(_FIELDS["bundleable"]),
        "datacontenttype": _unless_null({**_FIELDS["media_type"], "description": "The `media_type`."}),
        "expirytime": _unless_null(time("The `expires_at`.")),
        "visibletime": _unless_null(time("The `visible_at`.")),
        "sourceposition": _unless_null(_SOURCE_POSITION),
        "subject": {"type": ["string", "number", "boolean", "null"], "pattern": f"^{_NO_CONTROLS}$"},
        "time": _unless_null(time("When the event happened: a property.")),
        "data": _DATA,
        "data_base64": _unless_null(_DATA_BASE64),
    },
    "required": ["specversion", "id", "source", "type", "recipient"],
    "propertyNames": {"pattern": "^([a-z0-9]+|data_base64)$"},
    "additionalProperties": _ATTRIBUTE,
    "not": {"anyOf": [{"required": ["data", "data_base64"]}, {"required": ["ceid"]}]},
    "description": "A CloudEvent 1.0. Attributes that are not listed here become `properties`.",
}
NEXT_PAGE: Schema = record(
    {
        "partition": {"type": "integer", "minimum": 0},
        "generation": {"type": "integer", "minimum": 0},
        "next": {"type": "integer", "minimum": 0, "description": "The position after it."},
        "end": {"type": "integer", "minimum": 0, "description": "The last number that there is."},
        "changes": {"type": "array", "items": of_schema("Change")},
    },
    description="Changes of one partition, in order.",
)
_VALUES = (
    BackplaneStatus,
    RefusedRecord,
    Receipt,
    LogPosition,
    PartitionReceipt,
    Dequeued,
    Explanation,
    RecipientSummary,
    PartitionStatus,
    ProducerState,
    removal.PURGE_BODY.shape,
    TicketBody,
    TicketAnswer,
    producers.LINK_BODY.shape,
    batches.OPEN_BODY.shape,
    batches.ADD_BODY.shape,
    batches.REAP_BODY.shape,
    AcknowledgeBody,
    Answers,
    SendAnswer,
    SendsAnswer,
    BatchOpened,
    ItemGroups,
    Sealed,
    Acknowledged,
    BatchPage,
    PendingPage,
    ProgressPage,
    Reaped,
    consignments.OPEN_BODY.shape,
    ConsignmentOpened,
    Staged,
    consignments.COMMIT_BODY.shape,
    ConsignmentDetails,
    ConsignmentPage,
    groups.DEFINE_BODY.shape,
    GroupStatus,
    SourceStatus,
    producers.ResetSourceBody,
    GroupPage,
    groups.JOIN_BODY.shape,
    Joined,
    groups.HEARTBEAT_BODY.shape,
    HeartbeatAnswer,
    groups.NEXT_BODY.shape,
    groups.CHECKPOINT_BODY.shape,
    Checkpointed,
    groups.ResetBody,
    ActionBody,
    ActionsBody,
    ActionStatus,
    AcceptedActions,
    OutcomesBody,
    OutcomesTaken,
    JointOutcomesBody,
    OutcomesReported,
    PoisonPage,
    JobPage,
    JobStatus,
    JobRunPage,
    JobRun,
    jobs.REPORT_BODY.shape,
    Place,
    NodeMap,
    NodeDrain,
    RoundsInDoubt,
    removal.Removed,
    Done,
    Health,
    HealthAnswer,
    RateHistory,
    SettingsInForce,
    LiveClientPage,
    Caller,
    TokenPage,
    TokenBody,
    TokenMade,
)
"""The types of the code that the hub answers or is asked as they are."""


def components() -> dict[str, Any]:
    """All named schemas, less those of problems."""
    _, made = msgspec.json.schema_components(_VALUES, ref_template="#/components/schemas/{name}")
    added_schemas.complete(made)
    added_schemas.complete_actions(made, _FIELDS)
    owned = made["PartitionStatus"]
    owned["properties"]["owner"] = made["Place"]["properties"]["owner"]
    owned["required"] = [*owned["required"], "owner"]
    return {
        **made,
        "Message": MESSAGE,
        "Messages": {
            "anyOf": [record({"messages": _MESSAGES}), _MESSAGES, of_schema("Message")],
            "description": "Messages in the field `messages`, a bare list of them, or one message.",
        },
        "SendsBody": record(
            {"sends": {"type": "array", "items": {"anyOf": [of_schema("Messages"), {}]}, "maxItems": limits.SENDS_MAX}},
            description="Sends in their order, each as the body of a publish would say it. Anything else gets its problem among the answers.",
        ),
        "ShownMessage": SHOWN,
        "CloudEvent": EVENT,
        "CloudEvents": {"type": "array", "items": of_schema("CloudEvent"), "maxItems": limits.SEND_MESSAGES_MAX},
        "Bundle": BUNDLE,
        "Change": CHANGE,
        "ChangePage": record({"changes": {"type": "array", "items": of_schema("Change")}}),
        "NextPage": NEXT_PAGE,
        "NextAnswer": record(
            {"pages": {"type": "array", "items": of_schema("NextPage")}, "now": time("The hub's time.")}
        ),
        "SnapshotMessage": SNAPSHOT_MESSAGE,
        "SnapshotPage": page("messages", of_schema("SnapshotMessage"), {"type": ["string", "null"]}),
        "HistoryPage": page("messages", of_schema("ShownMessage"), {"type": ["integer", "null"]}),
        "RecipientPage": page("recipients", of_schema("RecipientSummary"), {"type": ["string", "null"]}),
        "PartitionPage": page("partitions", of_schema("PartitionStatus"), {"type": ["string", "null"]}),
        "ProducerPage": page("producers", of_schema("ProducerState"), {"type": ["string", "null"]}),
        "RefusedPage": page("records", of_schema("RefusedRecord"), {"type": ["string", "null"]}),
        "SourcePage": page("sources", of_schema("SourceStatus"), {"type": ["string", "null"]}),
    }
