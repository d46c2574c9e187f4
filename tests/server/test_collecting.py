"""Collecting over a socket: peek, dequeue, explain, the list of recipients, and a recipient's messages."""

from __future__ import annotations

import gzip
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest

import restante
from restante.errors import Unavailable
from restante.ports.content import Content, ContentRequest, OriginPort
from restante.server.serve import ServedHub, start
from restante.settings import OriginGroupSettings, OriginSettings, Settings
from tests.server.test_publishing import ARROW, ID, arrow_body
from tests.server.wire import Answer, Wire
from tests.waiting import wait_until


def peek(wire: Wire, recipient: str = "ada", query: str = "", **headers: str) -> Answer:
    return wire.get(f"/v1/recipients/{quote(recipient, safe='')}/peek{query}", **headers)


def dequeue(wire: Wire, bundle_id: str, recipient: str = "ada") -> Answer:
    return wire("DELETE", f"/v1/recipients/{recipient}/bundles/{bundle_id}")


def unpacked(answer: Answer) -> pa.Table:
    return pa.ipc.open_stream(answer.body).read_all()


def test_a_bundle_is_peeked_again_and_again_until_it_is_dequeued(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1, "document_type": "a b"}, {"recipient": "ada", "data": [2]})
    first = peek(wire)
    assert first.status == 200
    body = first.json()
    assert [message["data"] for message in body["messages"]] == [1, [2]]
    assert (body["origin"], body["kind"]) == ("default", "default")
    assert body["document_types"] == ["a b", "default"]
    assert first.headers["restante-bundle-id"] == body["bundle_id"]
    assert first.headers["restante-document-types"] == "a%20b,default"
    assert first.headers["restante-message-count"] == "2"
    assert first.headers["cache-control"] == "no-store"
    assert peek(wire).json() == body
    done = dequeue(wire, body["bundle_id"].upper())
    assert (done.status, done.json()) == (200, {"bundle_id": body["bundle_id"], "messages": 2})
    assert peek(wire).status == 204


def test_an_empty_mailbox_says_why(wire: Wire) -> None:
    assert (peek(wire).status, peek(wire).headers["restante-empty-reason"]) == (204, "recipient_unknown")
    wire.publish({"recipient": "ada", "data": 1})
    dequeue(wire, peek(wire).headers["restante-bundle-id"])
    assert peek(wire).headers["restante-empty-reason"] == "nothing_waiting"


