"""The AsyncAPI document tells of every web socket and every frame, and real conversations say nothing else."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from restante.model.access.access import Role
from restante.model.producers.producer import ProducerNumbers
from restante.server.app import SOCKETS
from restante.server.asyncapi.document import CHANNELS, document
from restante.server.live.socket_line import CLOSE_CODES
from restante.server.route_table import Route
from restante.server.serve import ServedHub, start
from restante.settings import OriginGroupSettings, Settings
from restante.wire import live as frames
from restante.wire.frames import FrameHeader, decode_frame
from tests.server.live import Talk, live, live_url
from tests.server.wire import Wire

_DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(SOCKETS)))
_MESSAGES: dict[str, dict[str, Any]] = _DOCUMENT["components"]["messages"]
_ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"


@pytest.fixture
def chatting(tmp_path: Path) -> Iterator[ServedHub]:
    settings = Settings(origin_groups={"chat": OriginGroupSettings(live_collect=True)})
    with start(tmp_path / "data", settings) as running:
        yield running


def _leads_to(reference: str) -> Any:
    found: Any = _DOCUMENT
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def _whole(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        part = _leads_to(part["$ref"])
    return part


def _said_by(action: str) -> dict[str, dict[str, Any]]:
    """The frames of live delivery that the hub says (`send`), answers included, or hears (`receive`)."""
    found = {}
    for operation in _DOCUMENT["operations"].values():
        if operation["channel"] != {"$ref": "#/channels/live"}:
            continue
        own = operation["messages"] if operation["action"] == action else []
        answers = operation["reply"]["messages"] if action == "send" and "reply" in operation else []
        for reference in (*own, *answers):
            message = _whole(reference)
            found[message["name"]] = message
    return found


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object, those of what it is made of included."""
    schema = _whole(schema)
    parts = [_fields(part) for part in schema.get("allOf", ())]
    return {name: field for part in (*parts, schema.get("properties", {})) for name, field in part.items()}


def _type_of(message: dict[str, Any]) -> str:
    (found,) = _fields(message["payload"])["type"]["enum"]
    return str(found)


