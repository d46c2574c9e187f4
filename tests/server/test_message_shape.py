"""The shape of a message over the wire: ids that are texts, text that is text, on every route and in every form."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, UUID, uuid5

import pyarrow as pa
import pytest

from restante.model.storage.partition import partition_of
from restante.server.serve import ServedHub
from tests.server.live import live
from tests.server.wire import Wire

TEXT_ID = "order/7 ä"
OWN = uuid5(NAMESPACE_URL, TEXT_ID)
ARROW = "application/vnd.apache.arrow.stream"
PARTITION = partition_of("ada", 16)
BOTH = [quote(TEXT_ID, safe=""), str(OWN), str(OWN).upper()]


def table(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(io.BytesIO(body)).read_all()


def stream(sent: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sent.schema) as writer:
        writer.write_table(sent)
    return sink.getvalue().to_pybytes()


def sent(wire: Wire, **fields: object) -> None:
    answer = wire.publish({"recipient": "ada", "id": TEXT_ID, "data": 1, **fields})
    assert answer.json()["accepted"] == 1


@pytest.mark.parametrize("count", [1, 200])
def test_a_text_id_is_given_back_in_every_form(wire: Wire, count: int) -> None:
    others = [{"recipient": "eve", "id": f"other-{n}", "data": n} for n in range(count - 1)]
    mine = {"recipient": "ada", "id": TEXT_ID, "data": 1, "properties": {"k": "v"}}
    assert wire.publish(mine, *others).json()["accepted"] == count
    (history,) = wire.get("/v1/recipients/ada/messages").json()["messages"]
    (peeked,) = wire.get("/v1/recipients/ada/peek").json()["messages"]
    (event,) = wire.get("/v1/recipients/ada/peek", accept="application/cloudevents-batch+json").json()
    changes = wire.get(f"/v1/partitions/{PARTITION}/feed?recipient=ada").json()["changes"]
    (some,) = wire.get(f"/v1/partitions/{PARTITION}/feed?recipient=ada&columns=id").json()["changes"]
    stored = wire.get(f"/v1/partitions/{PARTITION}/snapshot?recipient=ada").json()["messages"]
    shown = [history, peeked, event, *changes, some, *[one for one in stored if one["recipient"] == "ada"]]
    assert {one["id"] for one in shown} == {TEXT_ID}
    assert history["properties"] == peeked["properties"] == {"k": "v"}
    for path in ("/v1/recipients/ada/messages", "/v1/recipients/ada/peek", f"/v1/partitions/{PARTITION}/feed"):
        rows = table(wire.get(path, accept=ARROW).body).to_pylist()
        own = next(row for row in rows if row["recipient"] == "ada")
        assert (UUID(bytes=own["id"]), own["text_id"], own["properties"]) == (OWN, TEXT_ID, [("k", "v")])


@pytest.mark.parametrize("name", BOTH)
def test_every_route_takes_the_text_or_the_uuid(wire: Wire, name: str) -> None:
    sent(wire)
    own = f"/v1/recipients/ada/messages/{name}"
    assert wire.get(own).json()["id"] == TEXT_ID
    assert wire("POST", f"{own}/set-aside").status == 204
    assert wire.get(own).json()["state"] == "set_aside"
    assert wire("POST", f"{own}/release").status == 204
    assert wire("DELETE", own).status == 204
    assert wire.get(own).json()["state"] == "withdrawn"


def test_changes_of_a_message_have_its_text(wire: Wire) -> None:
    sent(wire)
    wire.publish({"recipient": "ada", "data": 2}, {"recipient": "ada", "id": "another", "data": 3})
    bundle = wire.get("/v1/recipients/ada/peek").json()["bundle_id"]
    assert wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}").json()["messages"] == 3
    feed = f"/v1/partitions/{PARTITION}/feed"
    collected = [one["id"] for one in wire.get(feed).json()["changes"] if one["change"] == "collected"]
    assert collected[0] == TEXT_ID
    assert collected[2] == "another"
    assert UUID(collected[1]).version == 7
    rows = [row for row in table(wire.get(feed, accept=ARROW).body).to_pylist() if row["change"] == "collected"]
    assert [row["text_id"] for row in rows] == [TEXT_ID, None, "another"]


def test_a_duplicate_is_known_by_the_text_or_by_its_uuid_and_a_conflict_names_what_was_sent(wire: Wire) -> None:
    sent(wire)
    for again in (TEXT_ID, str(OWN)):
        assert wire.publish({"recipient": "ada", "id": again, "data": 1}).json()["duplicates"] == 1
        problem = wire.publish({"recipient": "ada", "id": again, "data": 2}).problem
        assert problem["code"] == "message_conflict"
        assert [error["id"] for error in problem["errors"]] == [again]
    assert wire.get("/v1/recipients/ada/messages").json()["messages"][0]["id"] == TEXT_ID


@pytest.mark.parametrize("bad", ["", " ", ".", "..", "a\n", "\x7f", "x" * 257])
def test_an_id_that_cannot_stand_in_a_url_is_refused(wire: Wire, bad: str) -> None:
    problem = wire.publish({"recipient": "ada", "id": bad, "data": 1}).problem
    assert (problem["code"], problem["errors"][0]["field"]) == ("invalid_message", "id")
    if bad:
        assert wire.get(f"/v1/recipients/ada/messages/{quote(bad, safe='').replace('.', '%2E')}").status == 400


def test_null_is_no_id(wire: Wire) -> None:
    problem = wire.publish({"recipient": "ada", "id": None, "data": 1}).problem
    assert problem["errors"][0]["field"] == "id"


def test_an_event_is_found_by_its_own_id_with_its_source(wire: Wire) -> None:
    event = {"specversion": "1.0", "id": "e-7", "source": "billing", "type": "t", "recipient": "ada", "data": 1}
    answer = wire("POST", "/v1/messages", event, headers={"content-type": "application/cloudevents+json"})
    assert answer.json()["accepted"] == 1
    found = wire.get("/v1/recipients/ada/messages/e-7?origin=billing").json()
    assert found["properties"] == {"ceid": "e-7"}
    assert wire.get(f"/v1/recipients/ada/messages/{found['id']}?origin=billing").json() == found
    assert wire.get("/v1/recipients/ada/messages/e-7").problem["code"] == "message_unknown"
    assert wire("DELETE", "/v1/recipients/ada/messages/e-7?origin=billing").status == 204


@pytest.mark.parametrize("origin", ["", "%20", "x" * 65])
@pytest.mark.parametrize("own", ["e-7", "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"])
def test_an_origin_that_no_event_could_have_is_a_400(wire: Wire, own: str, origin: str) -> None:
    path = f"/v1/recipients/ada/messages/{own}"
    for method, action in (("GET", ""), ("DELETE", ""), ("POST", "/set-aside"), ("POST", "/release")):
        answer = wire(method, f"{path}{action}?origin={origin}")
        assert (answer.status, answer.problem["parameter"]) == (400, "origin")


def test_arrow_that_was_read_can_be_published_again(wire: Wire) -> None:
    sent(wire)
    wire.publish({"recipient": "ada", "id": "second", "text": "hello"})
    read = table(wire.get("/v1/recipients/ada/messages", accept=ARROW).body)
    again = read.drop_columns(["sequence_number", "published_at", "collected_at", "state"])
    answer = wire("POST", "/v1/messages", stream(again), headers={"content-type": ARROW})
    assert answer.json()["duplicates"] == 2
    elsewhere = again.set_column(again.column_names.index("recipient"), "recipient", pa.array(["eve", "eve"]))
    assert wire("POST", "/v1/messages", stream(elsewhere), headers={"content-type": ARROW}).json()["accepted"] == 2
    assert [one["id"] for one in wire.get("/v1/recipients/eve/messages").json()["messages"]] == [TEXT_ID, "second"]


def test_a_numbered_parcel_with_text_ids_is_recognised_as_json_and_as_arrow(wire: Wire) -> None:
    headers = {
        "restante-producer-group": "7",
        "restante-owner-level": "0",
        "restante-published-sequence": "0",
    }
    path = f"/v1/partitions/{PARTITION}/parcels"
    first = wire("POST", path, {"recipient": "ada", "id": TEXT_ID, "text": "hello"}, headers=headers)
    assert first.json()["accepted"] == 1
    columns = pa.table({"recipient": ["ada"], "id": [TEXT_ID], "data": ["hello"]})
    again = wire("POST", path, stream(columns), headers={**headers, "content-type": ARROW})
    assert again.json()["replayed"] is True


def test_staged_text_ids_are_there_after_the_commit(wire: Wire) -> None:
    consignment = wire("POST", "/v1/consignments", {"key": "night"}).json()["id"]
    path = f"/v1/consignments/{consignment}"
    staged = wire(
        "POST", f"{path}/parcels?writer=w&attempt=0&parcel=0", [{"recipient": "ada", "id": TEXT_ID, "text": "x"}]
    )
    assert staged.json()["staged"] == 1
    commit = {"writers": [{"writer": "w", "attempt": 0, "messages": 1}]}
    assert wire("POST", f"{path}/commit", commit).json()["accepted"] == 1
    assert wire.get(f"/v1/recipients/ada/messages/{BOTH[0]}").json()["text"] == "x"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"text": "Grüße\n"}, {"text": "Grüße\n", "media_type": "text/plain", "weight": 1}),
        ({"text": "a;b", "media_type": "text/csv"}, {"text": "a;b", "media_type": "text/csv"}),
        ({"text": '{"a": 1}', "media_type": "application/json"}, {"data": {"a": 1}}),
        ({"text": "<a/>", "media_type": "application/xml"}, {"data_base64": "PGEvPg=="}),
        ({"data_base64": "aGVsbG8=", "media_type": "text/plain"}, {"text": "hello"}),
        ({"data_base64": "/w==", "media_type": "text/plain"}, {"data_base64": "/w=="}),
        ({"data": "hello"}, {"data": "hello", "media_type": "application/json"}),
    ],
)
def test_data_is_shown_as_its_media_type_says(
    wire: Wire, running: ServedHub, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    with live(running, "ada") as talk:
        assert wire.publish({"recipient": "ada", **given}).status == 201
        pushed = talk.until("message")["message"]
    found = wire.get("/v1/recipients/ada/messages").json()["messages"][0]
    assert pushed == found
    kept = {name: found.get(name) for name in (*shown, "data", "text", "data_base64")}
    assert kept == {"data": None, "text": None, "data_base64": None} | shown


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"data": 1, "text": "x"}, "text"),
        ({"text": "x", "data_base64": ""}, "data_base64"),
        ({"text": 7}, "text"),
        ({"text": None}, "text"),
        ({"text": "{", "media_type": "application/json"}, "data"),
        ({"text": "x" * (2**20 + 1)}, "data"),
        ({"text": "x" * 1025, "weight": 1}, "weight"),
        ({"data": 1, "text_id": "x"}, "text_id"),
    ],
)
def test_what_is_wrong_with_a_text_is_named(wire: Wire, wrong: dict[str, object], field: str) -> None:
    problem = wire.publish({"recipient": "ada", **wrong}).problem
    assert problem["code"] == "invalid_message"
    assert [error["field"] for error in problem["errors"]] == [field]


def test_live_tells_the_id_as_it_was_sent(running: ServedHub, wire: Wire) -> None:
    with live(running, "bob") as first, live(running, "bob") as second, live(running, "ada") as other:
        first.say(type="send", request=1, message={"recipient": "ada", "id": TEXT_ID, "text": "hi"})
        assert first.until("sent")["id"] == TEXT_ID
        assert first.until("status")["id"] == TEXT_ID
        pushed, echoed = other.until("message")["message"], second.until("echo")["message"]
    assert (pushed["id"], pushed["text"]) == (echoed["id"], echoed["text"]) == (TEXT_ID, "hi")
    assert wire.get(f"/v1/recipients/ada/messages/{BOTH[0]}").json()["id"] == TEXT_ID