def test_dequeuing_again_tells_when_it_was_done(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1}, {"recipient": "ada", "data": 1})
    bundle = peek(wire).headers["restante-bundle-id"]
    dequeue(wire, bundle)
    again = dequeue(wire, bundle)
    assert (again.status, again.problem["code"]) == (404, "bundle_unknown")
    assert again.problem["dequeued_at"].endswith("Z")
    assert again.problem["messages"] == 2
    others = dequeue(wire, bundle, recipient="bob")
    assert (others.status, others.problem["code"]) == (404, "bundle_unknown")
    assert "dequeued_at" not in others.problem
    assert dequeue(wire, str(uuid.uuid4())).status == 404
    wrong = dequeue(wire, "7")
    assert (wrong.status, wrong.problem["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("name", ["a/b", "ü", "a b+c", "%41", "...", "a?b#c", "😀", "peek"])
def test_a_name_in_the_path_may_be_any_text(wire: Wire, name: str) -> None:
    wire.publish({"recipient": name, "data": 1})
    assert peek(wire, name).json()["messages"][0]["recipient"] == name


@pytest.mark.parametrize("path", ["%FF", "%E4", "%20", "%2E%2E", ""])
def test_a_name_that_is_none_is_a_400_or_404(wire: Wire, path: str) -> None:
    assert wire.get(f"/v1/recipients/{path}/peek").status == 400


def test_arrow_and_json_hold_the_same_messages(wire: Wire) -> None:
    wire.publish(*({"recipient": "ada", "data": {"n": number}} for number in range(5_000)))
    table = unpacked(peek(wire, accept="application/vnd.apache.arrow.stream"))
    body = peek(wire, accept="application/json").json()
    assert table.num_rows == len(body["messages"]) == 5_000
    assert table["sequence_number"].to_pylist() == [message["sequence_number"] for message in body["messages"]]
    assert [uuid.UUID(bytes=value) for value in table["id"].to_pylist()] == [
        uuid.UUID(message["id"]) for message in body["messages"]
    ]
    assert table["data"].to_pylist() == [b'{"n":%d}' % number for number in range(5_000)]


def test_a_type_that_cannot_be_given_is_a_406(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    answer = peek(wire, accept="text/html")
    assert (answer.status, answer.problem["code"]) == (406, "not_acceptable")


@pytest.mark.parametrize("count", [50, 5_000])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_answers_are_packed_where_the_client_asks(wire: Wire, count: int, encoding: str) -> None:
    wire.publish(*({"recipient": "ada", "data": "x" * 100} for _ in range(count)))
    plain = peek(wire)
    packed = peek(wire, accept_encoding=encoding)
    assert packed.headers["content-encoding"] == encoding
    assert len(packed.body) < len(plain.body) / 2
    codec = (
        gzip.decompress
        if encoding == "gzip"
        else lambda body: pa.CompressedInputStream(pa.BufferReader(body), "zstd").read()
    )
    assert codec(packed.body) == plain.body


def test_the_shape_of_a_new_bundle_may_be_chosen(wire: Wire) -> None:
    wire.publish(*({"recipient": "ada", "data": n, "weight": 10} for n in range(5)))
    first = peek(wire, query="?max_messages=2")
    assert first.headers["restante-message-count"] == "2"
    assert peek(wire, query="?max_messages=5").headers["restante-message-count"] == "2"
    dequeue(wire, first.headers["restante-bundle-id"])
    assert peek(wire, query="?max_weight=10").headers["restante-message-count"] == "1"


def test_a_bundle_id_may_be_proposed_once(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1}, {"recipient": "ada", "data": 1})
    assert peek(wire, query=f"?bundle_id={ID}&max_messages=1").headers["restante-bundle-id"] == ID
    other = peek(wire, query=f"?bundle_id={uuid.uuid4()}")
    assert (other.status, other.problem["code"], other.problem["bundle_id"]) == (409, "bundle_open", ID)
    dequeue(wire, ID)
    used = peek(wire, query=f"?bundle_id={ID}")
    assert (used.status, used.problem["code"]) == (409, "bundle_id_used")


@pytest.mark.parametrize(
    "query",
    [
        "?colour=red",
        "?max_messages=0",
        "?max_messages=x",
        "?max_messages=1&max_messages=2",
        "?max_weight=99999999999999999999",
        "?bundle_id=7",
        "?wait=soon",
        "?wait=-1",
        "?wait=nan",
        "?origin_group=nobody",
        "?origin=%FF",
    ],
)
def test_a_query_that_makes_no_sense_is_a_400(wire: Wire, query: str) -> None:
    answer = peek(wire, query=query)
    assert (answer.status, answer.problem["code"]) == (400, "invalid_request")


def test_an_unknown_query_parameter_is_named(wire: Wire) -> None:
    for path in ("/v1/recipients/ada/peek", "/v1/partitions", "/livez"):
        assert "colour" in wire.get(f"{path}?colour=red").problem["detail"]


def test_origins_and_groups_choose_what_is_peeked(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1, "origin": "a"}, {"recipient": "ada", "data": 2, "origin": "b"})
    assert peek(wire, query="?origin=b").json()["origin"] == "b"
    assert peek(wire, query="?origin_group=a").json()["origin"] == "a"
    assert peek(wire, query="?origin=c&origin=d").status == 204


def test_a_waiting_peek_is_answered_as_soon_as_something_is_there(
    wire: Wire, new_wire: Callable[[], Wire], running: ServedHub
) -> None:
    answers: list[Answer] = []
    other = new_wire()
    waiting = threading.Thread(target=lambda: answers.append(peek(other, query="?wait=25")))
    waiting.start()
    bell = running.desk.hub.core.bell
    wait_until(lambda: bell._waiters)
    wire.publish({"recipient": "ada", "data": 7})
    waiting.join()
    assert answers[0].json()["messages"][0]["data"] == 7


def test_a_wait_ends_with_nothing_when_its_time_is_over(wire: Wire) -> None:
    answer = peek(wire, query="?wait=0.05")
    assert (answer.status, answer.headers["restante-empty-reason"]) == (204, "recipient_unknown")


def test_explain_tells_what_waits_and_what_is_open(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1, "origin": "a"}, {"recipient": "ada", "data": 1, "origin": "b"})
    bundle = peek(wire, query="?origin=a").headers["restante-bundle-id"]
    answer = wire.get("/v1/recipients/ada/explain").json()
    assert answer["reason"] == "ready"
    assert [(entry["origin"], entry["messages"]) for entry in answer["waiting"]] == [("a", 1), ("b", 1)]
    assert [entry["bundle_id"] for entry in answer["open_bundles"]] == [bundle]
    assert answer["not_yet_visible"] == 0
    assert wire.get("/v1/recipients/bob/explain").json()["reason"] == "recipient_unknown"


