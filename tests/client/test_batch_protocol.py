"""What calls about batches say to a hub, and what they make of its answers: dialogues led by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restante import errors
from restante.calls.batches import (
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReadProgress,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.calls.publishing import Publish
from restante.client.batches import batch_protocol
from restante.client.transport import protocol
from restante.client.transport.exchange import Dialogue, HttpRequest, Response
from restante.client.transport.options import Terms
from restante.model.batches.batch_answers import Acknowledged, BatchState, CompleteBatch, Counting, ItemRange, Webhook
from restante.model.publishing.message import Message
from tests.client.talking import REFUSED, SILENT, Conversation, json_response, problem_response

BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
OPENED = {"id": BATCH, "key": None, "state": "open"}
STATUS = {
    "id": BATCH,
    "key": "night",
    "counting": "exact",
    "state": "complete",
    "items": 3,
    "pending": 0,
    "acknowledged": 3,
    "collected": 0,
    "expired": 0,
    "withdrawn": 0,
    "duplicates": 0,
    "duplicates_waiting": 0,
    "opened_at": "2026-01-02T03:04:05Z",
    "sealed_at": "2026-01-02T03:04:06Z",
    "completed_at": "2026-01-02T03:04:07Z",
    "deliveries": [],
}
DONE = {
    "acknowledged": 2,
    "complete": [{"id": BATCH, "key": "night"}],
    "unknown": ["x:0:1", {"group": "x:0", "from": 0, "upto": 2}],
}
GONE = Response(204, {}, memoryview(b""))


def body_of(request: HttpRequest) -> dict[str, Any]:
    assert request.body is not None
    assert ("Content-Type", "application/json") in request.headers
    return msgspec.json.decode(request.body, type=dict[str, Any])


def test_an_opening_says_only_what_it_was_told_and_proposes_an_id() -> None:
    conversation = Conversation([json_response(OPENED, 201)])
    assert conversation.lead(batch_protocol.open_batch(conversation.terms, OpenBatch())).id == BATCH
    (request,) = conversation.requests
    assert (request.method, request.target) == ("POST", "/v1/batches")
    body = body_of(request)
    assert body.keys() == {"id"}
    assert (len(body["id"]), body["id"][14]) == (36, "7")


def test_an_opening_says_all_that_it_was_told() -> None:
    conversation = Conversation([json_response({**OPENED, "webhook_secret": "whsec_x"}, 201)])
    dialogue = batch_protocol.open_batch(
        conversation.terms,
        OpenBatch(
            key="night",
            unique=True,
            counting=Counting.ESTIMATED,
            webhook=Webhook(url="https://a.test", secret="whsec_y"),
            notify="ada",
            batch_id=BATCH,
        ),
    )
    assert conversation.lead(dialogue).webhook_secret == "whsec_x"
    assert body_of(conversation.requests[0]) == {
        "id": BATCH,
        "key": "night",
        "unique": True,
        "counting": "estimated",
        "webhook": {"url": "https://a.test", "secret": "whsec_y"},
        "notify": "ada",
    }


def test_a_webhook_without_a_secret_says_none() -> None:
    conversation = Conversation([json_response(OPENED, 201)])
    conversation.lead(batch_protocol.open_batch(conversation.terms, OpenBatch(webhook=Webhook(url="https://a.test"))))
    assert body_of(conversation.requests[0])["webhook"] == {"url": "https://a.test"}


def changing(terms: Terms) -> list[tuple[Dialogue[Any], Response]]:
    return [
        (batch_protocol.open_batch(terms, OpenBatch()), json_response(OPENED, 201)),
        (batch_protocol.add_items(terms, AddItems(BATCH, 5)), json_response({"groups": [{"id": "0", "upto": 5}]}, 201)),
        (batch_protocol.seal_batch(terms, SealBatch(BATCH)), json_response({"complete": False})),
        (batch_protocol.acknowledge(terms, [b'{"items":["x:0:1"]}']), json_response(DONE)),
    ]


@pytest.mark.parametrize("place", range(4))
def test_a_change_without_an_answer_is_repeated_word_for_word(place: int) -> None:
    conversation = Conversation([SILENT, REFUSED])
    dialogue, response = changing(conversation.terms)[place]
    conversation.replies = [SILENT, REFUSED, response]
    conversation.lead(dialogue)
    first, *others = conversation.requests
    assert others == [first, first]


@pytest.mark.parametrize("place", range(4))
def test_a_change_that_nobody_answers_has_an_unknown_outcome(place: int) -> None:
    conversation = Conversation([SILENT] * 6)
    with pytest.raises(errors.OutcomeUnknown):
        conversation.lead(changing(conversation.terms)[place][0])


def test_items_are_added_under_the_id_of_the_request() -> None:
    conversation = Conversation([json_response({"groups": [{"id": "0", "upto": 5}]}, 201)])
    groups = conversation.lead(batch_protocol.add_items(conversation.terms, AddItems(BATCH, 5)))
    assert [(group.id, group.upto) for group in groups.groups] == [("0", 5)]
    (request,) = conversation.requests
    assert request.target == f"/v1/batches/{BATCH}/items"
    body = body_of(request)
    assert body.keys() == {"count", "request_id"}
    assert (body["count"], len(body["request_id"])) == (5, 36)


ANSWER = Acknowledged(
    acknowledged=2,
    complete=(CompleteBatch(id=BATCH, key="night"),),
    unknown=("x:0:1", ItemRange(group="x:0", start=0, upto=2)),
)


def test_one_call_is_the_whole_request() -> None:
    conversation = Conversation([json_response(DONE)])
    assert conversation.lead(batch_protocol.acknowledge(conversation.terms, [b'{"items":["a"]}'])) == (ANSWER,)
    (request,) = conversation.requests
    assert (request.method, request.target) == ("POST", "/v1/acknowledgements")
    assert body_of(request) == {"items": ["a"]}


def test_several_calls_are_one_request_with_an_answer_each() -> None:
    nothing = {"acknowledged": 0, "complete": [], "unknown": []}
    conversation = Conversation([json_response({"answers": [nothing, DONE]})])
    calls = [b'{"items":["a"]}', b'{"items":["b"]}']
    answers = conversation.lead(batch_protocol.acknowledge(conversation.terms, calls))
    assert answers == (Acknowledged(acknowledged=0, complete=(), unknown=()), ANSWER)
    (request,) = conversation.requests
    assert body_of(request) == {"calls": [{"items": ["a"]}, {"items": ["b"]}]}


@pytest.mark.parametrize("answers", [[], [DONE], [DONE] * 3])
def test_when_not_every_call_is_answered_nobody_knows_what_was_done(answers: list[object]) -> None:
    conversation = Conversation([json_response({"answers": answers})])
    with pytest.raises(errors.OutcomeUnknown, match=f"answered {len(answers)} of 2 calls"):
        conversation.lead(batch_protocol.acknowledge(conversation.terms, [b"{}", b"{}"]))


def test_lists_say_what_they_ask_for() -> None:
    conversation = Conversation([json_response({"batches": [STATUS], "next": "t"})])
    page = conversation.lead(
        batch_protocol.batches(
            conversation.terms, ListBatches(state=BatchState.COMPLETE, key="a b", limit=7, after="z")
        )
    )
    assert (page.batches[0].key, page.next) == ("night", "t")
    assert conversation.requests[0].target == "/v1/batches?state=complete&key=a+b&limit=7&after=z"

    conversation = Conversation([json_response({"items": ["i"], "next": None})])
    assert conversation.lead(
        batch_protocol.pending_items(conversation.terms, ListPendingItems(BATCH, limit=3))
    ).items == ("i",)
    assert conversation.requests[0].target == f"/v1/batches/{BATCH}/pending?limit=3"

    conversation = Conversation([json_response({"recipients": [], "next": None})])
    conversation.lead(batch_protocol.batch_progress(conversation.terms, ReadProgress(BATCH, waiting=True)))
    assert conversation.requests[0].target == f"/v1/batches/{BATCH}/progress?waiting=true"


def test_a_status_is_read() -> None:
    conversation = Conversation([SILENT, json_response(STATUS)])
    status = conversation.lead(batch_protocol.batch_status(conversation.terms, ReadBatch(BATCH)))
    assert (status.state, status.items, status.counting) == (BatchState.COMPLETE, 3, Counting.EXACT)


def test_a_wait_waits_at_the_hub_and_a_repetition_so_much_less() -> None:
    conversation = Conversation([SILENT, GONE], seconds_each=4)
    assert conversation.lead(batch_protocol.wait_batch(conversation.terms, WaitForBatch(BATCH, 10))) is None
    first, second = conversation.requests
    assert first.target == f"/v1/batches/{BATCH}/wait?seconds=10.000"
    assert first.timeout == 40
    assert second.query[0][1] == f"{6 - conversation.pauses[0]:.3f}"


def test_a_wait_is_answered_by_the_status() -> None:
    conversation = Conversation([json_response(STATUS)])
    status = conversation.lead(batch_protocol.wait_batch(conversation.terms, WaitForBatch(BATCH, 99)))
    assert status is not None
    assert status.key == "night"
    assert conversation.requests[0].query == (("seconds", "25.000"),)


def test_an_unknown_batch_cannot_be_deleted() -> None:
    conversation = Conversation([problem_response(404, "batch_unknown")])
    with pytest.raises(errors.BatchUnknown):
        conversation.lead(batch_protocol.delete_batch(conversation.terms, DeleteBatch(BATCH)))


def test_a_deletion_whose_answer_was_lost_is_done_when_the_batch_is_gone() -> None:
    conversation = Conversation([SILENT, problem_response(404, "batch_unknown")])
    conversation.lead(batch_protocol.delete_batch(conversation.terms, DeleteBatch(BATCH)))
    assert [request.method for request in conversation.requests] == ["DELETE", "DELETE"]


def test_a_deletion_that_never_reached_the_hub_does_not_count() -> None:
    conversation = Conversation([REFUSED, problem_response(404, "batch_unknown")])
    with pytest.raises(errors.BatchUnknown):
        conversation.lead(batch_protocol.delete_batch(conversation.terms, DeleteBatch(BATCH)))


@pytest.mark.parametrize(("dry_run", "body"), [(True, b'{"dry_run":true}'), (False, b"{}")])
def test_reaping_can_be_tried(dry_run: bool, body: bytes) -> None:
    reaped = {"id": BATCH, "key": None, "state": "open", "idle_since": "2026-01-02T03:04:05Z"}
    conversation = Conversation([json_response({"batches": [reaped]})])
    assert (
        conversation.lead(batch_protocol.reap_batches(conversation.terms, ReapBatches(dry_run=dry_run))).batches[0].id
        == BATCH
    )
    (request,) = conversation.requests
    assert (request.target, request.body) == ("/v1/batches/reap", body)
    assert request.timeout == 600


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "batch_unknown", errors.BatchUnknown),
        (409, "batch_sealed", errors.BatchSealed),
        (409, "batch_key_used", errors.BatchKeyUsed),
        (400, "invalid_item", errors.InvalidItem),
    ],
)
def test_problems_are_the_errors_that_they_are_in_process(
    status: int, code: str, kind: type[errors.RestanteError]
) -> None:
    for place in range(4):
        conversation = Conversation([problem_response(status, code, item="x")])
        with pytest.raises(kind) as caught:
            conversation.lead(changing(conversation.terms)[place][0])
        assert caught.value.details["item"] == "x"


def test_a_publish_names_its_batch_in_a_header() -> None:
    receipt = json_response({"accepted": 1, "duplicates": 0, "partitions": []}, 201)
    conversation = Conversation([receipt])
    conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1), batch=BATCH)))
    assert ("Restante-Batch", BATCH) in conversation.requests[0].headers
    conversation = Conversation([receipt])
    conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))
    assert "Restante-Batch" not in dict(conversation.requests[0].headers)


@pytest.mark.parametrize("batch", ["", "a b", "x\r\ny", "é", 5])
def test_what_cannot_name_a_batch_is_refused(batch: Any) -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest, match="named by its id"):
        conversation.lead(
            protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1), batch=batch))
        )
