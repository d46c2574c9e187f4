"""What was answered is let go of at once: no error keeps a body, a request or a frame until the next search for garbage."""

from __future__ import annotations

import gc
import gzip
import struct
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from websockets.sync.client import connect

import restante
from restante import Message
from restante.errors import RestanteError
from restante.hub.engine.commit_request import CommitRequest
from restante.limits import MIB, SEND_BYTES_MAX
from restante.server.serve import ServedHub
from tests.server.wire import Wire

ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b01"
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
PACKED = {"content-encoding": "gzip", "content-type": "application/json"}
NUMBERS = {"restante-producer-group": "1", "restante-owner-level": "0", "restante-published-sequence": "7"}
NOBODY = {"messages": [{"recipient": ""}]}
FRAMES = (
    '{"number":1,"messages":[{"recipient":""}]}',
    '{"number":2,"messages":3}',
    struct.pack(">I", 12) + b'{"number":3}' + b"x" * 100_000,
    b"",
)


def speak(running: ServedHub, _: Wire) -> None:
    with connect(running.url.replace("http", "ws", 1) + "/v1/publish") as socket:
        for frame in FRAMES:
            socket.send(frame)
            assert "problem" in socket.recv()


def call(running: ServedHub, _: Wire) -> None:
    with restante.connect(running.url) as hub, hub.producer.pipeline() as pipeline:
        for attempt in (
            lambda: hub.producer.send(Message(recipient="")),
            lambda: hub.producer.send(pa.table({"recipient": [""] * 1_000})),
            lambda: pipeline.send(Message(recipient="")).result(),
            lambda: hub.recipient("ada").find(ID),
            lambda: hub.recipient("ada").peek(max_messages=0, wait=25),
            lambda: hub.consignment("key").stage("writer", 0, pa.table({"recipient": [""] * 1_000})),
        ):
            with pytest.raises(RestanteError):
                attempt()


REFUSED: dict[str, Callable[[ServedHub, Wire], object]] = {
    "packed": lambda _, wire: wire("POST", "/v1/messages", gzip.compress(bytes(SEND_BYTES_MAX + 1), 1), headers=PACKED),
    "few": lambda _, wire: wire("POST", "/v1/messages", NOBODY),
    "many": lambda _, wire: wire("POST", "/v1/messages", {"messages": [{"recipient": "", "data": "x" * 99}] * 999}),
    "arrow": lambda _, wire: wire("POST", "/v1/messages", b"x" * MIB, headers=ARROW),
    "numbers": lambda _, wire: wire("POST", "/v1/partitions/0/parcels", NOBODY, headers=NUMBERS),
    "batch": lambda _, wire: wire("POST", "/v1/messages", NOBODY, headers={"restante-batch": ID}),
    "consignment": lambda _, wire: wire("POST", f"/v1/consignments/{ID}/parcels?writer=a&attempt=0&parcel=0", NOBODY),
    "dequeue": lambda _, wire: wire("DELETE", f"/v1/recipients/ada/bundles/{ID}"),
    "peek": lambda _, wire: wire.get("/v1/recipients/ada/peek?max_messages=0&wait=1"),
    "history": lambda _, wire: wire.get("/v1/recipients/ada/messages?limit=0"),
    "items": lambda _, wire: wire("POST", f"/v1/batches/{ID}/items", {"count": 3}),
    "frames": speak,
    "client": call,
}


def conflict(_: ServedHub, wire: Wire) -> None:
    for text in ("first", "second"):
        wire("POST", "/v1/messages", {"messages": [{"recipient": "ada", "id": "one", "data": text}] + [LETTER] * 999})


LETTER = {"recipient": "ada", "data": 1}
STORED: dict[str, Callable[[ServedHub, Wire], object]] = {
    "stored few": lambda _, wire: wire.publish(LETTER),
    "stored many": lambda _, wire: wire("POST", "/v1/messages", {"messages": [LETTER] * 999}),
    "conflict of many": conflict,
    "sends": lambda _, wire: wire("POST", "/v1/sends", {"sends": [LETTER, LETTER, {"recipient": ""}]}),
    "action": lambda _, wire: wire("POST", "/v1/actions/bill", {"concerns": "7"}),
    "actions": lambda _, wire: wire("POST", "/v1/actions", {"actions": [{"action": "bill", "concerns": "7"}]}),
    "wrong action": lambda _, wire: wire("POST", "/v1/actions/bill", {"concerns": ""}),
    "acknowledgement": lambda _, wire: wire("POST", "/v1/acknowledgements", {"items": [f"{ID}:0:1"]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_refused_is_no_garbage(running: ServedHub, wire: Wire, name: str) -> None:
    with garbage() as found:
        REFUSED[name](running, wire)
        assert wire.publish({"recipient": "good", "data": 1}).status == 201
    assert found == []


@pytest.mark.parametrize("name", STORED)
def test_what_was_answered_is_no_garbage(running: ServedHub, wire: Wire, name: str) -> None:
    STORED[name](running, wire)
    with garbage() as found:
        STORED[name](running, wire)
    assert found == []


@contextmanager
def garbage() -> Iterator[list[str]]:
    """Errors and requests of this package that only a search for garbage finds, after what is done inside."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += filter(None, [_trace(left) for left in gc.garbage if issubclass(type(left), BaseException)])
        found += [repr(left) for left in gc.garbage if issubclass(type(left), CommitRequest | Message)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _trace(error: BaseException) -> str:
    lines = traceback.format_tb(error.__traceback__)
    return "".join([*lines, repr(error)]) if any("restante" in line for line in lines) else ""