def test_recipients_are_listed_by_what_waits_in_pages(wire: Wire) -> None:
    for number, name in enumerate(("ada", "bob", "cy"), start=1):
        wire.publish(*({"recipient": name, "data": 1} for _ in range(number)))
    first = wire.get("/v1/recipients?order=waiting&limit=2")
    assert [entry["recipient"] for entry in first.json()["recipients"]] == ["cy", "bob"]
    assert first.headers["restante-as-of"].endswith("Z")
    second = wire.get(f"/v1/recipients?order=waiting&limit=2&after={first.json()['next']}").json()
    assert ([entry["recipient"] for entry in second["recipients"]], second["next"]) == (["ada"], None)
    oldest = wire.get("/v1/recipients?order=oldest").json()["recipients"]
    assert [entry["recipient"] for entry in oldest] == ["ada", "bob", "cy"]
    assert wire.get("/v1/recipients?order=size").status == 400
    assert wire.get("/v1/recipients?limit=0").status == 400
    assert wire.get("/v1/recipients?limit=1000000").status == 200


def test_history_comes_in_pages_in_both_directions(wire: Wire) -> None:
    wire.publish(*({"recipient": "ada", "data": number} for number in range(1, 6)))
    pages, query = [], "?limit=2"
    while True:
        page = wire.get(f"/v1/recipients/ada/messages{query}")
        pages.append([message["data"] for message in page.json()["messages"]])
        if page.json()["next"] is None:
            assert "restante-next" not in page.headers
            break
        assert page.headers["restante-next"] == str(page.json()["next"])
        query = f"?limit=2&after={page.json()['next']}"
    assert pages == [[1, 2], [3, 4], [5]]
    back = wire.get("/v1/recipients/ada/messages?limit=2&before=5").json()
    assert ([message["data"] for message in back["messages"]], back["next"]) == ([3, 4], 3)
    table = unpacked(wire.get("/v1/recipients/ada/messages", accept="application/vnd.apache.arrow.stream"))
    assert table["sequence_number"].to_pylist() == [1, 2, 3, 4, 5]
    assert wire.get("/v1/recipients/ada/messages?state=lost").status == 400


