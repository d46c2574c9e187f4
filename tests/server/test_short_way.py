"""Small publishes go a short way past the application; nobody can tell by the answers."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from restante.calls.mailboxes import ReadHistory
from restante.errors import StorageFull
from restante.hub.engine import committer
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.connections import protocol
from restante.server.connections.short_way import KnownHeads, PlainHead
from restante.server.routes import short_publish
from restante.server.routes.short_publish import ShortPublish
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.wire import Wire

SECONDS = 20
LONG = "application/json; charset=utf-8"
"""Says the same as the shorter one, and is left to the application."""


class Raw(NamedTuple):
    """An answer as it came."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split()[1])


@pytest.fixture
def ways() -> Iterator[list[bool]]:
    """For each publish that came to the short way, whether it went it."""
    taken: list[bool] = []
    take = ShortPublish.take

    def noted(self: ShortPublish, *given: object) -> bool:
        taken.append(take(self, *given))  # type: ignore[arg-type]
        return taken[-1]

    with patch.object(ShortPublish, "take", noted):
        yield taken


def publish(body: object, *, content_type: str = "application/json", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"host": "localhost", "content-type": content_type, "content-length": str(len(content))}
    sent = lines | {name.replace("_", "-"): value for name, value in headers.items()}
    return request("POST /v1/messages", sent) + content


def request(line: str, headers: dict[str, str]) -> bytes:
    return "".join(
        [f"{line} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in headers.items()), "\r\n"]
    ).encode()


def connected(running: ServedHub) -> socket.socket:
    address = urlsplit(running.url)
    return socket.create_connection((address.hostname or "", address.port or 0), SECONDS)


def answers(client: socket.socket, count: int) -> list[Raw]:
    file = client.makefile("rb")
    found = []
    for _ in range(count):
        head = b"".join(iter(file.readline, b"\r\n"))
        length = re.search(rb"content-length: (\d+)", head)
        found.append(Raw(head, file.read(int(length[1])) if length else b""))
    return found


def asked(running: ServedHub, *sent: bytes, count: int | None = None) -> list[Raw]:
    with closing(connected(running)) as client:
        client.sendall(b"".join(sent))
        return answers(client, len(sent) if count is None else count)


def message(recipient: str = "ada", data: object = 1) -> dict[str, object]:
    return {"recipient": recipient, "data": data}


def without_ids(answer: Raw) -> tuple[bytes, bytes]:
    """The answer without what differs from request to request."""
    head = re.sub(rb"(date|restante-correlation-id|content-length): [^\r]+", rb"\1", answer.head)
    return head, re.sub(rb'("correlation_id":"|_sequence_number":|"partition":)[^,"}]+', rb"\1", answer.body)


def test_an_answer_is_the_same_by_either_way(running: ServedHub, ways: list[bool]) -> None:
    short, long = asked(running, publish(message()), publish(message(), content_type=LONG))
    assert ways == [True]
    assert short.status == 201
    assert without_ids(short) == without_ids(long)


def test_a_correlation_id_of_the_callers_own_comes_back(running: ServedHub, ways: list[bool]) -> None:
    (answer,) = asked(running, publish(message(), restante_correlation_id="night-7"))
    assert ways == [True]
    assert b"restante-correlation-id: night-7\r\n" in answer.head


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"no JSON", {}),
        (message(recipient=""), {}),
        ({"messages": [message(), message(recipient="")]}, {}),
        (message(), {"restante_batch": "none"}),
        (message(), {"restante_producer_group": "1"}),
        (message(), {"content_encoding": "gzip"}),
        (message(), {"origin": "https://evil.example"}),
        (message(), {"authorization": "Bearer none"}),
        (b"", {}),
        (b" " * 40_000, {}),
    ],
    ids=str,
)
def test_what_is_refused_is_refused_alike(running: ServedHub, body: object, headers: dict[str, str]) -> None:
    short, long = asked(running, publish(body, **headers), publish(body, content_type=LONG, **headers))
    assert without_ids(short) == without_ids(long)