def _check(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """It has the shape, and no field besides."""
    whole = {**schema, "components": _DOCUMENT["components"]}
    jsonschema_rs.Draft7Validator(whole, validate_formats=True).validate(value)
    assert value.keys() <= _fields(schema).keys()


# The document


def test_the_document_is_served_to_everybody(running: ServedHub) -> None:
    with urllib.request.urlopen(f"{running.url}/asyncapi.json", timeout=30) as answer:
        assert answer.headers["content-type"] == "application/json"
        assert json.load(answer) == _DOCUMENT
    with urllib.request.urlopen(f"{running.url}/docs", timeout=30) as page:
        assert b'href="/asyncapi.json"' in page.read()


def test_the_document_is_asyncapi_3() -> None:
    assert _DOCUMENT["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= _DOCUMENT["info"].keys()
    assert _DOCUMENT.keys() <= {
        *("asyncapi", "info", "defaultContentType", "servers", "channels", "operations", "components")
    }
    (server,) = _DOCUMENT["servers"].values()
    assert set(re.findall(r"{(\w+)}", server["host"])) == server["variables"].keys()
    for channel in _DOCUMENT["channels"].values():
        named = set(re.findall(r"{(\w+)}", channel["address"]))
        assert named == channel.get("parameters", {}).keys()
        assert channel["bindings"]["ws"].keys() <= {"method", "query", "headers", "bindingVersion"}
    for message in _MESSAGES.values():
        assert {"name", "summary", "contentType", "payload"} <= message.keys()
    for schema in (*_DOCUMENT["components"]["schemas"].values(), *(one["payload"] for one in _MESSAGES.values())):
        assert jsonschema_rs.meta.is_valid({"$schema": "http://json-schema.org/draft-07/schema#", **schema})


def test_operations_speak_of_frames_of_their_own_channel_and_every_frame_is_said_by_somebody() -> None:
    spoken = set()
    for operation in _DOCUMENT["operations"].values():
        assert operation["action"] in {"send", "receive"}
        prefix = f"{operation['channel']['$ref']}/messages/"
        for reference in (*operation["messages"], *operation.get("reply", {"messages": ()})["messages"]):
            assert reference["$ref"].startswith(prefix)
            spoken.add(_whole(reference)["name"])
    assert spoken == _MESSAGES.keys()


def test_every_reference_leads_somewhere() -> None:
    references = set(re.findall(r'"\$ref": "(#/[^"]+)"', json.dumps(_DOCUMENT)))
    assert len(references) > 20
    for reference in references:
        assert _leads_to(reference) is not None


def test_every_socket_is_described_and_nothing_else() -> None:
    assert {channel.path for channel in CHANNELS} == {socket.path for socket in SOCKETS}
    assert {channel["address"] for channel in _DOCUMENT["channels"].values()} == {socket.path for socket in SOCKETS}


@pytest.mark.parametrize("socket", SOCKETS, ids=lambda socket: socket.path)
def test_query_and_roles_are_those_of_the_table(socket: Route) -> None:
    (channel,) = (one for one in _DOCUMENT["channels"].values() if one["address"] == socket.path)
    query = channel["bindings"]["ws"].get("query", {"properties": {}})
    assert query["properties"].keys() == socket.query
    assert socket.roles is not None
    assert channel["x-roles"] == sorted(role.value for role in socket.roles | {Role.OPERATOR})


def test_every_frame_of_the_code_is_described_and_no_other() -> None:
    tagged = [
        struct
        for name, struct in vars(frames).items()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct) and not name.startswith("_")
    ]
    tags = [(struct.__struct_config__.tag, struct) for struct in tagged if struct.__struct_config__.tag is not None]
    heard = {tag for tag, struct in tags if struct in {frames.LiveSend, frames.Collect}}
    said = {tag for tag, struct in tags if struct not in {frames.LiveSend, frames.Collect}}
    assert {_type_of(message) for message in _said_by("receive").values()} == heard
    assert {_type_of(message) for message in _said_by("send").values()} == said | {"problem"}


def test_every_reason_to_disconnect_has_its_close_code() -> None:
    reasons = _fields(_MESSAGES["disconnect"]["payload"])["reason"]["enum"]
    codes = _DOCUMENT["channels"]["live"]["x-close-codes"]
    assert codes == CLOSE_CODES
    assert set(reasons) == codes.keys()


# Examples


def _examples(names: set[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, example["payload"]) for name in sorted(names) for example in _MESSAGES[name]["examples"]]


@pytest.mark.parametrize(("name", "example"), _examples(set(_said_by("send"))))
def test_an_example_of_what_the_hub_says_is_understood_by_the_client(name: str, example: dict[str, Any]) -> None:
    _check(_MESSAGES[name]["payload"], example)
    found = frames.decode_hub_frame(json.dumps(example))
    assert found is not None
    if not isinstance(found, msgspec.Struct):
        assert found == example


@pytest.mark.parametrize(("name", "example"), _examples(set(_said_by("receive"))))
def test_an_example_of_what_a_client_says_is_understood_by_the_hub(name: str, example: dict[str, Any]) -> None:
    _check(_MESSAGES[name]["payload"], example)
    found = frames.decode_client_frame(json.dumps(example))
    if isinstance(found, frames.LiveSend):
        assert found.decoded().recipient == example["message"]["recipient"]


def test_a_parcel_has_the_fields_of_the_code() -> None:
    fields = _fields(_MESSAGES["parcel"]["payload"])
    assert fields.keys() - {"messages"} == {field.encode_name for field in msgspec.structs.fields(FrameHeader)}
    assert _fields(fields["producer"]).keys() == {field.name for field in msgspec.structs.fields(ProducerNumbers)}


def test_examples_of_the_pipelined_link_are_right() -> None:
    (parcel,) = _MESSAGES["parcel"]["examples"]
    messages = decode_frame(json.dumps(parcel["payload"])).messages()
    assert isinstance(messages, Sequence)
    assert [message.recipient for message in messages] == ["alice"]
    for name in ("parcel", "receipt", "refusal"):
        for example in _MESSAGES[name]["examples"]:
            _check(_MESSAGES[name]["payload"], example["payload"])


# Real conversations


class _Checked:
    """Whatever the hub says over this connection is held against the document."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._by_type = {_type_of(message): message["payload"] for message in _said_by("send").values()}
        self.seen: set[str] = set()

    def say(self, **frame: object) -> None:
        self._talk.say(**frame)

    def frame(self) -> dict[str, Any]:
        found = self._talk.frame()
        _check(self._by_type[found["type"]], found)
        self.seen.add(found["type"])
        return found


def test_every_frame_of_a_real_conversation_is_as_described(chatting: ServedHub) -> None:
    wire = Wire(chatting.url)
    odd = {"recipient": "ada", "origin": "chat", "data_base64": "AAEC", "expires_at": "2100-01-02T03:04:05Z"}
    wire.publish({"recipient": "ada", "origin": "chat", "id": _ID, "data": {"ö": [1]}, "properties": {"p": "q"}}, odd)
    with (
        connect(live_url(chatting, "ada", client="phone", after=0), compression=None) as own,
        live(chatting, "ada") as second,
    ):
        ada, other = _Checked(Talk(own)), _Checked(second)
        assert [ada.frame()["type"] for _ in range(3)] == ["connected", "message", "message"]
        ada.say(type="send", request=1, message={"recipient": "bob", "id": _ID, "data": 1})
        assert [ada.frame()["type"] for _ in range(2)] == ["sent", "status"]
        assert {other.frame()["type"] for _ in range(2)} == {"echo", "status"}
        ada.say(type="send", request=2, message={"recipient": "bob", "id": _ID, "data": 2})
        assert [ada.frame()["type"] for _ in range(2)] == ["sent", "status"]
        ada.say(type="send", request=3, message={"recipient": " "})
        assert ada.frame()["type"] == "problem"
        ada.say(type="collected", sequence_number=99)
        assert ada.frame()["type"] == "collected"
        ada.say(type="dance")
        assert ada.frame()["reason"] == "protocol_error"
        with pytest.raises(ConnectionClosed) as closed:
            ada.frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == CLOSE_CODES["protocol_error"]
    assert ada.seen | other.seen == {_type_of(message) for message in _said_by("send").values()}
    wire.close()


def test_answers_over_the_pipelined_link_are_as_described(running: ServedHub) -> None:
    said = [{"number": 7, "messages": [{"recipient": recipient, "data": 1}]} for recipient in ("ada", " ")]
    with connect(f"{running.url.replace('http', 'ws')}/v1/publish") as own:
        for name, frame in (("receipt", said[0]), ("refusal", said[1]), ("refusal", "nonsense")):
            own.send(json.dumps(frame))
            _check(_MESSAGES[name]["payload"], json.loads(own.recv(20)))