def test_one_message_is_found_until_it_is_erased(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "id": ID, "data": 1})
    path = f"/v1/recipients/ada/messages/{ID}"
    assert wire.get(path).json()["state"] == "waiting"
    unknown = wire.get(f"/v1/recipients/ada/messages/{uuid.uuid4()}")
    assert (unknown.status, unknown.problem["code"]) == (404, "message_unknown")
    assert wire.get("/v1/recipients/ada/messages/7").status == 404
    assert wire.get("/v1/recipients/ada/messages/%20").status == 400
    assert wire("DELETE", "/v1/recipients/ada?dry_run=true").json() == {"messages": 1}
    assert wire("DELETE", "/v1/recipients/ada?dry_run=maybe").status == 400
    assert wire("DELETE", "/v1/recipients/ada").json() == {"messages": 1}
    gone = wire.get(path)
    assert (gone.status, gone.problem["code"]) == (410, "message_erased")


def test_a_message_is_withdrawn_set_aside_and_released(wire: Wire) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    wire.publish(*({"recipient": "ada", "id": id_, "data": 1} for id_ in ids))
    path = "/v1/recipients/ada/messages"
    assert wire("DELETE", f"{path}/{ids[0]}").status == 204
    assert wire("POST", f"{path}/{ids[1]}/set-aside").status == 204
    aside = wire.get(f"{path}?state=set_aside").json()["messages"]
    assert [message["id"] for message in aside] == [ids[1]]
    bundle = peek(wire)
    assert [message["id"] for message in bundle.json()["messages"]] == [ids[2]]
    held = wire("DELETE", f"{path}/{ids[2]}")
    assert (held.status, held.problem["code"]) == (409, "bundle_open")
    dequeue(wire, bundle.headers["restante-bundle-id"])
    late = wire("DELETE", f"{path}/{ids[2]}")
    assert (late.status, late.problem["code"]) == (409, "message_collected")
    assert wire("POST", f"{path}/{ids[1]}/release").status == 204
    assert [message["id"] for message in peek(wire).json()["messages"]] == [ids[1]]


def test_purge_takes_what_it_is_told(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1, "kind": "a"}, {"recipient": "ada", "data": 1, "kind": "b"})
    path = "/v1/recipients/ada/purge"
    assert wire("POST", path, {"dry_run": True}).json() == {"messages": 2}
    assert wire("POST", path, {"kind": "a"}).json() == {"messages": 1}
    unknown = wire("POST", path, {"colour": "red"})
    assert (unknown.status, unknown.problem["field"]) == (400, "colour")
    assert wire("POST", path, {"origin": 7}).problem["field"] == "origin"
    assert wire("POST", path, {"before": "2026-01-01T00:00:00"}).status == 400
    assert wire("POST", path, b"{").status == 400
    for nothing in (
        {},
        {"all": False},
        {"dry_run": False},
        {"all": True, "kind": "b"},
        {"kind": ""},
        {"origin": "x" * 65},
    ):
        assert wire("POST", path, nothing).problem["code"] == "invalid_request", nothing
    for name in ("origin", "kind", "before", "all", "dry_run"):
        assert wire("POST", path, {"kind": "b", name: None}).problem["field"] == name
    assert wire("POST", path).problem["parameter"] == "all"
    assert wire("POST", path, {"all": True, "dry_run": True}).json() == {"messages": 1}
    assert wire("POST", path, {"all": True}).json() == {"messages": 1}


@pytest.mark.parametrize(
    "query",
    [
        "origin=",
        "origin=%20%09",
        "origin=" + "x" * 65,
        "origin=a&origin=",
        "origin_group=",
        "origin_group=nobody",
        "origin_group=" + "x" * 300,
    ],
)
def test_a_filter_that_no_message_could_match_is_refused(wire: Wire, query: str) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    for route in ("peek", "explain"):
        answer = wire.get(f"/v1/recipients/ada/{route}?{query}")
        assert (answer.status, answer.problem["code"]) == (400, "invalid_request")
        assert answer.problem["parameter"] == query.split("=", maxsplit=1)[0]
    for parameter in (
        "bundle_id=seventeen",
        "bundle_id=",
        "format=",
        "format=" + "x" * 257,
        "max_messages=0",
        "wait=x",
    ):
        answer = wire.get(f"/v1/recipients/ada/peek?{parameter}")
        assert (answer.status, answer.problem["parameter"]) == (400, parameter.split("=")[0])
    assert wire.get("/v1/recipients/ada/peek?origin=other").status == 204
    assert wire.get("/v1/recipients/ada/peek?origin_group=default").status == 200