def test_a_commit_that_fails_is_answered_alike(running: ServedHub, ways: list[bool]) -> None:
    with patch.object(committer, "_store", side_effect=StorageFull("The disk is full.")):
        short, long = asked(running, publish(message()), publish(message(), content_type=LONG))
    assert ways == [True]
    assert (short.status, json.loads(short.body)["code"]) == (507, "storage_full")
    assert without_ids(short) == without_ids(long)


def test_a_token_is_asked_for(tmp_path: Path, ways: list[bool]) -> None:
    with start(tmp_path / "data", Settings(server=ServerSettings(access="tokens"))) as running:
        (answer,) = asked(running, publish(message()))
    assert answer.status == 401
    assert not ways


def test_pipelined_requests_of_both_ways_are_answered_in_order(running: ServedHub, ways: list[bool]) -> None:
    sent: list[bytes] = []
    for number in range(40):
        own_id = f"n{number}"
        kinds = (
            publish(message(), restante_correlation_id=own_id),
            publish(message(), restante_correlation_id=own_id),
            publish(message(), content_type=LONG, restante_correlation_id=own_id),
            publish(message(recipient=""), restante_correlation_id=own_id),
            request("GET /v1/recipients", {"host": "localhost", "restante-correlation-id": own_id}),
        )
        sent.append(kinds[number * 7 % 5])
    found = asked(running, *sent)
    assert [re.search(rb"correlation-id: (\w+)", answer.head)[1].decode() for answer in found] == [  # type: ignore[index]
        f"n{number}" for number in range(40)
    ]
    assert sorted({answer.status for answer in found}) == [200, 201, 400]
    assert True in ways


def test_a_request_that_cannot_be_read_is_answered_after_those_before_it(running: ServedHub) -> None:
    found = asked(running, publish(message()), publish(message()), b"NONSENSE\r\n\r\n")
    assert [answer.status for answer in found] == [201, 201, 400]


def test_many_more_than_are_read_ahead_are_all_answered(running: ServedHub, ways: list[bool]) -> None:
    count = 3 * protocol._SHORT_ANSWERS_MAX
    found = asked(running, *[publish(message(data=number)) for number in range(count)])
    assert [answer.status for answer in found] == [201] * count
    assert ways.count(True) >= protocol._SHORT_ANSWERS_MAX


def test_a_body_in_pieces_is_put_together(running: ServedHub, ways: list[bool]) -> None:
    whole = publish(message(data="x" * 5_000))
    with closing(connected(running)) as client:
        for place in range(0, len(whole), 700):
            client.sendall(whole[place : place + 700])
            time.sleep(0.001)
        (answer,) = answers(client, 1)
    assert (answer.status, ways) == (201, [True])


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    settings = Settings(server=ServerSettings(body_idle_seconds=1))
    with start(tmp_path / "data", settings) as running, closing(connected(running)) as client:
        client.sendall(publish(message())[:-3])
        assert client.recv(1) == b""


def test_a_connection_that_is_idle_is_closed(tmp_path: Path, ways: list[bool]) -> None:
    settings = Settings(server=ServerSettings(keep_alive_seconds=1))
    with start(tmp_path / "data", settings) as running, closing(connected(running)) as client:
        client.sendall(publish(message()))
        answers(client, 1)
        assert client.recv(1) == b""
    assert ways == [True]


def test_who_leaves_before_the_answer_harms_nobody(running: ServedHub, wire: Wire, ways: list[bool]) -> None:
    for number in range(20):
        with closing(connected(running)) as client:
            client.sendall(publish(message(data=number)))
    assert wire.publish(message()).status == 201
    deadline = time.monotonic() + SECONDS
    while running.desk.room.publishes or running.desk.room.publish_bytes:
        assert time.monotonic() < deadline
    assert len(ways) >= 1


