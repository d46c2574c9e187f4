"""Values just beyond what the document allows are refused, and named."""

from __future__ import annotations

import gzip
import http.client
import re

import msgspec
import pytest

from restante.limits import REQUEST_BYTES_MAX, SEND_BYTES_MAX
from restante.server.openapi.document import SUBJECTS
from restante.server.serve import ServedHub
from restante.wire import media
from tests.server.wire import Wire

_ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
_WITH_BODY = {operation.name: operation for subject in SUBJECTS for operation in subject.operations if operation.bodies}

_WITHOUT_BODY = {
    operation.name: operation
    for subject in SUBJECTS
    for operation in subject.operations
    if operation.method != "GET" and not operation.bodies
}


def _sent(wire: Wire, name: str, content_type: str | None, body: bytes = b"{}") -> tuple[int, str]:
    """The status and the detail of what a route answers to a body of this type."""
    operation = _WITH_BODY[name]
    path = _filled(operation.path)
    query = "?writer=w&attempt=0&parcel=0" if operation.name == "stage" else ""
    headers = {} if content_type is None else {"content-type": content_type}
    answer = wire(operation.method, path + query, body, headers=headers)
    return answer.status, answer.json().get("detail", "")


def _filled(path: str) -> str:
    """The path of a route with something in its places."""
    path = path.replace("{partition}", "0").replace("{recipient}", "ada")
    return re.sub(r"\{\w+\}", _ID, path)


@pytest.mark.parametrize("name", _WITH_BODY)
def test_a_body_of_a_type_that_the_route_does_not_take_is_a_415_that_names_those_it_takes(
    wire: Wire, name: str
) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json-seq"):
        status, detail = _sent(wire, name, content_type)
        assert status == 415
        assert all(body.media_type in detail for body in _WITH_BODY[name].bodies if body.media_type != "*/*")


@pytest.mark.parametrize("name", [name for name, operation in _WITH_BODY.items() if len(operation.bodies) == 1])
def test_json_may_have_parameters_or_say_nothing_of_itself(wire: Wire, name: str) -> None:
    for content_type in (media.JSON, "Application/JSON; charset=UTF-8", "", None):
        assert _sent(wire, name, content_type)[0] not in (415, 500)
    assert _sent(wire, name, "application/json; charset=utf-16")[0] == 415


@pytest.mark.parametrize("name", [name for name, operation in _WITH_BODY.items() if len(operation.bodies) > 1])
def test_messages_must_say_what_type_they_are(wire: Wire, name: str) -> None:
    assert _sent(wire, name, None)[0] == 415


@pytest.mark.parametrize("name", _WITHOUT_BODY)
def test_a_field_sent_to_a_route_without_a_body_is_unknown_and_named(wire: Wire, name: str) -> None:
    operation = _WITHOUT_BODY[name]
    answer = wire(operation.method, _filled(operation.path), {"dry_run": True})
    assert (answer.status, answer.problem["code"], answer.problem["field"]) == (400, "invalid_request", "dry_run")
    # The hub of these tests is open: it has no tokens, and makes and revokes none over HTTP.
    allowed = (403,) if name == "revokeToken" else (200, 204, 404)
    assert wire(operation.method, _filled(operation.path), {}).status in allowed


def test_what_belongs_into_the_query_erases_nothing_when_it_comes_in_the_body(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    assert wire("DELETE", "/v1/recipients/ada", {"dry_run": True}).status == 400
    assert len(wire.get("/v1/recipients/ada/peek").json()["messages"]) == 1


def test_a_page_s_plain_text_purges_no_mailbox(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    assert wire("POST", "/v1/recipients/ada/purge", b"{}", headers={"content-type": "text/plain"}).status == 415
    assert len(wire.get("/v1/recipients/ada/peek").json()["messages"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/recipients/{'a' * 257}/peek",
        f"/v1/recipients/{'a' * 257}/partition",
        "/v1/recipients/%2E/peek",
        "/v1/recipients/../messages",
        "/v1/recipients/a%0Ab/explain",
        "/v1/recipients/a%C2%85/partition",
        "/v1/recipients/a/messages?after=-1",
        "/v1/recipients/a/messages?before=-1",
        "/v1/recipients/a/messages?limit=9223372036854775808",
        "/v1/partitions?after=-1",
        "/v1/recipients?order=",
        f"/v1/recipients?after={'9' * 5_000}",
        "/v1/recipients?after=%D9%A1",
        "/v1/recipients/a/messages/%2E%2E",
        f"/v1/recipients/a/messages/{'a' * 257}",
    ],
)
def test_what_lies_beyond_the_bounds_is_a_400(wire: Wire, path: str) -> None:
    assert wire.get(path).problem["code"] == "invalid_request"


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/recipients/{'a' * 256}/partition",
        "/v1/recipients/a/messages?after=0&before=9223372036854775807&limit=5000",
        "/v1/recipients?order=oldest&after=999999999999999999",
    ],
)
def test_what_lies_just_within_them_is_answered(wire: Wire, path: str) -> None:
    assert wire.get(path).status == 200


def test_a_backup_may_be_asked_for_as_soon_as_the_last_one_has_come(wire: Wire) -> None:
    assert [wire.get("/v1/backup").status for _ in range(20)] == [200] * 20


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_body_without_messages_is_bounded_to_64_kib_chunked_or_packed_too(running: ServedHub, pieces: int) -> None:
    body = msgspec.json.encode({"key": "k" * REQUEST_BYTES_MAX})
    size = len(body) // pieces + 1
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    connection = http.client.HTTPConnection(*Wire(running.url).address, timeout=60)
    connection.request("POST", "/v1/batches", iter(parts), {"content-type": "application/json"})
    assert connection.getresponse().status == 413
    connection.close()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert Wire(running.url)("POST", "/v1/batches", gzip.compress(body), headers=headers).status == 413


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/messages", "/v1/recipients/ada/purge"])
def test_who_sends_a_body_that_is_too_large_to_its_end_gets_the_answer(wire: Wire, path: str) -> None:
    headers = {"content-type": "application/json"}
    answer = wire("POST", path, bytes(SEND_BYTES_MAX + 1), headers=headers)
    assert (answer.status, answer.problem["code"]) == (413, "body_too_large")
    assert answer.headers["connection"] == "close"
    assert wire.get("/livez").status == 200


@pytest.mark.parametrize("query", ["key=", "key=%20", "key=" + "k" * 257, "state=", "state=gone", "after=x", "limit=0"])
@pytest.mark.parametrize("route", ["batches", "consignments"])
def test_lists_take_no_filter_that_nothing_could_match(wire: Wire, route: str, query: str) -> None:
    assert wire.get(f"/v1/{route}?{query}").problem["parameter"] == query.split("=", maxsplit=1)[0]


@pytest.mark.parametrize("header", ["Restante-Accept", "Restante-Batch", "Restante-Source", "Restante-Producer-Group"])
def test_a_header_that_sends_in_one_request_cannot_have_is_refused_and_named(wire: Wire, header: str) -> None:
    problem = wire("POST", "/v1/sends", {"sends": [{"recipient": "ada", "data": 1}]}, headers={header: "1"}).problem
    assert (problem["code"], problem["header"]) == ("invalid_request", header)
    assert wire.get("/v1/recipients/ada/messages").json()["messages"] == []
