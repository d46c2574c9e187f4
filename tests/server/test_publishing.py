"""Publishing over a socket: what the contract says of `POST /v1/messages` and of parcels."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import uuid

import pyarrow as pa
import pytest

from restante.limits import DATA_BYTES_MAX, SEND_BYTES_MAX
from restante.model.storage.partition import partition_of
from restante.server.serve import ServedHub
from tests.server.wire import Answer, Wire

ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def arrow_body(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def found(wire: Wire, recipient: str) -> list[dict[str, object]]:
    answer = wire.get(f"/v1/recipients/{recipient}/messages?limit=1000")
    assert answer.status == 200
    messages: list[dict[str, object]] = answer.json()["messages"]
    return messages


def test_the_receipt_tells_what_became_of_each_message(wire: Wire) -> None:
    first = wire.publish({"recipient": "ada", "id": ID, "data": 1}, {"recipient": "ada", "data": 2})
    assert first.status == 201
    partition = partition_of("ada", 16)
    expected = {"partition": partition, "first_sequence_number": 1, "last_sequence_number": 2}
    assert first.json() == {"accepted": 2, "duplicates": 0, "partitions": [expected]}
    again = wire.publish({"recipient": "ada", "id": ID.upper(), "data": 1})
    assert again.json() == {"accepted": 0, "duplicates": 1, "partitions": []}


def test_a_message_comes_back_as_it_was_sent(wire: Wire) -> None:
    sent = {
        "id": ID.upper(),
        "recipient": "ada",
        "origin": "billing",
        "kind": "invoice",
        "document_type": "Invoice 7",
        "weight": 3,
        "bundleable": False,
        "data": {"b": [1, 2.50, None], "a": "ä"},
        "media_type": "application/vnd.bill+json",
        "properties": {"k": "v"},
        "expires_at": "2999-01-01T00:00:00+02:00",
    }
    assert wire.publish(sent).status == 201
    (message,) = found(wire, "ada")
    assert message.pop("published_at")
    assert message == sent | {
        "id": ID,
        "expires_at": message["expires_at"],
        "sequence_number": 1,
        "state": "waiting",
    }
    assert str(message["expires_at"]).startswith("2998-12-31T22:00:00")


@pytest.mark.parametrize("body", [{"messages": [{"recipient": "ada", "data": 7}]}, [{"recipient": "ada", "data": 7}]])
def test_a_list_or_one_message_is_a_body(wire: Wire, body: object) -> None:
    parcels = f"/v1/partitions/{partition_of('ada', 16)}/parcels"
    assert wire("POST", "/v1/messages", body).json()["accepted"] == 1
    assert wire("POST", parcels, {"recipient": "ada", "data": 7}).json()["accepted"] == 1
    assert [message["data"] for message in found(wire, "ada")] == [7, 7]


def test_an_object_that_is_no_message_says_what_a_body_may_be(wire: Wire) -> None:
    problem = wire("POST", "/v1/messages", {"mesages": []}).problem
    assert (problem["code"], problem["field"]) == ("invalid_request", "mesages")
    assert "a list of messages" in problem["detail"]


@pytest.mark.parametrize("recipient", [".", "..", "a\nb", "\x7f", "\x9f!"])
def test_a_recipient_that_cannot_stand_in_a_url_is_refused(wire: Wire, recipient: str) -> None:
    for number in (1, 200):
        problem = wire.publish(*[{"recipient": recipient, "data": 1}] * number).problem
        assert problem["code"] == "invalid_message"
        assert {error["field"] for error in problem["errors"]} == {"recipient"}


def test_bytes_travel_as_base64(wire: Wire) -> None:
    assert wire.publish({"recipient": "ada", "data_base64": base64.b64encode(b"\x00\xff").decode()}).status == 201
    (message,) = found(wire, "ada")
    assert message["data_base64"] == "AP8="
    assert message["media_type"] == "application/octet-stream"
    assert "data" not in message


def test_json_data_is_stored_compact_and_its_numbers_are_untouched(wire: Wire) -> None:
    body = b'{"messages": [{"recipient": "ada", "data": { "n" : 1.10e2, "big": 123456789012345678901234567890 } }]}'
    assert wire("POST", "/v1/messages", body, headers={"content-type": "application/json"}).status == 201
    answer = wire.get("/v1/recipients/ada/messages")
    assert b'"data":{"n":1.10e2,"big":123456789012345678901234567890}' in answer.body


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"data": 1}, "recipient"),
        ({"recipient": " ", "data": 1}, "recipient"),
        ({"recipient": "x" * 257, "data": 1}, "recipient"),
        ({"recipient": "ada", "data": 1, "id": None}, "id"),
        ({"recipient": "ada", "data": 1, "id": " "}, "id"),
        ({"recipient": "ada", "data": 1, "origin": ""}, "origin"),
        ({"recipient": "ada", "data": 1, "weight": 0}, "weight"),
        ({"recipient": "ada", "data": 1, "weight": "1"}, "weight"),
        ({"recipient": "ada", "data": 1, "bundleable": 1}, "bundleable"),
        ({"recipient": "ada", "data": 1, "data_base64": "AA=="}, "data_base64"),
        ({"recipient": "ada", "data_base64": "not base64"}, "data_base64"),
        ({"recipient": "ada"}, "data"),
        ({"recipient": "ada", "data": 1, "properties": {"a": 1}}, "properties"),
        ({"recipient": "ada", "data": 1, "expires_at": "tomorrow"}, "expires_at"),
        ({"recipient": "ada", "data": 1, "colour": "red"}, "colour"),
        ({"recipient": "ada", "data": 1, "sequence_number": 7}, "sequence_number"),
    ],
)
def test_a_bad_message_is_named_by_index_and_field_and_nothing_is_stored(
    wire: Wire, message: dict[str, object], field: str
) -> None:
    answer = wire.publish({"recipient": "ada", "data": "fine"}, message)
    assert answer.status == 400
    assert answer.problem["code"] == "invalid_message"
    assert [(error["index"], error["field"]) for error in answer.problem["errors"]] == [(1, field)]
    assert found(wire, "ada") == []


def test_all_bad_messages_are_listed_up_to_a_hundred(wire: Wire) -> None:
    answer = wire.publish(*({"recipient": "", "data": number} for number in range(150)))
    assert [error["index"] for error in answer.problem["errors"]] == list(range(100))


def test_a_conflict_names_the_message_and_refuses_the_body(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "id": ID, "data": 1})
    answer = wire.publish({"recipient": "bob", "data": 1}, {"recipient": "ada", "id": ID, "data": 2})
    assert answer.status == 409
    assert answer.problem["code"] == "message_conflict"
    assert [(error["index"], error["id"]) for error in answer.problem["errors"]] == [(1, ID)]
    assert found(wire, "bob") == []


def test_mixed_faults_are_invalid_messages(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "id": ID, "data": 1})
    answer = wire.publish({"recipient": "ada", "id": ID, "data": 2}, {"recipient": "ada", "data": 1, "weight": 0})
    assert (answer.status, answer.problem["code"]) == (400, "invalid_message")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b'{"messages": {}}',
        b'{"messages": [1]}',
        b'{"messages": [], "more": 1}',
        b'{"messages": [{"recipient": "\xff", "data": 1}]}',
        b'{"messages": [{"recipient": "\\ud800", "data": 1}]}',
        b'{"messages": [{"recipient": "ada", "data": NaN}]}',
        b'{"messages": [{"recipient": "ada", "data": ' + b"[" * 5000 + b"]" * 5000 + b"}]}",
    ],
)
def test_a_body_that_cannot_be_read_is_a_400(wire: Wire, body: bytes) -> None:
    answer = wire("POST", "/v1/messages", body, headers={"content-type": "application/json"})
    assert answer.status == 400
    assert answer.problem["code"] in ("invalid_request", "invalid_message")
    assert found(wire, "ada") == []


def test_a_body_of_an_unknown_type_is_a_415(wire: Wire) -> None:
    answer = wire("POST", "/v1/messages", b"a,b", headers={"content-type": "text/csv"})
    assert (answer.status, answer.problem["code"]) == (415, "unsupported_media_type")
    assert wire("POST", "/v1/messages", b"a,b").status == 415
    encoded = wire(
        "POST", "/v1/messages", b"{}", headers={"content-type": "application/json", "content-encoding": "br"}
    )
    assert encoded.status == 415


def test_an_empty_send_is_accepted(wire: Wire) -> None:
    assert wire.publish().json() == {"accepted": 0, "duplicates": 0, "partitions": []}


def test_arrow_columns_are_messages(wire: Wire) -> None:
    table = pa.table({"recipient": ["ada"] * 3, "data": [b"1", b"2", b"3"], "kind": ["a", None, "b"]})
    answer = wire("POST", "/v1/messages", arrow_body(table), headers=ARROW)
    assert answer.json()["accepted"] == 3
    assert [message["kind"] for message in found(wire, "ada")] == ["a", "default", "b"]


def test_an_unknown_arrow_column_is_named(wire: Wire) -> None:
    table = pa.table({"recipient": ["ada"], "data": [b"1"], "colour": ["red"]})
    answer = wire("POST", "/v1/messages", arrow_body(table), headers=ARROW)
    assert answer.status == 400
    assert "colour" in answer.problem["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("count", [1, 20_000])
def test_bodies_may_be_packed(wire: Wire, encoding: str, count: int) -> None:
    body = json.dumps({"messages": [{"recipient": "ada", "data": number} for number in range(count)]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else pa.compress(body, "zstd", asbytes=True)
    answer = wire(
        "POST",
        "/v1/messages",
        packed,
        headers={"content-type": "application/json", "content-encoding": encoding},
    )
    assert answer.json()["accepted"] == count


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_packed_body_may_not_unpack_to_more_than_the_bound(wire: Wire, encoding: str) -> None:
    body = b" " * (SEND_BYTES_MAX + 1)
    packed = gzip.compress(body, 1) if encoding == "gzip" else pa.compress(body, "zstd", asbytes=True)
    answer = wire(
        "POST", "/v1/messages", packed, headers={"content-type": "application/json", "content-encoding": encoding}
    )
    assert (answer.status, answer.problem["code"]) == (413, "body_too_large")


def test_a_damaged_packed_body_is_a_400(wire: Wire) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    for body in (gzip.compress(b'{"messages": []}')[:-9], b"not gzip"):
        answer = wire("POST", "/v1/messages", body, headers=headers)
        assert (answer.status, answer.problem["code"]) == (400, "invalid_request")


def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_sent(running: ServedHub) -> None:
    wire = Wire(running.url)
    wire._connection.putrequest("POST", "/v1/messages")
    wire._connection.putheader("content-type", "application/json")
    wire._connection.putheader("content-length", str(SEND_BYTES_MAX + 1))
    wire._connection.endheaders()
    response = wire._connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["code"] == "body_too_large"
    wire.close()


def test_a_body_that_turns_out_too_long_is_refused(running: ServedHub) -> None:
    wire = Wire(running.url)
    piece = b" " * 2**20
    wire._connection.putrequest("POST", "/v1/messages")
    wire._connection.putheader("content-type", "application/json")
    wire._connection.putheader("transfer-encoding", "chunked")
    wire._connection.endheaders()

    def pour() -> None:
        try:
            for _ in range(SEND_BYTES_MAX // len(piece) + 1):
                wire._connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        except OSError:
            pass  # the hub has answered and closed

    pouring = threading.Thread(target=pour)
    pouring.start()
    response = wire._connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["code"] == "body_too_large"
    pouring.join()
    wire.close()


def test_data_of_a_mebibyte_is_taken_and_a_byte_more_is_not(wire: Wire) -> None:
    assert wire.publish({"recipient": "ada", "data": "x" * (DATA_BYTES_MAX - 2)}).status == 201
    answer = wire.publish({"recipient": "ada", "data": "x" * (DATA_BYTES_MAX - 1)})
    assert (answer.status, answer.problem["errors"][0]["field"]) == (400, "data")


def test_a_parcel_goes_to_its_partition(wire: Wire) -> None:
    partition = partition_of("ada", 16)
    messages = {"messages": [{"recipient": "ada", "data": 1}]}
    assert wire("POST", f"/v1/partitions/{partition}/parcels", messages).json()["accepted"] == 1
    other = wire("POST", f"/v1/partitions/{(partition + 1) % 16}/parcels", messages)
    assert (other.status, other.problem["code"]) == (400, "partition_mismatch")
    assert other.problem["errors"][0]["index"] == 0
    for unknown in ("16", "x", "-1", "99999999999999"):
        answer = wire("POST", f"/v1/partitions/{unknown}/parcels", messages)
        assert (answer.status, answer.problem["code"]) == (404, "partition_unknown")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/partitions/0/parcels"])
@pytest.mark.parametrize("batch", ["1", "", "night", "{0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60}"])
def test_a_batch_that_is_no_uuid_is_refused_and_the_header_named(wire: Wire, path: str, batch: str) -> None:
    answer = wire("POST", path, {"messages": []}, headers={"Restante-Batch": batch})
    assert (answer.status, answer.problem["code"]) == (400, "invalid_request")
    assert answer.problem["header"] == "Restante-Batch"


class TestCloudEvents:
    def publish(self, wire: Wire, event: object, kind: str) -> Answer:
        return wire("POST", "/v1/messages", json.dumps(event).encode(), headers={"content-type": kind})

    def test_a_structured_event_is_a_message(self, wire: Wire) -> None:
        event = {
            "specversion": "1.0",
            "id": "event 7",
            "source": "billing",
            "type": "invoice",
            "recipient": "ada",
            "weight": 2,
            "time": "2026-01-01T00:00:00Z",
            "subject": "s",
            "mine": "x",
            "data": {"a": 1},
        }
        assert self.publish(wire, event, "application/cloudevents+json").status == 201
        (message,) = found(wire, "ada")
        assert message["id"] == str(uuid.uuid5(uuid.NAMESPACE_URL, "billing\nevent 7"))
        assert (message["origin"], message["kind"], message["weight"]) == ("billing", "invoice", 2)
        assert message["data"] == {"a": 1}
        expected = {"ceid": "event 7", "time": "2026-01-01T00:00:00Z", "subject": "s", "mine": "x"}
        assert message["properties"] == expected

    def test_a_batch_comes_back_as_a_batch(self, wire: Wire) -> None:
        events = [
            {"specversion": "1.0", "id": ID, "source": "o", "type": "k", "recipient": "ada", "data_base64": "AP8="},
            {"specversion": "1.0", "id": "2", "source": "o", "type": "k", "recipient": "ada", "data": 2, "mine": "y"},
        ]
        assert self.publish(wire, events, "application/cloudevents-batch+json").json()["accepted"] == 2
        answer = wire.get("/v1/recipients/ada/peek", accept="application/cloudevents-batch+json")
        assert answer.headers["content-type"].startswith("application/cloudevents-batch+json")
        first, second = answer.json()
        assert (first["id"], first["data_base64"]) == (ID, "AP8=")
        assert (second["id"], second["data"], second["mine"]) == ("2", 2, "y")
        assert {event["specversion"] for event in (first, second)} == {"1.0"}

    def test_a_binary_event_has_its_attributes_in_headers(self, wire: Wire) -> None:
        headers = {
            "content-type": "text/plain",
            "ce-specversion": "1.0",
            "ce-id": ID,
            "ce-source": "o",
            "ce-type": "k",
            "ce-recipient": "J%C3%BCrgen",
        }
        assert wire("POST", "/v1/messages", b"hello", headers=headers).status == 201
        (message,) = found(wire, "J%C3%BCrgen")
        assert (message["recipient"], message["media_type"]) == ("Jürgen", "text/plain")
        assert message["text"] == "hello"

    def test_an_event_without_its_attributes_is_refused(self, wire: Wire) -> None:
        answer = self.publish(wire, {"specversion": "1.0", "id": "1", "data": 1}, "application/cloudevents+json")
        assert answer.status == 400
        named = {error["field"] for error in answer.problem["errors"]}
        assert {"source", "type", "recipient"} <= named