def test_a_connection_that_was_refused_is_not_refused_again_and_others_are_still_looked_at(tmp_path: Path) -> None:
    """The second refusal was written behind the end, and the task that cuts off the slow ended with it."""
    settings = Settings(server=ServerSettings(header_seconds=1))
    with start(tmp_path / "data", settings) as running, closing(connected(running)) as client:
        client.sendall(b"POST /v1/mess")
        time.sleep(0.5)
        client.sendall(b"\x01 x\r\n\r\n")
        assert answers(client, 1)[0].status == 400
        time.sleep(3)
        with closing(connected(running)) as slow:
            slow.sendall(b"GET /v1/rec")
            assert answers(slow, 1)[0].status == 408


def test_requests_that_wait_on_a_connection_are_bounded(running: ServedHub) -> None:
    """Each answer let in another read full of requests, and memory grew as long as the client sent."""
    sent = request("GET /v1/recipients", {"host": "localhost"})
    with closing(connected(running)) as client:
        client.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(200):
                client.sendall(sent * 2_000)
        (found,) = running._service._server.server_state.connections
        waiting = len(found.pipeline)  # type: ignore[union-attr]
        assert waiting < 20_000


def test_a_stranger_takes_no_room(tmp_path: Path) -> None:
    with start(tmp_path / "data", Settings(server=ServerSettings(access="tokens"))) as running:
        with closing(connected(running)) as client:
            client.sendall(publish(message())[:-3])
            assert answers(client, 1)[0].status == 401
        assert running.desk.room.publishes == 0


def test_a_defect_of_the_short_way_leaves_the_request_to_the_other(running: ServedHub) -> None:
    with patch.object(short_publish, "decode_json", side_effect=MemoryError):
        (answer,) = asked(running, publish(message()))
    assert answer.status == 201
    assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)


def test_an_answer_that_cannot_be_made_harms_no_other(running: ServedHub) -> None:
    encode, failures = short_publish._encode, iter([MemoryError])

    def faulty(value: object) -> bytes:
        for failure in failures:
            raise failure
        return encode(value)

    with patch.object(short_publish, "_encode", faulty):
        found = asked(running, publish(message()), publish(message()), publish(message()))
    assert [answer.status for answer in found] == [500, 201, 201]
    assert running.desk.room.publishes == 0


