"""The origins of what a publisher sends: looked at only once the message rules have passed them, by every door."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc
from websockets.sync.client import ClientConnection, connect

from restante.calls.publishing import Publish
from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import FAULTS_SHOWN_MAX, MIB, ORIGIN_CHARACTERS_MAX
from restante.model.access.access import Role
from restante.model.publishing.message import HUB_ORIGIN, Message
from restante.model.storage.partition import partition_of
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from tests.server.live import live
from tests.server.wire import Wire

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
HOME = partition_of("ada", 16)
LENGTHS = (37, 41)
"""Of two origins: their offsets are found among all bytes of a stream."""
UNPACKED_ROWS, UNPACKED_CHARACTERS = 100_000, 1_900

Status = tuple[int, str]


@dataclass(frozen=True)
class Bound:
    """A hub, and a publisher of the origin `own` at its doors."""

    running: ServedHub
    wire: Wire
    frames: ClientConnection
    secret: str

    def doors(self) -> dict[str, Callable[[bytes], dict[str, Any]]]:
        consignment = self.wire("POST", "/v1/consignments", {"key": "night"}).json()["id"]
        return {
            "messages": lambda body: self.posted("/v1/messages", body),
            "parcels": lambda body: self.posted(f"/v1/partitions/{HOME}/parcels", body),
            "staging": lambda body: self.posted(
                f"/v1/consignments/{consignment}/parcels?writer=w&attempt=0&parcel=0", body
            ),
            "frames": self.framed,
        }

    def posted(self, path: str, body: bytes) -> dict[str, Any]:
        problem: dict[str, Any] = self.wire("POST", path, body, headers=ARROW).problem
        return problem

    def framed(self, body: bytes) -> dict[str, Any]:
        head = json.dumps({"number": 1}).encode()
        self.frames.send(struct.pack(">I", len(head)) + head + body)
        problem: dict[str, Any] = json.loads(self.frames.recv(timeout=30))["problem"]
        return problem


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bound]:
    folder: Path = tmp_path_factory.mktemp("bound") / "data"
    folder.mkdir()
    secret = TokenFile(folder / "tokens.json").create(
        roles=[Role.PUBLISHER, Role.RECIPIENT], origins=["own"], recipients=["ada"]
    )
    with start(folder) as running:
        url, wire = running.url.replace("http", "ws") + "/v1/publish", Wire(running.url, token=secret)
        with connect(url, additional_headers={"Authorization": f"Bearer {secret}"}) as frames:
            yield Bound(running, wire, frames, secret)
        wire.close()


def stream(origin: Any, *, data: bytes = b"1", compression: Any = None) -> bytes:
    rows = len(origin)
    columns = {"recipient": pa.array(["ada"] * rows), "data": pa.array([data] * rows), "origin": origin}
    return written(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), compression)


def written(batch: pa.RecordBatch, compression: Any = None) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def with_offsets(first: int, second: int, *, data: bytes = b"1") -> bytes:
    """Two origins whose ends lie elsewhere than where they were written."""
    body = stream(pa.array(["a" * LENGTHS[0], "b" * LENGTHS[1]]), data=data)
    place = struct.pack("<3i", 0, LENGTHS[0], sum(LENGTHS))
    assert body.count(place) == 1
    return body.replace(place, struct.pack("<3i", 0, first, second))


def no_utf8() -> bytes:
    return stream(pa.array(["x" * 9])).replace(b"x" * 9, b"\xff\xfe" + b"x" * 7)


def twice() -> bytes:
    origin = pa.array(["own"])
    columns: list[Any] = [pa.array(["ada"]), pa.array([b"1"]), origin, origin]
    return written(pa.RecordBatch.from_arrays(columns, names=["recipient", "data", "origin", "origin"]))


def run_ends() -> bytes:
    return stream(pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["own"])))


def large_dictionary() -> bytes:
    indices = pa.array([0] * UNPACKED_ROWS, pa.int8())
    origin = pa.DictionaryArray.from_arrays(indices, pa.array(["o" * UNPACKED_CHARACTERS]))
    columns = {"recipient": pa.DictionaryArray.from_arrays(indices, pa.array(["ada"])), "origin": origin}
    return written(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), "zstd")


REFUSED: dict[str, tuple[bytes, Status]] = {
    "offsets far outside": (with_offsets(2**30, 2**30 + 5), (400, "invalid_request")),
    "offsets a little outside": (with_offsets(50, 4_000), (400, "invalid_request")),
    "offsets before the beginning": (with_offsets(-(2**30), 20), (400, "invalid_request")),
    "offsets outside, in a large body": (with_offsets(50, 4_000, data=b"1" * 40_000), (400, "invalid_request")),
    "no UTF-8": (no_utf8(), (400, "invalid_message")),
    "the column twice": (twice(), (400, "invalid_request")),
    "run-end encoded": (run_ends(), (400, "invalid_request")),
    "a list": (stream(pa.array([["own"]])), (400, "invalid_request")),
    "numbers": (stream(pa.array([1])), (400, "invalid_request")),
    "a dictionary of numbers": (stream(pa.array([1]).dictionary_encode()), (400, "invalid_request")),
    "a dictionary with an index outside": (
        stream(pa.DictionaryArray.from_arrays(pa.array([9]), pa.array(["own"]), safe=False)),
        (400, "invalid_request"),
    ),
    "another's": (stream(pa.array(["own", "other"])), (403, "forbidden")),
    "another's in a dictionary": (stream(pa.array(["own", "other"]).dictionary_encode()), (403, "forbidden")),
    "another's in views": (stream(pa.array(["other"], pa.string_view())), (403, "forbidden")),
    "none, which means the default one": (stream(pa.array([None], pa.string())), (403, "forbidden")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_origin_column_of_any_kind_is_refused_by_every_door(bound: Bound, name: str) -> None:
    body, expected = REFUSED[name]
    for door, send in bound.doors().items():
        problem = send(body)
        assert (door, problem["status"], problem["code"]) == (door, *expected)
        assert len(problem["detail"]) < 400
    assert bound.wire.get("/v1/recipients/ada/messages").json()["messages"] == []


def test_a_dictionary_is_not_spelt_out_to_look_at_its_origins(bound: Bound) -> None:
    body, pool = large_dictionary(), pa.default_memory_pool()
    assert len(body) < 8_192
    before = pool.max_memory() or 0
    problem = bound.posted("/v1/messages", body)
    assert (problem["status"], problem["code"]) == (400, "invalid_message")
    assert (pool.max_memory() or 0) - before < UNPACKED_ROWS * UNPACKED_CHARACTERS / 2 < 100 * MIB


@pytest.mark.parametrize("count", [1, 200], ids=["few", "many"])
def test_messages_as_json_are_refused_for_their_origins_too(bound: Bound, count: int) -> None:
    message = {"recipient": "ada", "data": 1, "origin": "own"}
    strange = "\x7f\N{ZERO WIDTH SPACE}x"
    answer = bound.wire.publish(*[message] * count, message | {"origin": strange})
    assert answer.status in (400, 403)
    assert strange not in answer.body.decode()
    problem = bound.wire.publish(*[message] * count, message | {"origin": "o" * ORIGIN_CHARACTERS_MAX}).problem
    assert (problem["status"], problem["origin"]) == (403, "o" * ORIGIN_CHARACTERS_MAX)
    assert bound.wire.publish(*[message] * count, message | {"origin": "o" * 65}).status == 400


def test_a_live_connection_sends_for_its_origins_only(bound: Bound) -> None:
    with live(bound.running, "ada", token=bound.secret) as ada:
        ada.say(type="send", request=1, message={"recipient": "bob", "data": 1, "origin": "other"})
        problem = ada.until("problem")
        assert (problem["request"], problem["code"], problem["origin"]) == (1, "forbidden", "other")
        ada.say(type="send", request=2, message={"recipient": "bob", "data": 1, "origin": "own"})
        assert ada.until("status")["status"] == "processed"


@pytest.mark.parametrize("count", [1, 200], ids=["few", "many"])
def test_nobody_publishes_for_the_origin_of_the_hub(tmp_path: Path, count: int) -> None:
    messages = [{"recipient": "ada", "data": 1, "origin": HUB_ORIGIN}] * count
    table: dict[str, list[Any]] = {"recipient": ["ada"] * count, "data": [b"1"] * count, "origin": [HUB_ORIGIN] * count}
    event = {"specversion": "1.0", "id": "1", "source": HUB_ORIGIN, "type": "t", "recipient": "ada", "data": 1}
    with start(tmp_path / "data") as running:
        wire, event_batch = Wire(running.url), {"content-type": "application/cloudevents-batch+json"}
        answers = [
            wire("POST", "/v1/messages", {"messages": messages}),
            wire("POST", "/v1/messages", json.dumps([event] * count).encode(), headers=event_batch),
            wire("POST", "/v1/messages", written(pa.RecordBatch.from_pydict(table)), headers=ARROW),
        ]
        for problem in (answer.problem for answer in answers):
            assert (problem["code"], len(problem["errors"])) == ("invalid_message", min(count, FAULTS_SHOWN_MAX))
            assert (problem["errors"][0]["field"], "the hub's own" in problem["errors"][0]["detail"]) == (
                "origin",
                True,
            )
        with live(running, "ada") as ada:
            ada.say(type="send", request=1, message={"recipient": "bob", "data": 1, "origin": HUB_ORIGIN})
            assert ada.until("problem")["code"] == "invalid_message"
        with pytest.raises(InvalidMessage, match="the hub's own"):
            running.desk.hub.call(Publish.of([Message(recipient="ada", data=1, origin=HUB_ORIGIN)] * count))
        wire.close()


def test_a_notice_is_still_the_hubs_own_message(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        wire = Wire(running.url)
        batch = wire("POST", "/v1/batches", {"key": "night", "notify": "ada"}).json()["id"]
        wire("POST", f"/v1/batches/{batch}/seal")
        (message,) = wire.came("ada")["messages"]
        assert (message["origin"], message["data"]["id"], message["data"]["key"]) == (HUB_ORIGIN, batch, "night")
        wire.close()


def test_no_token_is_bound_to_the_origin_of_the_hub(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="the hub's own"):
        TokenFile(tmp_path / "tokens.json").create(roles=[Role.PUBLISHER], origins=["own", HUB_ORIGIN])
