"""What calls say to a hub, and what they make of its answers: dialogues led by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from restante import errors
from restante.calls.mailboxes import (
    Dequeue,
    Explain,
    FindMessage,
    ListPartitions,
    ListRecipients,
    PartitionOf,
    Peek,
    ReadHistory,
)
from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.calls.removal import FileNow, Purge
from restante.client.transport import protocol, small_protocol
from restante.client.transport.exchange import Dialogue, Response
from restante.client.transport.options import Terms
from restante.model.mailboxes.answers import BundleAnswer, ProducerState, Reason
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message, State
from restante.wire.media import ARROW, LETTERS
from restante.wire.publish import EncodedPublish
from tests.client.talking import Conversation, json_response, problem_response

BUNDLE_HEADERS = {
    "content-type": ARROW,
    "restante-bundle-id": "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60",
    "restante-origin": "caf%C3%A9%20%2F",
    "restante-kind": "a%2Cb",
    "restante-document-types": "one%2Ctwo,three",
    "restante-message-count": "0",
}


def arrow_response(headers: dict[str, str], table: pa.Table | None = None) -> Response:
    table = MESSAGE_SCHEMA.empty_table() if table is None else table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(200, headers, memoryview(sink.getvalue()))


def peeked(response: Response) -> BundleAnswer | Reason:
    conversation = Conversation([response])
    return conversation.lead(protocol.peek(conversation.terms, Peek("ada")))


@pytest.mark.parametrize(
    ("told", "understood"),
    [
        ({"restante-empty-reason": "recipient_unknown"}, Reason.RECIPIENT_UNKNOWN),
        ({"restante-empty-reason": "of a later hub"}, Reason.NOTHING_WAITING),
        ({}, Reason.NOTHING_WAITING),
    ],
    ids=["known", "unknown", "none"],
)
def test_a_peek_that_finds_nothing_has_the_reason(told: dict[str, str], understood: Reason) -> None:
    assert peeked(Response(204, told, memoryview(b""))) is understood


def test_names_are_percent_encoded_in_paths() -> None:
    conversation = Conversation([json_response({"partition": 3, "owner": ""})])
    assert conversation.lead(protocol.partition_of(conversation.terms, PartitionOf("a/b c?é%"))) == 3
    assert conversation.requests[0].target == "/v1/recipients/a%2Fb%20c%3F%C3%A9%25/partition"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_is_a_folder_in_an_address_is_refused(name: str) -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest, match="cannot be spelled in an address"):
        conversation.lead(protocol.partition_of(conversation.terms, PartitionOf(name)))


@pytest.mark.parametrize("name", ["", "  ", "\ud800", None, 5])
def test_a_name_that_is_no_name_is_refused(name: object) -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest, match="text that is not blank"):
        conversation.lead(protocol.find(conversation.terms, FindMessage(name, "x")))  # type: ignore[arg-type]


def test_a_peek_says_all_that_it_was_told() -> None:
    conversation = Conversation([Response(204, {}, memoryview(b""))])
    dialogue = protocol.peek(
        conversation.terms,
        Peek(
            "ada",
            origins=(
                "a",
                "b",
            ),
            origin_groups=("g",),
            bundle_id="0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60",
            format="xml",
            max_messages=7,
            max_weight=9,
        ),
    )
    assert conversation.lead(dialogue) is Reason.NOTHING_WAITING
    (request,) = conversation.requests
    assert request.target == (
        "/v1/recipients/ada/peek?origin=a&origin=b&origin_group=g&bundle_id=0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
        "&format=xml&max_messages=7&max_weight=9"
    )
    assert ("Accept", f"{LETTERS}, {ARROW}") in request.headers


def test_a_bundle_is_read_from_headers_and_columns() -> None:
    answer = peeked(arrow_response(BUNDLE_HEADERS))
    assert isinstance(answer, BundleAnswer)
    assert (answer.origin, answer.kind, answer.document_types) == ("café /", "a,b", ("one,two", "three"))
    assert (answer.recipient, answer.message_count, answer.content) == ("ada", 0, None)
    assert answer.table.schema == MESSAGE_SCHEMA


def test_content_of_a_claim_check_is_taken_as_it_is() -> None:
    headers = {**BUNDLE_HEADERS, "restante-content": "claim-check", "content-type": "text/csv; header=present"}
    answer = peeked(Response(200, headers, memoryview(b"a,b\n")))
    assert isinstance(answer, BundleAnswer)
    assert (answer.content, answer.media_type) == (b"a,b\n", "text/csv; header=present")
    assert answer.table.num_rows == 0


def test_an_origin_that_did_not_deliver_is_an_error_as_in_process() -> None:
    with pytest.raises(errors.OriginDidNotDeliver):
        peeked(Response(204, {"restante-empty-reason": "origin_did_not_deliver"}, memoryview(b"")))


@pytest.mark.parametrize("missing", sorted(BUNDLE_HEADERS.keys() - {"content-type"}))
def test_a_bundle_without_one_of_its_headers_is_refused(missing: str) -> None:
    headers = {name: value for name, value in BUNDLE_HEADERS.items() if name != missing}
    with pytest.raises(errors.Unavailable, match=missing):
        peeked(arrow_response(headers))


def test_columns_that_cannot_be_read_are_refused() -> None:
    whole = arrow_response(BUNDLE_HEADERS)
    for body in (b"", b"no arrow at all", bytes(whole.body)[:40]):
        with pytest.raises(errors.Unavailable, match="cannot be read"):
            peeked(Response(200, BUNDLE_HEADERS, memoryview(body)))


def lying_table() -> pa.Table:
    """Messages, one of which has a kind that its dictionary does not hold."""
    kinds: Any = pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["k"]), safe=False)
    columns = {field.name: pa.nulls(1, field.type) for field in MESSAGE_SCHEMA} | {"kind": kinds}
    return pa.table(columns, schema=MESSAGE_SCHEMA)


def test_columns_that_lie_are_refused() -> None:
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        peeked(arrow_response(BUNDLE_HEADERS, lying_table()))


@pytest.mark.parametrize(
    ("headers", "table"),
    [
        ({"restante-next": "soon"}, MESSAGE_SCHEMA.empty_table()),
        ({}, pa.table({"recipient": ["ada"]})),
        ({}, pa.table({field.name: pa.nulls(1, field.type) for field in MESSAGE_SCHEMA}, schema=MESSAGE_SCHEMA)),
        ({}, lying_table()),
    ],
)
def test_a_history_that_is_none_is_refused(headers: dict[str, str], table: pa.Table) -> None:
    conversation = Conversation([arrow_response({"content-type": ARROW} | headers, table)])
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        conversation.lead(protocol.history(conversation.terms, ReadHistory("ada")))


@pytest.mark.parametrize("as_of", [{}, {"restante-as-of": "noon"}])
def test_a_list_of_recipients_without_its_time_is_refused(as_of: dict[str, str]) -> None:
    conversation = Conversation([Response(200, as_of, memoryview(b'{"recipients": []}'))])
    with pytest.raises(errors.Unavailable, match="restante-as-of"):
        conversation.lead(protocol.recipients(conversation.terms, ListRecipients()))


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"bundle_id": 1, "messages": 2}', b"\xff", b"[" * 100_000])
def test_json_that_is_no_answer_is_refused(body: bytes) -> None:
    conversation = Conversation([Response(200, {"content-type": "application/json"}, memoryview(body))])
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        conversation.lead(protocol.dequeue(conversation.terms, Dequeue("ada", "x")))


def test_what_is_no_hub_is_told_so() -> None:
    conversation = Conversation([Response(404, {"content-type": "text/html"}, memoryview(b"<html>"))])
    with pytest.raises(errors.InvalidRequest, match=r"hub\.test:8470 is no hub"):
        conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))


def test_a_problem_that_cannot_be_read_is_an_error_all_the_same() -> None:
    conversation = Conversation([Response(400, {"content-type": "application/problem+json"}, memoryview(b"{"))])
    with pytest.raises(errors.Unavailable, match="cannot be read"):
        conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))


def test_faults_come_back_as_they_were() -> None:
    fault = {"index": 3, "code": "message_conflict", "detail": "other content", "field": "id"}
    conversation = Conversation([problem_response(409, "message_conflict", errors=[fault])])
    with pytest.raises(errors.MessageConflict) as caught:
        conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1))))
    assert caught.value.faults == (errors.Fault(index=3, code="message_conflict", detail="other content", field="id"),)


def test_a_parcel_goes_to_its_partition() -> None:
    conversation = Conversation([json_response({"accepted": 1, "duplicates": 0, "partitions": []}, 201)])
    conversation.lead(protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1), partition=4)))
    assert conversation.requests[0].path == "/v1/partitions/4/parcels"


STATE = {
    "partition": 1,
    "producer_group": 5,
    "owner_level": 2,
    "last_published_sequence_number": None,
    "last_activity_at": "2026-01-02T03:04:05Z",
    "replays": 3,
    "fenced_attempts": 4,
}


def test_a_numbered_parcel_says_its_numbers_in_headers() -> None:
    conversation = Conversation(
        [json_response({"accepted": 1, "duplicates": 0, "partitions": [], "replayed": True}, 201)]
    )
    numbers = ProducerNumbers(group=2**63 - 1, owner_level=2, published_sequence=2**31 - 1)
    sent = Message(recipient="ada", data=1)
    receipt = conversation.lead(protocol.publish(conversation.terms, Publish.of(sent, partition=1, producer=numbers)))
    assert receipt.replayed
    (request,) = conversation.requests
    assert request.path == "/v1/partitions/1/parcels"
    assert dict(request.headers).items() >= {
        ("Restante-Producer-Group", str(2**63 - 1)),
        ("Restante-Owner-Level", "2"),
        ("Restante-Published-Sequence", str(2**31 - 1)),
    }


def test_what_was_encoded_before_is_sent_as_it_is() -> None:
    conversation = Conversation([json_response({"accepted": 1, "duplicates": 0, "partitions": []}, 201)])
    conversation.lead(protocol.publish(conversation.terms, Publish(EncodedPublish("text/plain", b"as it is"))))
    (request,) = conversation.requests
    assert (request.body, dict(request.headers)["Content-Type"]) == (b"as it is", "text/plain")


def test_a_link_offers_only_what_it_was_told() -> None:
    conversation = Conversation([json_response(STATE, 201), json_response(STATE, 201)])
    terms = conversation.terms
    found = conversation.lead(_both_links(terms))
    assert (found.producer_group, found.owner_level, found.last_published_sequence_number) == (5, 2, None)
    assert [request.path for request in conversation.requests] == ["/v1/partitions/1/links"] * 2
    assert [msgspec.json.decode(request.body or b"") for request in conversation.requests] == [
        {},
        {"producer_group": 5, "owner_level": 0, "last_published_sequence_number": 0},
    ]


def _both_links(terms: Terms) -> Dialogue[ProducerState]:
    yield from protocol.open_link(terms, OpenLink(1))
    return (
        yield from protocol.open_link(
            terms, OpenLink(1, producer_group=5, owner_level=0, last_published_sequence_number=0)
        )
    )


def test_producers_are_read_one_by_one_and_page_by_page() -> None:
    conversation = Conversation([json_response(STATE)])
    state = conversation.lead(protocol.producer_state(conversation.terms, ReadProducer(1, 5)))
    assert (state.replays, state.fenced_attempts, state.last_activity_at.year) == (3, 4, 2026)
    assert conversation.requests[0].target == "/v1/partitions/1/producers/5"
    conversation = Conversation([json_response({"producers": [STATE], "next": "x"})])
    page = conversation.lead(protocol.producer_states(conversation.terms, ListProducers(1, limit=1, after="y")))
    assert (page.producers, page.next) == ((state,), "x")
    assert conversation.requests[0].target == "/v1/partitions/1/producers?limit=1&after=y"


@pytest.mark.parametrize("partition", ["1", 1.0, True])
def test_a_partition_is_a_number(partition: object) -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest, match="partition"):
        conversation.lead(
            protocol.publish(conversation.terms, Publish.of(Message(recipient="ada", data=1), partition=partition))  # type: ignore[arg-type]
        )


def test_partitions_are_asked_for_page_by_page() -> None:
    first = {"partition": 0, "visible_sequence": 1, "owner": "x", "waiting": 2, "unfiled": 3}
    pages = [
        json_response({"partitions": [first], "next": "1"}),
        json_response({"partitions": [{**first, "partition": 1}], "next": None}),
    ]
    conversation = Conversation(pages)
    assert [
        status.partition for status in conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))
    ] == [0, 1]
    assert [dict(request.query).get("after") for request in conversation.requests] == [None, "1"]


def test_history_asks_by_state_and_reads_where_to_go_on() -> None:
    conversation = Conversation([arrow_response({"content-type": ARROW, "restante-next": "12"})])
    page = conversation.lead(
        protocol.history(conversation.terms, ReadHistory("ada", after=3, state=State.SET_ASIDE, limit=5))
    )
    assert (page.messages, page.next) == ((), 12)
    assert conversation.requests[0].target == "/v1/recipients/ada/messages?after=3&state=set_aside&limit=5"


def test_a_purge_says_only_what_it_was_told() -> None:
    conversation = Conversation([json_response({"messages": 2}), json_response({"messages": 0})])
    before = datetime(2026, 1, 2, tzinfo=UTC)
    dialogue = protocol.purge(conversation.terms, Purge("ada", kind="k", before=before, dry_run=True))
    asked = Conversation([json_response({"messages": 2})])
    assert asked.lead(dialogue) == 2
    assert msgspec.json.decode(asked.requests[0].body or b"") == {
        "kind": "k",
        "before": "2026-01-02T00:00:00Z",
        "dry_run": True,
    }


def test_a_purge_before_a_time_without_a_zone_is_refused() -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest, match="time zone"):
        conversation.lead(protocol.purge(conversation.terms, Purge("ada", before=datetime(2026, 1, 1))))  # noqa: DTZ001 - the point


def test_an_explanation_has_its_reason_and_times() -> None:
    told = {
        "reason": "nothing_waiting",
        "text": "t",
        "waiting": [{"origin": "o", "kind": "k", "messages": 1, "oldest": "2026-01-02T03:04:05.000006Z"}],
        "open_bundles": [],
        "not_yet_visible": 0,
    }
    conversation = Conversation([json_response(told)])
    explanation = conversation.lead(small_protocol.explain(conversation.terms, Explain("ada", origins=("o",))))
    assert explanation.reason is Reason.NOTHING_WAITING
    assert explanation.waiting[0].oldest == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_work_that_takes_long_is_waited_for() -> None:
    conversation = Conversation([json_response({"count": 5})])
    assert conversation.lead(protocol.file(conversation.terms, FileNow())) == 5
    assert conversation.requests[0].timeout == 600