def test_a_web_socket_is_not_opened_before_the_requests_before_it_are_answered(running: ServedHub) -> None:
    opening = {"host": "localhost", "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    upgrade = request("GET /v1/publish", opening | {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert [answer.status for answer in asked(running, publish(message()), upgrade)] == [201, 400]


def test_a_body_that_came_after_its_answer_leaves_the_connection_as_it_was(running: ServedHub) -> None:
    whole = publish(message()).replace(b"/v1/messages", b"/v1/nowhere")
    with closing(connected(running)) as client:
        client.sendall(whole[:-3])
        assert answers(client, 1)[0].status == 404
        client.sendall(whole[-3:])
        time.sleep(protocol._LINGER_SECONDS + 1.5)
        client.sendall(publish(message()))
        assert answers(client, 1)[0].status == 201


def test_what_is_counted_is_the_same_by_either_way(running: ServedHub, wire: Wire) -> None:
    counted = [_counts(wire)]
    for content_type in ("application/json", LONG):
        asked(
            running,
            publish(message(), content_type=content_type),
            publish([message(), message()], content_type=content_type),
        )
        counted.append(_counts(wire))
    start, short, long = counted
    assert [after - before for before, after in zip(start, short, strict=True)] == [
        after - before for before, after in zip(short, long, strict=True)
    ]
    assert short[0] - start[0] == 2


def _counts(wire: Wire) -> Sequence[float]:
    text = wire.get("/metrics").body.decode()
    names = (
        'restante_requests_total{method="POST",route="/v1/messages",status="201"}',
        'restante_request_duration_seconds_count{method="POST",route="/v1/messages"}',
        "restante_messages_accepted_total",
        "restante_received_bytes_total",
    )
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return [float(lines.get(name, 0)) for name in names]


# Heads that are known.


@pytest.fixture
def known() -> Iterator[list[bool]]:
    """For each piece that came behind a request of the short way, whether it went by its head, without being parsed."""
    gone: list[bool] = []
    goes = protocol.HttpConnection._goes_as_before

    def noted(self: protocol.HttpConnection, data: bytes) -> bool:
        gone.append(goes(self, data))
        return gone[-1]

    with patch.object(protocol.HttpConnection, "_goes_as_before", noted):
        yield gone


def in_turn(running: ServedHub, *sent: bytes) -> list[Raw]:
    """One request after the other has been answered, over one connection."""
    with closing(connected(running)) as client:
        found = []
        for each in sent:
            client.sendall(each)
            found += answers(client, 1)
        return found


def test_a_request_with_a_known_head_is_answered_like_the_first(running: ServedHub, known: list[bool]) -> None:
    first, again, other = in_turn(running, *[publish(message(data=number)) for number in (1, 1, 2)])
    assert known == [True, True]
    assert without_ids(first) == without_ids(again) == without_ids(other)
    stored = running.desk.hub.call(ReadHistory("ada")).messages
    assert [message.data for message in stored] == [1, 1, 2]


def test_of_a_known_head_only_what_is_right_goes_the_short_way(running: ServedHub, known: list[bool]) -> None:
    right = publish(message(recipient="ada"))
    wrong = right.replace(b'"ada"', b'"ada ')
    assert [answer.status for answer in in_turn(running, right, wrong, right)] == [201, 400, 201]
    assert known == [False, True]
    assert running.desk.room.publishes == 0


def test_a_known_head_that_comes_in_pieces_or_with_more_is_parsed(running: ServedHub, known: list[bool]) -> None:
    whole = publish(message())
    with closing(connected(running)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(whole)
        assert answers(client, 1)[0].status == 201
        client.sendall(whole + whole)
        assert [answer.status for answer in answers(client, 2)] == [201, 201]
        head, body = whole[: whole.index(b"\r\n\r\n") + 4], whole[whole.index(b"\r\n\r\n") + 4 :]
        for piece in (head, body[:5]):
            client.sendall(piece)
            time.sleep(0.05)
        client.sendall(body[5:])
        assert answers(client, 1)[0].status == 201
    assert not any(known)


def test_a_known_head_is_no_token(tmp_path: Path, known: list[bool]) -> None:
    (tmp_path / "data").mkdir()
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    sent = publish(message(), authorization=f"Bearer {tokens.create(roles=[Role.PUBLISHER])}")
    with start(tmp_path / "data") as running, closing(connected(running)) as client:
        client.sendall(sent)
        assert answers(client, 1)[0].status == 201
        tokens.revoke(tokens.listed()[0].id)
        deadline = time.monotonic() + SECONDS
        status = 201
        while status == 201 and time.monotonic() < deadline:
            client.sendall(sent)
            status = answers(client, 1)[0].status
        assert status == 401
    assert known[0]
    assert not known[-1]


def test_few_heads_are_remembered_and_no_large_ones() -> None:
    heads, head = KnownHeads(), PlainHead(2, None, None)
    for number in range(100):
        heads.remember(b"%d\r\n\r\n{}" % number, head)
        assert heads.head_of(b"%d\r\n\r\n[]" % number) is head
    assert sum([heads.head_of(b"%d\r\n\r\n[]" % number) is head for number in range(100)]) <= 8
    large = b"x" * 2_000 + b"\r\n\r\n{}"
    heads.remember(large, head)
    assert heads.head_of(large) is None
    for other in (b"99\r\n\r\n", b"99\r\n\r\n{}{}", b"99\r\n\r\n{", b"", b"99", b"99\r\n"):
        assert heads.head_of(other) is None
