"""Spoilt requests and frames, thousands of them: each is answered or closed, none is a defect, nothing leaks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from restante.limits import MIB
from tests.crash.served import Served
from tests.server.mutating import Case, Ending, arrow_stream, case, spoilt_bytes
from tests.server.wire import Wire
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at the process through /proc")

REQUESTS, REQUESTS_LONG = 2_000, 100_000
SOCKETS, SOCKETS_LONG = 300, 10_000
CONNECTIONS = 16
ANSWER_SECONDS = 10
"""The hub works off what a client has sent before it let go: thousands of publishes."""
WARM_UP = 0.25
"""So much of the work is done before memory is first looked at."""
GROWTH_BYTES_MAX = 96 * MIB
STORED_BYTES = 96
"""A message that was stored may add so much to that: its identity, and what the merging of runs leaves to the allocator."""
THREADS_MAX = 64
NOT_NOW = (b'"checks"', b"A backup of this hub is under way already.")
"""What a hub may say that is well: a word on its health, true on a busy machine, and that there is one backup at a time."""
IN_FLIGHT = ("restante_publishes_in_flight", "restante_publish_in_flight_bytes", "restante_reads_in_flight")
ACCEPTED = "restante_messages_accepted_total"
IMPATIENT: dict[str, object] = {
    "server__header_seconds": 1,
    "server__body_idle_seconds": 1,
    "server__answer_idle_seconds": 2,
}

at_length = pytest.mark.parametrize(
    "long",
    [
        False,
        pytest.param(
            True,
            marks=[pytest.mark.long, pytest.mark.skipif("RESTANTE_LONG" not in os.environ, reason="takes minutes")],
        ),
    ],
    ids=["short", "long"],
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data", partition_count=4, **IMPATIENT) as process:
        yield process


class Answer(NamedTuple):
    """Status 0: the connection was closed instead."""

    status: int
    body: bytes = b""
    last: bool = True
    """Nothing more comes on this connection."""


@at_length
def test_no_spoilt_request_is_a_defect_hangs_or_leaks(served: Served, long: bool) -> None:
    seen: Counter[int] = Counter()

    async def judge(client: Client, number: int) -> None:
        tried = case(number)
        try:
            answer = await asyncio.wait_for(client.ask(tried), ANSWER_SECONDS)
        except TimeoutError:
            raise AssertionError(f"hung: {tried} {tried.sent[:2_000]!r}") from None
        seen[answer.status] += 1
        if answer.status == 503 and any(reason in answer.body for reason in NOT_NOW):
            return
        assert answer.status < 500, f"{tried} {answer} {tried.sent[:2_000]!r}"
        if answer.status >= 400 and not tried.heads_only:
            assert "code" in json.loads(answer.body), f"{tried} {answer}"

    work_off(served, REQUESTS_LONG if long else REQUESTS, judge)
    for status in (0, 200, 201, 204, 400, 404, 405, 409):
        assert seen[status], f"never {status}: {seen}"


@at_length
def test_no_spoilt_frame_of_the_publish_link_is_a_defect_hangs_or_leaks(served: Served, long: bool) -> None:
    seen: Counter[str] = Counter()

    async def judge(client: Client, number: int) -> None:
        sent = frames(random.Random(number))
        try:
            got = await asyncio.wait_for(client.talk(sent), ANSWER_SECONDS)
        except TimeoutError:
            raise AssertionError(f"hung: {number} {sent[:2_000]!r}") from None
        assert b'"internal"' not in got, f"{number} {got!r} {sent[:2_000]!r}"
        assert not got.startswith(b"HTTP/1.1 5"), f"{number} {got!r}"
        seen.update(word for word in ("accepted", "problem", "101 ") if word.encode() in got)

    work_off(served, SOCKETS_LONG if long else SOCKETS, judge)
    assert all(seen[word] for word in ("accepted", "problem", "101 ")), seen


def test_a_client_of_the_publish_link_that_reads_no_answers_is_not_read_from_and_let_go(served: Served) -> None:
    check_good(served)
    sockets, before = sockets_of(served), status_of(served, "VmRSS")
    address = urlsplit(served.url)
    many = b"".join(frame(*text_frame(random.Random(number), number)) for number in range(200))
    with socket.create_connection((address.hostname or "", address.port or 0), ANSWER_SECONDS) as client:
        client.sendall(HANDSHAKE)
        with pytest.raises(ConnectionError):
            client.sendall(many * 1_000)
    check_idle(served, sockets)
    assert (status_of(served, "VmRSS") - before) * 1024 < GROWTH_BYTES_MAX
    assert served.end() == 0


def test_a_hub_ends_well_when_a_client_has_left_while_its_requests_wait(served: Served) -> None:
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname or "", address.port or 0), ANSWER_SECONDS) as client:
        client.sendall(b"GET /v1/recipients/ada/peek?wait=20 HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3)
    check_good(served)
    assert served.end() == 0
    served.check_log()


# How it is done


def work_off(served: Served, count: int, judge: Callable[[Client, int], Awaitable[None]]) -> None:
    """All cases by a few connections at once; then the hub must be as it was."""
    check_good(served)
    sockets = sockets_of(served)
    warm = round(count * WARM_UP)
    asyncio.run(_shared(served, range(warm), judge))
    check_idle(served, sockets)
    before, stored = status_of(served, "VmRSS"), messages_of(served)
    asyncio.run(_shared(served, range(warm, count), judge))
    check_idle(served, sockets)
    check_good(served)
    grown, stored = (status_of(served, "VmRSS") - before) * 1024, messages_of(served) - stored
    assert grown < GROWTH_BYTES_MAX + STORED_BYTES * stored, f"grown by {grown / MIB:.0f} MiB, {stored} messages"
    assert status_of(served, "Threads") <= THREADS_MAX
    assert served.end() == 0
    served.check_log()
    served.check_folder()


async def _shared(served: Served, numbers: range, judge: Callable[[Client, int], Awaitable[None]]) -> None:
    left = iter(numbers)

    async def work() -> None:
        async with connected(served.url) as client:
            for number in left:
                await judge(client, number)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(work())


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    client = Client(url)
    try:
        yield client
    finally:
        client.leave()


class Client:
    """One connection, kept alive as long as the hub keeps it; then another."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, tried: Case) -> Answer:
        """The first answer to what was sent."""
        reader, writer = await self._open()
        try:
            writer.write(tried.sent)
            if tried.ending is Ending.LEAVES:
                self.leave()
                return Answer(0)
            if tried.ending is Ending.HALF_CLOSES:
                writer.write_eof()
            answer = await answer_of(reader, heads_only=tried.heads_only)
        except (OSError, asyncio.IncompleteReadError):
            answer = Answer(0)
        if answer.last or not tried.one:
            self.leave()
        return answer

    async def talk(self, sent: bytes) -> bytes:
        """All that comes back after a WebSocket was opened, and this was sent."""
        reader, writer = await self._open()
        try:
            writer.write(HANDSHAKE)
            got = await reader.readuntil(b"\r\n\r\n")
            writer.write(sent)
            writer.write_eof()
            got += await reader.read()
        except asyncio.IncompleteReadError as error:
            got = error.partial
        except OSError:
            got = b""
        self.leave()
        return got

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._ends is None:
            self._ends = await asyncio.open_connection(self._address.hostname, self._address.port, limit=64 * MIB)
        return self._ends

    def leave(self) -> None:
        if self._ends is not None:
            self._ends[1].transport.abort()
            self._ends = None


