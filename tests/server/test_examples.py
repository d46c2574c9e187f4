"""Every example of the OpenAPI document is done against a real hub, and answers what the document says."""

from __future__ import annotations

import base64
import http.client
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import pyarrow as pa
import pytest

from restante.server.app import ROUTES
from restante.server.live.events import EVENTS
from restante.server.openapi.document import document
from restante.server.openapi.examples import CLOCK, examples
from restante.server.openapi.places import BUNDLE_ID, CONSIGNMENT_ID, MEMBER_ID, MESSAGE_ID
from restante.server.serve import ServedHub, start

_DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(ROUTES)))
_OPERATIONS = [operation for methods in _DOCUMENT["paths"].values() for operation in methods.values()]
_EXAMPLES = {example["name"]: (operation, example) for operation in _OPERATIONS for example in operation["x-examples"]}
_PLACE, _DRAFT = "urn:restante", jsonschema_rs.Draft202012
_CORRELATION_ID = "night-run-7"
pytestmark = pytest.mark.xdist_group("examples")
"""In one process: validators are made there once."""
_UNKNOWN_BEFORE = {"owner", "address", "settings", "duration_ms"}
"""What a hub cannot know before: its address, the digest of its settings, and how long things take."""

_OF_HTTP = {"date", "content-type", "content-length", "transfer-encoding"}
"""Headers that need no description."""


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path, clock=lambda: CLOCK) as running:
        yield running


def _ask(url: str, request: dict[str, Any]) -> Answered:
    body = base64.b64decode(request.get("body_base64", ""))
    if "body" in request:
        body = json.dumps(request["body"]).encode()
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        headers = {"Restante-Correlation-Id": _CORRELATION_ID, **request["headers"]}
        connection.request(request["method"], request["target"], body or None, headers)
        answer = connection.getresponse()
        body = b"".join(_first_event(answer)) if answer.headers["content-type"] == EVENTS else answer.read()
        return Answered(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)
    finally:
        connection.close()