def test_what_was_withdrawn_or_has_expired_is_settled(wire: Wire) -> None:
    ids = [str(uuid.uuid4()) for _ in range(2)]
    wire.publish(
        {"recipient": "ada", "id": ids[0], "data": 1},
        {"recipient": "ada", "id": ids[1], "data": 1, "expires_at": "2020-01-01T00:00:00Z"},
    )
    path = "/v1/recipients/ada/messages"
    assert wire("DELETE", f"{path}/{ids[0]}").status == 204
    for own, state in zip(ids, ("withdrawn", "expired"), strict=True):
        for verb in ("set-aside", "release"):
            late = wire("POST", f"{path}/{own}/{verb}")
            assert (late.status, late.problem["code"], late.problem["state"]) == (409, "message_settled", state)
        assert wire("DELETE", f"{path}/{own}").status == 204


def test_partitions_tell_how_far_they_have_come(wire: Wire, running: ServedHub) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    home = wire.get("/v1/recipients/ada/partition").json()
    assert home["owner"] == running.url
    status = wire.get(f"/v1/partitions/{home['partition']}").json()
    assert status["partition"] == home["partition"]
    assert (status["visible_sequence"], status["waiting"], status["owner"]) == (1, 1, running.url)
    assert "unfiled" in status
    pages = wire.get("/v1/partitions?limit=10").json()
    rest = wire.get(f"/v1/partitions?limit=10&after={pages['next']}").json()
    assert [entry["partition"] for entry in pages["partitions"] + rest["partitions"]] == list(range(16))
    assert rest["next"] is None
    assert wire.get("/v1/partitions/16").problem["code"] == "partition_unknown"


