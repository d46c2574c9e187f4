"""Damaged Arrow at every door, thousands of bodies: the process lives, each is answered, and memory stays level."""

from __future__ import annotations

import asyncio
import json
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from tests.crash.served import Served
from tests.server.damaging import damaged_stream
from tests.server.mutating import Case, Ending
from tests.server.test_fuzz import (
    ANSWER_SECONDS,
    BINARY,
    HANDSHAKE,
    IMPATIENT,
    PING,
    Client,
    at_length,
    frame,
    work_off,
)
from tests.server.wire import Wire

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at the process through /proc")

T = TypeVar("T")

BODIES, BODIES_LONG = 400, 100_000
SENDS, SENDS_LONG = 500, 20_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data", partition_count=4, **IMPATIENT) as process:
        yield process


@at_length
def test_no_damaged_arrow_ends_the_hub_or_grows_it(served: Served, long: bool) -> None:
    seen: Counter[str] = Counter()
    doors = Doors(served)

    async def judge(client: Client, number: int) -> None:
        door, answer = await doors.knock(client, number)
        seen[f"{door} {answer}"] += 1

    work_off(served, BODIES_LONG if long else BODIES, judge)
    for door in ("messages", "parcels", "consignment", "socket"):
        assert seen[f"{door} accepted"], seen
        assert seen[f"{door} refused"], seen


@at_length
def test_no_damaged_table_ends_the_process_that_sends_it(tmp_path: Path, long: bool) -> None:
    count = SENDS_LONG if long else SENDS
    asked = [sys.executable, "-m", "tests.server.damaged_sends", str(tmp_path / "data"), str(count)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # our own
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    assert told["accepted"] > 0
    assert told["refused"] > 0


class Doors:
    """Where a stranger's Arrow comes in."""

    def __init__(self, served: Served) -> None:
        wire = Wire(served.url)
        self._consignment: str = wire("POST", "/v1/consignments", {"key": "fuzz"}).json()["id"]
        self._address = wire.address
        self._host = "{}:{}".format(*wire.address).encode()
        wire.close()

    async def knock(self, client: Client, number: int) -> tuple[str, str]:
        """Send one damaged stream; gives where, and whether it was accepted."""
        body, generator = damaged_stream(number), random.Random(-number)
        door = generator.choice(["messages", "messages", "parcels", "consignment", "socket"])
        if door == "socket":
            return door, await _in_time(self._speak(number, body), number)
        sent = self._request(door, number, body)
        tried = Case(number, door, sent, Ending.WAITS, one=True)
        answer = await _in_time(client.ask(tried), number)
        assert 200 <= answer.status < 500, f"{number} {door} {answer}"
        if answer.status < 400:
            assert answer.status == 201
            return door, "accepted"
        problem = json.loads(answer.body)
        assert problem["status"] == answer.status, f"{number} {problem}"
        assert problem["code"] not in ("internal", "unavailable"), f"{number} {problem}"
        assert len(answer.body) < 100_000, f"{number}: no more of a body is said back than it takes"
        return door, "refused"

    def _request(self, door: str, number: int, body: bytes) -> bytes:
        path = {
            "messages": b"/v1/messages",
            "parcels": b"/v1/partitions/%d/parcels" % (number % 4),
            "consignment": b"/v1/consignments/%s/parcels?writer=w%d&attempt=0&parcel=%d"
            % (self._consignment.encode(), number % 100, number),
        }[door]
        head = b"POST %s HTTP/1.1\r\nhost: %s\r\ncontent-type: application/vnd.apache.arrow.stream\r\ncontent-length: %d\r\n\r\n"
        return head % (path, self._host, len(body)) + body

    async def _speak(self, number: int, body: bytes) -> str:
        header = msgspec.json.encode({"number": number})
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(HANDSHAKE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frame(BINARY, struct.pack(">I", len(header)) + header + body))
            answer = json.loads(await text_of(reader))
        finally:
            writer.transport.abort()
        assert answer["number"] == number, answer
        assert answer.get("problem", {}).get("code") not in ("internal", "unavailable"), f"{number} {answer}"
        return "refused" if "problem" in answer else "accepted"


async def text_of(reader: asyncio.StreamReader) -> bytes:
    """The next text that the hub sends; pings are passed over."""
    while True:
        first, length = await reader.readexactly(2)
        if length == 126:
            (length,) = struct.unpack(">H", await reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", await reader.readexactly(8))
        payload = await reader.readexactly(length)
        if first & 0x0F != PING:
            return payload


async def _in_time(answer: Awaitable[T], number: int) -> T:
    try:
        return await asyncio.wait_for(answer, ANSWER_SECONDS)
    except TimeoutError:
        raise AssertionError(f"hung: {number}") from None