async def answer_of(reader: asyncio.StreamReader, *, heads_only: bool) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1"):
        head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    status = int(first.split()[1])
    if heads_only or status == 204:
        body = b""
    elif "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = b"".join([piece async for piece in pieces_of(reader)])
    return Answer(status, body, headers.get("connection") == "close")


async def pieces_of(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


# WebSocket frames

HANDSHAKE = (
    b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n"
)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def frames(generator: random.Random) -> bytes:
    """A few frames, most of them spoilt: what they carry, or the frames themselves."""
    written = []
    for number in range(generator.choice([1, 3, 20])):
        opcode, payload = generator.choice([text_frame, binary_frame])(generator, number)
        if generator.random() < 0.6:
            payload = spoilt_bytes(generator, payload)
        written.append(frame(opcode, payload))
    written += generator.choice([[frame(CLOSE, b"\x03\xe8")], [frame(PING, b"x")], [frame(CLOSE, b"\xff")], []])
    whole = b"".join(written)
    return spoilt_bytes(generator, whole) if generator.random() < 0.4 else whole


def text_frame(generator: random.Random, number: int) -> tuple[int, bytes]:
    messages = [{"recipient": generator.choice(["ada", "ben"]), "data": number} for _ in range(3)]
    header: dict[str, object] = {"number": number}
    if generator.random() < 0.2:
        header["partition"] = generator.randrange(5)
        if generator.random() < 0.5:
            header["producer"] = {
                "group": generator.choice([0, 1, 2**63 - 1, 2**63]),
                "owner_level": generator.randrange(3),
                "published_sequence": generator.choice([0, 3, 2**31 - 1]),
            }
    return TEXT, msgspec.json.encode({**header, "messages": messages})


def binary_frame(generator: random.Random, number: int) -> tuple[int, bytes]:
    header = msgspec.json.encode({"number": number})
    return BINARY, struct.pack(">I", len(header)) + header + arrow_stream(generator)


def frame(opcode: int, payload: bytes) -> bytes:
    """A frame as clients send it; its mask of zeros leaves the payload as it is."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 2**16:
        length = struct.pack(">BH", 0x80 | 126, size)
    else:
        length = struct.pack(">BQ", 0x80 | 127, size)
    return bytes([0x80 | opcode]) + length + bytes(4) + payload


# What must be as it was


def check_good(served: Served) -> None:
    wire = Wire(served.url)
    assert wire.publish({"recipient": "good", "data": 1}).status == 201
    bundle = wire.get("/v1/recipients/good/peek").json()["bundle_id"]
    assert wire("DELETE", f"/v1/recipients/good/bundles/{bundle}").json()["messages"] == 1
    assert wire.get("/v1/backup").status == 200
    wire.close()


def check_idle(served: Served, sockets: int) -> None:
    """In the end nothing is under way, and no connection is open."""
    wait_until(lambda: not under_way(served) and sockets_of(served) <= sockets, "nothing is under way")


def under_way(served: Served) -> dict[str, float]:
    return {name: value for name, value in metrics_of(served, IN_FLIGHT).items() if value}


def messages_of(served: Served) -> int:
    """How many it has stored since it was started."""
    return round(sum(metrics_of(served, (ACCEPTED,)).values()))


def metrics_of(served: Served, names: tuple[str, ...]) -> dict[str, float]:
    wire = Wire(served.url)
    text = wire.get("/metrics").body.decode()
    wire.close()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(names))
    assert len(values) == len(names)
    return {name: float(value) for name, value in values.items()}


def sockets_of(served: Served) -> int:
    """How many connections of the network the hub has; it also has pairs of sockets to the processes that it starts."""
    own = set[str]()
    for link in Path(f"/proc/{served.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            own.add(str(link.readlink()))
    rows = [line.split() for line in Path(f"/proc/{served.process.pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in own for row in rows)


def status_of(served: Served, name: str) -> int:
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))