def test_maintenance_answers_how_much_was_done(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    for work in ("file", "expire", "retain"):
        answer = wire("POST", f"/v1/maintenance/{work}")
        assert (answer.status, list(answer.json())) == (200, ["count"])


class Origin:
    """An origin that delivers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[ContentRequest] = []
        self.fails = False
        self.content = Content(data=b"<xml/>", media_type="application/xml")

    def __call__(self, request: ContentRequest) -> Content:
        self.asked.append(request)
        if self.fails:
            raise Unavailable("not now")
        return self.content


@pytest.fixture
def origin() -> Origin:
    return Origin()


@pytest.fixture
def claiming(tmp_path: Path, origin: Origin) -> Iterator[Wire]:
    settings = Settings(
        origins={"far": OriginSettings(group="pair"), "near": OriginSettings(group="pair")},
        origin_groups={"pair": OriginGroupSettings(strict_order=True)},
    )
    with start(tmp_path / "data", settings, origins={"far": OriginPort(content=origin)}) as running:
        wire = Wire(running.url)
        yield wire
        wire.close()


def test_a_claim_check_bundle_is_the_origins_own_bytes_whatever_is_accepted(claiming: Wire, origin: Origin) -> None:
    claiming.publish({"recipient": "ada", "origin": "far", "weight": 5, "id": ID})
    answer = peek(claiming, query="?format=xml", accept="image/png")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"<xml/>", "application/xml")
    assert answer.headers["restante-message-count"] == "1"
    assert (origin.asked[0].format, origin.asked[0].message_ids) == ("xml", (ID,))
    other = peek(claiming, query="?format=json")
    assert (other.status, other.problem["code"]) == (409, "bundle_open")
    refused = claiming.publish({"recipient": "ada", "origin": "near"})
    assert refused.problem["errors"][0]["field"] == "data"


def test_a_page_that_an_origin_delivers_is_no_page_of_the_hub(claiming: Wire, origin: Origin) -> None:
    origin.content = Content(data=b"<script>fetch('/v1/whoami')</script>", media_type="text/html")
    claiming.publish({"recipient": "ada", "origin": "far", "weight": 5})
    answer = peek(claiming)
    told = {name: answer.headers[name] for name in ("content-type", "content-security-policy", "content-disposition")}
    assert told == {
        "content-type": "text/html",
        "content-security-policy": "sandbox",
        "content-disposition": "attachment",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_origin_that_does_not_deliver_is_the_reason(claiming: Wire, origin: Origin) -> None:
    claiming.publish({"recipient": "ada", "origin": "far", "weight": 5})
    origin.fails = True
    assert peek(claiming).headers["restante-empty-reason"] == "origin_did_not_deliver"
    assert claiming.get("/v1/recipients/ada/explain").json()["reason"] == "origin_did_not_deliver"
    origin.fails = False
    assert peek(claiming).body == b"<xml/>"
    assert origin.asked[0].request_id == origin.asked[1].request_id


def test_a_bundle_open_in_the_group_is_the_reason(claiming: Wire) -> None:
    claiming.publish(
        {"recipient": "ada", "origin": "near", "data": 1}, {"recipient": "ada", "origin": "far", "weight": 1}
    )
    assert peek(claiming, query="?origin=near").status == 200
    assert peek(claiming, query="?origin=far").headers["restante-empty-reason"] == "bundle_open_in_group"


def test_a_large_bundle_is_streamed_whole(wire: Wire) -> None:
    data = [bytes([number % 256]) * 100_000 for number in range(100)]
    table = pa.table({"recipient": ["ada"] * 100, "data": data})
    assert wire("POST", "/v1/messages", arrow_body(table), headers=ARROW).json()["accepted"] == 100
    answer = peek(wire, accept="application/vnd.apache.arrow.stream")
    assert int(answer.headers["content-length"]) == len(answer.body) > 10_000_000
    assert unpacked(answer)["data"].to_pylist() == data


def test_a_bundle_of_any_number_of_document_types_can_be_read(running: ServedHub, wire: Wire) -> None:
    types = [f"{number:04} " + "é" * 50 for number in range(3_000)]
    table = pa.table({"recipient": ["ada"] * 3_000, "data": [b"x"] * 3_000, "document_type": types})
    assert wire("POST", "/v1/messages", arrow_body(table), headers=ARROW).status == 201
    answer = peek(wire)
    header = answer.headers["restante-document-types"]
    assert len(header) <= 1024
    *listed, last = header.split(",")
    assert ([unquote(name) for name in listed], last) == (types[:3], "...")
    assert answer.json()["document_types"] == types
    with restante.connect(running.url) as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        assert bundle.document_types == tuple(types)
        assert dequeue(wire, bundle.bundle_id).status == 200


def test_a_page_of_history_ends_at_64_mib_as_it_is_sent(wire: Wire) -> None:
    count = 50
    table = pa.table({"recipient": ["ada"] * count, "data": [bytes([number]) * 2**20 for number in range(count)]})
    assert wire("POST", "/v1/messages", arrow_body(table), headers=ARROW).status == 201
    after: str | None = "0"
    seen, sizes = [], []
    while after is not None:
        answer = wire.get(f"/v1/recipients/ada/messages?limit=1000&after={after}")
        sizes.append(len(answer.body))
        page = answer.json()
        seen += [message["sequence_number"] for message in page["messages"]]
        after = page["next"]
        assert answer.headers.get("restante-next") == (None if after is None else str(after))
    assert len(seen) == count
    assert seen == sorted(set(seen))
    assert 60 * 2**20 < sizes[0] <= 64 * 2**20
    assert len(sizes) == 2