def _first_event(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Up to the end of the first event that has data, for events have no end."""
    line = b""
    while not line.startswith(b"data:"):
        line = answer.readline()
        assert line != b""
        yield line


def _valid(schema: dict[str, Any], value: object) -> None:
    _validator(json.dumps(schema)).validate(value)


@cache
def _registry() -> Any:
    """The document, read once for all schemas that refer to its parts."""
    return jsonschema_rs.Registry([(_PLACE, {"components": _DOCUMENT["components"]})], _DRAFT)


@cache
def _validator(schema: str) -> Any:
    """Made once for a schema: to make one takes longer than to ask for an example."""
    placed = json.loads(schema.replace('"#/components', f'"{_PLACE}#/components'))
    return jsonschema_rs.validator_for(placed, validate_formats=True, registry=_registry())


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found: Any = _DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def _with_ids(example: dict[str, Any], made: dict[str, str]) -> dict[str, Any]:
    """The example, with the ids that the hub made instead of those that it shows."""
    text = json.dumps(example)
    for shown, own in made.items():
        text = text.replace(shown, own)
    found: dict[str, Any] = json.loads(text)
    return found


def _done(url: str, name: str) -> tuple[Answered, dict[str, Any]]:
    """The answer to an example, after those before it, and the example as it was done."""
    made: dict[str, str] = {}
    for before in _EXAMPLES[name][1]["after"]:
        answered = _ask(url, _with_ids(_EXAMPLES[before][1], made)["request"])
        assert answered.status < 300, before
        made |= _made_id(before, answered)
    example = _EXAMPLES[name][1]
    answered = _ask(url, _with_ids(example, made)["request"])
    return answered, _with_ids(example, made | _made_id(name, answered))


_MADE = {"openConsignment": (CONSIGNMENT_ID, "id"), "joinGroup": (MEMBER_ID, "member_id")}
"""By the operation: the id that the examples show, and where the answer has the one that the hub made."""


def _made_id(name: str, answered: Answered) -> dict[str, str]:
    """The ids that the hub made for an example, if it has, by those that are shown."""
    if name == "peek-hello":
        bundle = json.loads(answered.body)
        return {BUNDLE_ID: bundle["bundle_id"], MESSAGE_ID: bundle["messages"][0]["id"]}
    shown, field = _MADE.get(_EXAMPLES[name][0]["operationId"], ("", ""))
    return {shown: str(json.loads(answered.body)[field])} if shown and answered.status < 300 else {}


def _known(value: object) -> object:
    """The value, less what cannot be known before."""
    if isinstance(value, dict):
        return {key: None if key in _UNKNOWN_BEFORE else _known(part) for key, part in value.items()}
    return [_known(part) for part in value] if isinstance(value, list) else value


def _check_headers(described: dict[str, Any], answered: Answered) -> None:
    assert answered.headers.keys() - {name.lower() for name in described["headers"]} <= _OF_HTTP
    for name, reference in described["headers"].items():
        header, sent = _resolved(reference), answered.headers.get(name.lower())
        assert sent is not None or not header["required"], f"{name} is missing"
        if sent is not None:
            _valid(header["schema"], int(sent) if header["schema"].get("type") == "integer" else sent)


def _check_body(described: dict[str, Any], answered: Answered) -> object:
    """The body, which is of a described type and shape; JSON as a value."""
    if "content" not in described:
        assert answered.body == b""
        return None
    kind = answered.headers["content-type"].partition(";")[0]
    assert kind in described["content"]
    if kind.endswith("json"):
        value: object = json.loads(answered.body)
        _valid(described["content"][kind]["schema"], value)
        return value
    if kind == "application/vnd.apache.arrow.stream":
        return pa.ipc.open_stream(io.BytesIO(answered.body)).read_all().num_rows
    return answered.body


def test_every_operation_has_examples_and_every_example_is_of_an_operation() -> None:
    assert all(examples().values())
    assert examples().keys() == {operation["operationId"] for operation in _OPERATIONS}


def test_names_of_examples_are_distinct() -> None:
    assert len(_EXAMPLES) == sum(len(operation["x-examples"]) for operation in _OPERATIONS)


def test_every_route_has_an_example() -> None:
    assert [operation["operationId"] for operation in _OPERATIONS if not operation["x-examples"]] == []


@pytest.mark.parametrize("name", _EXAMPLES)
def test_an_example_answers_what_the_document_says(hub: ServedHub, name: str) -> None:
    operation = _EXAMPLES[name][0]
    answered, example = _done(hub.url, name)
    told = example["answer"]
    assert answered.status == told["status"], answered.body
    described = operation["responses"][str(answered.status)]
    _check_headers(described, answered)
    assert answered.headers["restante-correlation-id"] == _CORRELATION_ID
    assert {key: answered.headers.get(key.lower()) for key in told["headers"]} == told["headers"]
    body = _check_body(described, answered)
    if "code" in told:
        assert isinstance(body, dict)
        assert body["code"] == told["code"]
    elif "body" in told:
        assert _known(body) == _known(told["body"])


@pytest.mark.parametrize("name", [name for name in _EXAMPLES if name.endswith("-arrow") and name != "publish-arrow"])
def test_an_arrow_example_has_the_messages_that_were_published(hub: ServedHub, name: str) -> None:
    rows = _check_body(_EXAMPLES[name][0]["responses"]["200"], _done(hub.url, name)[0])
    assert rows == (1 if name == "find-arrow" else 2)


def _documented_values() -> Iterator[tuple[dict[str, Any], object]]:
    """Every value that the document shows, with the schema beside it."""
    for operation in _OPERATIONS:
        for parameter in operation["parameters"]:
            yield parameter["schema"], parameter["example"]
        contents = [operation.get("requestBody", {}), *operation["responses"].values()]
        for content in (content for described in contents for content in described.get("content", {}).values()):
            for example in content.get("examples", {}).values():
                yield content["schema"], example["value"]


def test_every_value_that_the_document_shows_fits_its_schema() -> None:
    shown = list(_documented_values())
    assert len(shown) > 300
    for schema, value in shown:
        _valid(schema, value)
