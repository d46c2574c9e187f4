"""Problems as the document describes them: what each code means, what to do, and how it looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from restante.limits import FAULTS_SHOWN_MAX
from restante.server.openapi import headers
from restante.server.openapi.parts import of_schema
from restante.server.openapi.schemas import TEXT, UUID, record
from restante.wire import media
from restante.wire.problems import CODES, TYPE_PREFIX, error_of, problem_of, status_of, title_of


@dataclass(frozen=True, slots=True)
class Advice:
    """The meaning of a code, what a caller does about it, and what else its problem says."""

    meaning: str
    remedy: str
    members: tuple[str, ...] = ()


_CORRECT = "Correct the request. The same request again gives the same answer."
_AGAIN = "Try again a little later, with the same ids."
_OPERATOR = "Tell the operator of the hub, with the correlation id."
_LATER = "This version of the hub does not send it: the code is reserved."

ADVICE: dict[str, Advice] = {
    "invalid_request": Advice(
        "The request is not valid; the detail says why.",
        _CORRECT,
        ("parameter", "field", "column", "header"),
    ),
    "invalid_operation": Advice(
        "Not now, or not with this: a parcel that was published already, or one without a partition; a commit that would "
        "drop what others have staged. The client says so before it sends anything; the hub never does.",
        "Make a new parcel, and name its partition. A commit: name the attempts that count.",
    ),
    "invalid_message": Advice(
        "Messages break a rule. Nothing of the body was stored.",
        "Correct or leave out the messages in `errors`, and send the rest again.",
        ("errors",),
    ),
    "invalid_item": Advice(
        "A text is not an item id, or a range is not valid. Nothing was acknowledged.",
        "Correct or leave out what `item` shows, which is at `index` of the call, and send the rest again.",
        ("item", "index"),
    ),
    "partition_mismatch": Advice(
        "A recipient does not belong to the partition in the path. Nothing was stored.",
        "Use `POST /v1/messages`, or ask `GET /v1/recipients/{recipient}/partition`.",
        ("errors",),
    ),
    "unauthenticated": Advice(
        "The hub asks for a token, and there was none, or none that it knows.",
        "Send `Authorization: Bearer <token>`. A token may have been revoked, or have expired: ask the operator.",
    ),
    "forbidden": Advice(
        "The token does not have the role that this route needs, or has it only for other recipients or origins.",
        "Use another token, or ask the operator for one.",
        ("origin",),
    ),
    "bundle_unknown": Advice(
        "The recipient has no such bundle, or it was dequeued before; then the problem says when.",
        "With `dequeued_at`: nothing, it is done. Else peek for the open bundle.",
        ("dequeued_at", "messages"),
    ),
    "message_unknown": Advice(
        "The recipient has no message with this id within its retention, or the message is in a state that does not allow this.",
        "Look at `GET /v1/recipients/{recipient}/messages`.",
    ),
    "partition_unknown": Advice("There is no such partition.", "`GET /v1/partitions` lists them, from 0."),
    "not_found": Advice("There is nothing at this address.", "Check the path; every route is listed at `/docs`."),
    "method_not_allowed": Advice(
        "The address is right, the method is not.", "Use one of those in the header `Allow`.", ("allow",)
    ),
    "not_acceptable": Advice(
        "None of the media types in `Accept` can be answered here.",
        "Accept one of those that the route lists, or `*/*`.",
    ),
    "message_conflict": Advice(
        "A message with this id was stored for this recipient before, with other content. Nothing was stored.",
        "Give new messages new ids. The same message again would have been skipped without an error.",
        ("errors",),
    ),
    "message_erased": Advice(
        "The message with this id was erased for good.", "It cannot come back; leave it out.", ("errors",)
    ),
    "message_collected": Advice("Too late: the recipient has the message.", "Nothing can be taken back."),
    "message_settled": Advice(
        "Too late: the message was withdrawn or has expired; `state` says which.",
        "It cannot be set aside or released any more. Publish it again under a new id, if it is still wanted.",
        ("state",),
    ),
    "bundle_open": Advice(
        "Another bundle is open, with another id or format; or the message is in an open bundle.",
        "Dequeue that bundle first, or peek without `bundle_id` and `format`.",
        ("bundle_id",),
    ),
    "bundle_id_used": Advice("The recipient had a bundle of this id before.", "Propose another id, or none."),
    "invalid_client_state": Advice(
        "The numbers do not follow the last ones of the producer group, or were used for other messages; `expected` is "
        "the number that would be next. Or a parcel was staged before with other messages. Nothing was stored.",
        "Do not repeat it. Ask `GET /v1/partitions/{partition}/producers/{group}` for the last number, and go on from there. "
        "A consignment: stage what another run makes as another attempt.",
        ("expected",),
    ),
    "producer_disconnected": Advice(
        "A producer of a higher owner level has taken the group over. Nothing was stored.",
        "Stop: another one does the work. To take over yourself, link with a level above `current`.",
        ("received", "current"),
    ),
    "link_refused": Advice(
        "The last number that was offered is not the hub's; `expected` is, or null if nothing was published.",
        "Link without a number to go on where the hub is, or with a higher owner level to start again.",
        ("expected",),
    ),
    "producer_unknown": Advice(
        "The producer group has not published in this partition, or so long ago that its state was removed.",
        "Nothing, if it is new: its first number is 0.",
    ),
    "source_unknown": Advice("Nothing of the source was stored, or it was deleted.", "Look at `GET /v1/sources`."),
    "job_unknown": Advice(
        "No run of the job was reported to this hub, or it was forgotten; of a run: it is no longer kept.",
        "Look at `GET /v1/jobs`.",
        ("job",),
    ),
    "batch_unknown": Advice(
        "There is no such batch: it never existed, was deleted, or was removed because nobody used it.",
        "Look at `GET /v1/batches`. To start again, open another batch.",
        ("batch",),
    ),
    "batch_sealed": Advice(
        "Nothing more can be added to the batch. Nothing was stored.",
        "Open another batch, or seal later.",
        ("batch",),
    ),
    "batch_key_used": Advice(
        "Another open batch has this key, and `unique` was asked for; `batch` is its id.",
        "Go on with that batch, seal or delete it, or use another key.",
        ("batch", "key"),
    ),
    "consignment_unknown": Advice(
        "There is no such consignment: it never existed, or it was closed so long ago that it was removed.",
        "Open it by its key: `POST /v1/consignments`.",
        ("consignment",),
    ),
    "consignment_closed": Advice(
        "The consignment was committed or discarded; `state` says which. To a commit that names something else than the "
        "recorded one, `recorded` says what that one answered.",
        "Committed: nothing, all of it is delivered. Discarded: open a new one with the same key, and stage again.",
        ("consignment", "state", "recorded"),
    ),
    "consignment_incomplete": Advice(
        "What was announced is not what is staged; `writers` lists where. Nothing is visible, and it is still open.",
        "Stage what is missing, announce what is there, or name other attempts; and commit again.",
        ("consignment", "writers"),
    ),
    "group_unknown": Advice(
        "There is no such group: nobody made it, or it was deleted.", "Make it: `PUT /v1/groups/{group}`.", ("group",)
    ),
    "member_unknown": Advice(
        "The member left, its lease ended, or another one joined under its name.",
        "Stop all that is under way, and join again.",
        ("group",),
    ),
    "group_conflict": Advice(
        "The group has another filter, which the problem shows.",
        "Use that filter, or another name. An operator may change it: `?change=true`.",
        ("group", "origins", "kinds", "gone"),
    ),
    "generation_stale": Advice(
        "The partition was given to another member since, or its position was reset. Nothing was changed. `generation` is the "
        "one in force; of several partitions, `stale` lists those that are.",
        "Stop what is under way in the partition, and ask with a heartbeat what is yours.",
        ("generation", "stale"),
    ),
    "action_taken": Advice(
        "The action belongs to another group, which is named.",
        "Use another name. An operator may take it back: `DELETE /v1/groups/{group}/actions/{action}`.",
        ("action", "group"),
    ),
    "action_unknown": Advice(
        "No action has this id, or none that the caller may know of; of a name: no group has declared it, and the hub "
        "refuses undeclared actions (`actions.undeclared`), or the group that it was to be taken from has it not.",
        "Look at the id, and say which thing it concerns. Start the worker that declares the name, or correct it.",
        ("id", "action", "group"),
    ),
    "node_unknown": Advice("There is no such node.", "`GET /v1/nodes` lists them.", ("node",)),
    "last_node": Advice(
        "It is the only node: nobody could take its shards. Nothing was changed.",
        "Start another node first.",
        ("node",),
    ),
    "position_gone": Advice(
        "The feed no longer reaches back so far: retention has removed changes; `first` is the first that there is.",
        "Read a snapshot, and go on from its position. What was removed cannot be read any more.",
        ("first", "partition"),
    ),
    "position_ahead": Advice(
        "The feed ends before this number, at `end`: an older backup was restored, or this is another hub.",
        "Begin again with a snapshot, or from the start. To go on from there would skip what comes.",
        ("end", "partition"),
    ),
    "body_too_large": Advice(
        "The body, unpacked, is larger than the route takes.", "Send it in several parts.", ("limit",)
    ),
    "unsupported_media_type": Advice(
        "The `Content-Type` or `Content-Encoding` of the body is not one that the route takes.",
        "Send one of the types that the route lists, plain or packed with gzip or zstd.",
    ),
    "overloaded": Advice(
        "More is under way than the hub has room for.",
        "Wait for the seconds in `Retry-After`, then repeat.",
        ("retry_after",),
    ),
    "unavailable": Advice(
        "The hub is closing, or its store failed. Whether a publish was stored may be unknown.",
        f"{_AGAIN} What was stored is skipped as a duplicate.",
    ),
    "partly_stored": Advice(
        "Some messages of a publish are stored, or in the backplane. Of the others that is not known. If shards of the hub did "
        "not answer, `partitions` says what is stored, and `ids` which ids were made for messages that had none.",
        "Send the messages in `lost` again, or all of them, under the same ids: what is stored is skipped.",
        ("lost", "partitions", "positions", "ids"),
    ),
    "outcome_unknown": Advice(
        "It may have been carried out: the hub failed before it knew.",
        "Repeat it unchanged, with the same ids or numbers: what was stored is not stored again.",
    ),
    "store_conflict": Advice("Another owner has taken the partition. Nothing was changed.", _AGAIN, ("partition",)),
    "not_owner": Advice(
        "Another node has the partition, or this one's lease has ended: it could not renew it, or another has taken over. Nothing "
        "was changed.",
        f"{_AGAIN} If `owner` is named, there; `GET /v1/nodes` says who has what.",
        ("partition", "owner"),
    ),
    "data_locked": Advice("Another process has the data folder open.", _OPERATOR),
    "storage_full": Advice(
        "The disk is full, or consignments have staged as much as the settings allow; then `setting` names which. "
        "Nothing was changed.",
        f"{_AGAIN} The operator has to make room. Staged messages: commit or discard what is open.",
        ("setting", "limit", "staged"),
    ),
    "origin_did_not_deliver": Advice(
        "Claim-check content did not come in time. A peek answers `204` with this reason instead.", "Peek again."
    ),
    "internal": Advice("A defect of the hub.", _OPERATOR),
    "data_damaged": Advice(
        "Stored bytes fail their checksum.", f"{_OPERATOR} `restante doctor` says what is damaged.", ("partition",)
    ),
    "format_unsupported": Advice("The data was written by another version of the hub.", _OPERATOR),
    "extra_missing": Advice("A part of the hub is not installed.", _OPERATOR),
    "invalid_settings": Advice("The settings of the hub are not valid.", _OPERATOR),
}
LATER = tuple(code for code in CODES if code not in ADVICE)
"""Codes whose names are kept."""

_MEMBERS: dict[str, object] = {
    "parameter": {**TEXT, "description": "The query parameter that is wrong."},
    "field": {**TEXT, "description": "The field of the body that is wrong."},
    "column": {**TEXT, "description": "The Arrow column that is wrong."},
    "header": {**TEXT, "description": "The header that is wrong or missing."},
    "expected": {"type": ["integer", "null"], "description": "The number that the hub expects, or its last one."},
    "received": {"type": "integer", "description": "The owner level of the producer that was refused."},
    "current": {"type": "integer", "description": "The owner level of the group now."},
    "errors": {"type": "array", "items": of_schema("Fault"), "maxItems": FAULTS_SHOWN_MAX},
    "origin": {**TEXT, "description": "The origin that the token may not publish for."},
    "bundle_id": {**UUID, "description": "The bundle that is open."},
    "dequeued_at": {"type": "string", "format": "date-time"},
    "messages": {"type": "integer", "description": "How many messages the dequeued bundle had."},
    "batch": {**UUID, "description": "The batch that it is about."},
    "key": {**TEXT, "description": "The key that is in use."},
    "item": {"description": "What is no item: a text, or a range."},
    "index": {"type": "integer", "description": "Its place in the call, from 0."},
    "allow": TEXT,
    "limit": {"type": "integer", "description": "What it is bounded to, in bytes."},
    "setting": {**TEXT, "description": "The setting that bounds it."},
    "staged": {"type": "integer", "description": "How many bytes would be staged."},
    "consignment": {**UUID, "description": "The consignment that it is about."},
    "state": {
        "enum": ["open", "committed", "discarded", "withdrawn", "expired"],
        "description": "What the consignment, or the message, is.",
    },
    "writers": {"type": "array", "items": of_schema("Discrepancy")},
    "first": {"type": "integer", "description": "The first number that there is."},
    "end": {"type": "integer", "description": "The last number that there is."},
    "retry_after": {"type": "integer", "description": "In seconds."},
    "partition": {"type": "integer"},
    "group": {**TEXT, "description": "The group that it is about."},
    "origins": {"type": "array", "items": TEXT, "description": "The origins that the group reads; none: all."},
    "kinds": {"type": "array", "items": TEXT, "description": "The kinds that the group reads; none: all."},
    "gone": {"enum": ["refuse", "skip"], "description": "What the group does when the feed has overtaken it."},
    "generation": {"type": "integer", "description": "The generation in force."},
    "stale": {
        "type": "array",
        "items": record({"partition": {"type": "integer"}, "generation": {"type": "integer"}}),
        "description": "Each partition that is not the member's under the generation it gave, and the one in force.",
    },
    "action": {**TEXT, "description": "The action that another group has."},
    "job": {**TEXT, "description": "The job that it is about."},
}
_FAULT = record(
    {
        "index": {"type": "integer", "minimum": 0, "description": "Which message of the body, from 0."},
        "code": TEXT,
        "detail": TEXT,
        "field": TEXT,
        "id": {**TEXT, "description": "The id of that message, as it was sent."},
    },
    optional=("field", "id"),
)


_DISCREPANCY = record(
    {
        "writer": TEXT,
        "attempt": {"type": "integer", "minimum": 0},
        "announced": {"type": "integer", "minimum": 0, "description": "How many messages the commit names."},
        "staged": {"type": "integer", "minimum": 0, "description": "How many there are."},
    },
    description="An attempt of which not as much is staged as was announced.",
)


def advice_of(code: str) -> Advice:
    return ADVICE.get(code) or Advice(f"{title_of(code)}.", _LATER)


def components() -> dict[str, object]:
    problem = {
        "type": "object",
        "description": "Problem details (RFC 9457). The code never changes once released.",
        "properties": {
            "type": {"type": "string", "format": "uri-reference", "description": f"`{TYPE_PREFIX}` and the code."},
            "title": TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {**TEXT, "description": "What was wrong, and what to do."},
            "code": {"enum": list(CODES)},
            "retriable": {"type": "boolean", "description": "Whether the same call may succeed later, unchanged."},
            "correlation_id": TEXT,
            **_MEMBERS,
        },
        "required": ["type", "title", "status", "detail", "code", "retriable", "correlation_id"],
    }
    return {"Problem": problem, "Fault": _FAULT, "Discrepancy": _DISCREPANCY}


def answers(codes: Iterable[str]) -> dict[str, object]:
    """An answer for each status that these codes have."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(status_of(code), []).append(code)
    return {str(status): _answer(status, sorted(set(by_status[status]))) for status in sorted(by_status)}


