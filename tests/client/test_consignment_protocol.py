"""What calls about consignments say to a hub, and what they make of its answers: dialogues led by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from restante import errors
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.client.consignments import consignment_protocol
from restante.client.transport.exchange import HttpRequest, Response
from restante.model.batches.batch_answers import Webhook
from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, Winner
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from tests.client.talking import SILENT, Conversation, json_response, problem_response

CONSIGNMENT = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
OPENED = {"id": CONSIGNMENT, "key": "night", "state": "open"}
RECEIPT = {"accepted": 2, "duplicates": 1, "partitions": []}
STATUS = {
    **OPENED,
    "batch": None,
    "opened_at": "2026-01-02T03:04:05Z",
    "last_activity_at": "2026-01-02T03:04:06Z",
    "closed_at": None,
    "staged_messages": 3,
    "staged_bytes": 400,
    "receipt": None,
}


def body_of(request: HttpRequest) -> dict[str, Any]:
    assert request.body is not None
    assert ("Content-Type", "application/json") in request.headers
    return msgspec.json.decode(request.body, type=dict[str, Any])


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (False, {}),
        (True, {"batch": True}),
        (BatchWish(), {"batch": {}}),
        (BatchWish(notify="ops"), {"batch": {"notify": "ops"}}),
        (BatchWish(webhook=Webhook(url="https://a.test")), {"batch": {"webhook": {"url": "https://a.test"}}}),
        (
            BatchWish(webhook=Webhook(url="https://a.test", secret="s")),
            {"batch": {"webhook": {"url": "https://a.test", "secret": "s"}}},
        ),
    ],
)
def test_an_opening_says_only_what_it_was_told(batch: bool | BatchWish, said: dict[str, Any]) -> None:
    conversation = Conversation([json_response(OPENED, 201)])
    opened = conversation.lead(
        consignment_protocol.open_consignment(conversation.terms, BeginConsignment("night", batch=batch))
    )
    assert (opened.id, opened.state, opened.created) == (CONSIGNMENT, ConsignmentState.OPEN, True)
    (request,) = conversation.requests
    assert (request.method, request.target, body_of(request)) == ("POST", "/v1/consignments", {"key": "night", **said})


def test_the_status_tells_whether_a_consignment_is_new() -> None:
    conversation = Conversation([json_response({**OPENED, "state": "committed", "batch": "b"}, 200)])
    opened = conversation.lead(consignment_protocol.open_consignment(conversation.terms, BeginConsignment("night")))
    assert (opened.state, opened.batch, opened.created) == (ConsignmentState.COMMITTED, "b", False)


def test_a_parcel_is_named_in_the_query_and_repeated_as_it_was() -> None:
    conversation = Conversation([SILENT, json_response({"staged": 2}, 201)])
    messages = [Message(recipient="r", data=1), Message(recipient="r", data=b"x")]
    dialogue = consignment_protocol.stage(
        conversation.terms, StageParcel.of(CONSIGNMENT, messages, writer="task 1/ä", attempt=2, parcel=0)
    )
    assert conversation.lead(dialogue).staged == 2
    first, second = conversation.requests
    assert first == second
    assert first.target == f"/v1/consignments/{CONSIGNMENT}/parcels?writer=task+1%2F%C3%A4&attempt=2&parcel=0"


def test_messages_without_ids_are_staged_without_so_that_the_same_again_is_the_same() -> None:
    messages = [Message(recipient="r", data=1), Message(recipient="r", id=CONSIGNMENT, data=2)]
    conversation = Conversation([json_response({"staged": 2}, 201)])
    conversation.lead(
        consignment_protocol.stage(
            conversation.terms, StageParcel.of(CONSIGNMENT, messages, writer="w", attempt=0, parcel=0)
        )
    )
    assert [message.get("id") for message in body_of(conversation.requests[0])["messages"]] == [None, CONSIGNMENT]


@pytest.mark.parametrize("ids", [None, [None, CONSIGNMENT]])
def test_columns_without_ids_are_staged_without(ids: list[str | None] | None) -> None:
    columns: dict[str, list[Any]] = {"recipient": ["r", "r"], "data": [b"1", b"2"]}
    if ids is not None:
        columns["id"] = ids
    conversation = Conversation([json_response({"staged": 2}, 201)])
    table = pa.table(columns)
    conversation.lead(
        consignment_protocol.stage(
            conversation.terms, StageParcel.of(CONSIGNMENT, table, writer="w", attempt=0, parcel=0)
        )
    )
    body = conversation.requests[0].body
    assert body is not None
    sent = pa.ipc.open_stream(bytes(body)).read_all()
    given = sent["id"].is_null().to_pylist() if "id" in sent.column_names else [True, True]
    assert given == [True, ids is None]
    assert sent["data"].to_pylist() == [b"1", b"2"]


def test_a_commit_names_the_winners_in_order_and_may_take_long() -> None:
    conversation = Conversation([SILENT, json_response(RECEIPT)])
    winners = [Winner(writer="b", attempt=1, messages=2), Winner(writer="a", attempt=0, messages=1)]
    receipt = conversation.lead(
        consignment_protocol.commit_consignment(conversation.terms, CommitConsignment(CONSIGNMENT, winners))
    )
    assert receipt == Receipt(accepted=2, duplicates=1, partitions=())
    request = conversation.requests[1]
    assert (request.method, request.target, request.timeout) == (
        "POST",
        f"/v1/consignments/{CONSIGNMENT}/commit",
        600,
    )
    assert body_of(request) == {
        "writers": [{"writer": "b", "attempt": 1, "messages": 2}, {"writer": "a", "attempt": 0, "messages": 1}]
    }


def test_a_commit_whose_answer_cannot_be_read_may_have_been_carried_out() -> None:
    conversation = Conversation([Response(200, {"content-type": "application/json"}, memoryview(b"{"))])
    with pytest.raises(errors.OutcomeUnknown):
        conversation.lead(
            consignment_protocol.commit_consignment(conversation.terms, CommitConsignment(CONSIGNMENT, []))
        )


def test_a_discard_is_repeated_when_its_answer_was_lost() -> None:
    conversation = Conversation([SILENT, Response(204, {}, memoryview(b""))])
    conversation.lead(consignment_protocol.discard_consignment(conversation.terms, DiscardConsignment(CONSIGNMENT)))
    assert [(request.method, request.target) for request in conversation.requests] == [
        ("DELETE", f"/v1/consignments/{CONSIGNMENT}")
    ] * 2


def test_a_consignment_is_read_with_its_attempts() -> None:
    attempt = {"writer": "w", "attempt": 0, "parcels": 1, "messages": 3, "bytes": 400}
    conversation = Conversation([json_response({**STATUS, "attempts": [attempt]})])
    details = conversation.lead(consignment_protocol.consignment(conversation.terms, ReadConsignment(CONSIGNMENT)))
    assert (details.staged_messages, details.attempts[0].writer, details.receipt) == (3, "w", None)


def test_a_list_says_what_it_was_asked() -> None:
    conversation = Conversation([json_response({"consignments": [STATUS], "next": CONSIGNMENT})])
    dialogue = consignment_protocol.consignments(
        conversation.terms, ListConsignments(state=ConsignmentState.OPEN, key="night", limit=1, after="x")
    )
    page = conversation.lead(dialogue)
    assert (len(page.consignments), page.next) == (1, CONSIGNMENT)
    assert conversation.requests[0].target == "/v1/consignments?state=open&key=night&limit=1&after=x"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "consignment_unknown", errors.ConsignmentUnknown),
        (409, "consignment_closed", errors.ConsignmentClosed),
        (409, "consignment_incomplete", errors.ConsignmentIncomplete),
        (507, "storage_full", errors.StorageFull),
    ],
)
def test_a_problem_is_the_error_that_it_names(status: int, code: str, kind: type[errors.RestanteError]) -> None:
    conversation = Conversation([problem_response(status, code, state="committed")])
    dialogue = consignment_protocol.stage(
        conversation.terms, StageParcel.of(CONSIGNMENT, Message(recipient="r"), writer="w", attempt=0, parcel=0)
    )
    with pytest.raises(kind) as caught:
        conversation.lead(dialogue)
    assert caught.value.details["state"] == "committed"