def _answer(status: int, codes: list[str]) -> dict[str, object]:
    shape = {"properties": {"code": {"enum": codes}, "status": {"const": status}}}
    content = {
        "schema": {"allOf": [of_schema("Problem"), shape]},
        "examples": {code: {"summary": title_of(code), "value": example(code)} for code in codes},
    }
    return {
        "description": " ".join(f"`{code}`: {advice_of(code).meaning}" for code in codes),
        "headers": headers.of_problem(status),
        "content": {media.PROBLEM: content},
    }


def example(code: str) -> dict[str, object]:
    """How the problem of a code looks."""
    advice = advice_of(code)
    members = {name: _VALUES[name] for name in advice.members if name in _VALUES}
    if "errors" in advice.members:
        members["errors"] = [{"index": 0, "code": code, "detail": advice.meaning, "id": _VALUES["message_id"]}]
    shown = problem_of(error_of({"code": code, "detail": advice.meaning, **members}), correlation_id="night-run-7")
    return {"type": shown["type"], **shown}


_VALUES: dict[str, object] = {
    "message_id": "0198c5a2-0000-7000-8000-000000000001",
    "bundle_id": "0198c5a2-0000-7000-8000-00000000b001",
    "dequeued_at": "2030-01-31T12:00:00Z",
    "messages": 2,
    "allow": "GET",
    "limit": 67_108_864,
    "setting": "consignment_bytes_max",
    "staged": 67_108_000,
    "consignment": "0198c5a2-0000-7000-8000-0000000c0115",
    "state": "committed",
    "writers": [{"writer": "task-1", "attempt": 0, "announced": 3, "staged": 2}],
    "first": 41,
    "retry_after": 1,
    "expected": 2,
    "received": 0,
    "current": 1,
    "batch": "0198c5a2-0000-7000-8000-0000000ba7c1",
    "key": "night-run-7",
    "item": "invoice-1002",
    "index": 1,
}
