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
from typing import NamedTuple, cast
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from restante.calls.mailboxes import ReadHistory
from restante.errors import StorageFull
from restante.hub.engine import commit_outcomes
from restante.limits import FEW_MESSAGES_MAX, SENDS_MAX
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.connections import protocol
from restante.server.connections.short_way import KnownHeads, PlainHead, ShortWay
from restante.server.serve import ServedHub, Service, start
from restante.server.short_routes import short_publish, short_route
from restante.server.short_routes.short_route import ShortRoute
from restante.settings import ServerSettings, Settings
from tests.server.wire import Wire
from tests.waiting import wait_until

SECONDS = 20
LONG = "application/json; charset=utf-8"
"""Says the same as the shorter one, and is left to the application."""
UNKNOWN_BATCH = "01890000-0000-7000-8000-000000000000"


class Raw(NamedTuple):
    """An answer as it came."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split()[1])


@pytest.fixture
def ways() -> Iterator[list[bool]]:
    """For each request that came to a short way, whether it went it."""
    taken: list[bool] = []
    take = ShortRoute._taken

    def noted(self: ShortRoute[object], *given: object) -> object:
        answer = take(self, *given)  # type: ignore[arg-type]
        taken.append(answer is not None)
        return answer

    with patch.object(ShortRoute, "_taken", noted):
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


LATER = "2090-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("sent", "short", "status"),
    [
        ({"recipient": "ada", "data": 1, "visible_at": LATER}, True, 201),
        ({"recipient": "ada", "data": 1, "visible_at": "2020-01-31T12:00:00Z"}, True, 201),
        ({"recipient": "ada", "data": 1, "visible_at": LATER, "expires_at": "2089-01-31T12:00:00Z"}, False, 400),
        ({"recipient": "ada", "data": 1, "visible_at": "soon"}, False, 400),
        ({"recipients": ["ada", "bob"], "data": 1}, True, 201),
        ({"recipients": ["ada", "bob"], "data": 1, "visible_at": LATER}, True, 201),
        ({"recipients": [f"r{number}" for number in range(FEW_MESSAGES_MAX + 1)], "data": 1}, False, 201),
        ({"recipients": [], "data": 1}, False, 400),
        ({"recipients": ["ada", ""], "data": 1}, True, 400),
        ({"recipient": "ada", "recipients": ["bob"], "data": 1}, False, 400),
    ],
)
def test_delays_and_broadcasts_keep_their_rules(
    running: ServedHub, ways: list[bool], sent: dict[str, object], short: bool, status: int
) -> None:
    this, other = asked(running, publish(sent), publish(sent, content_type=LONG))
    assert ways == [short]
    assert (this.status, without_ids(this)) == (status, without_ids(other))


def test_a_delayed_message_has_no_numbers_and_no_batch(running: ServedHub, ways: list[bool]) -> None:
    sent = {"recipient": "ada", "data": 1, "visible_at": LATER}
    numbered = [parcel(sent, partition=place, numbers=(1, 0, 1)) for place in ("0", "1")]
    found = [asked(running, one)[0] for one in (*numbered, publish(sent, restante_batch=UNKNOWN_BATCH))]
    assert ways == [False, False]
    assert [answer.status for answer in found] == [400, 400, 400]
    assert all(b"visible_at cannot be combined" in answer.body for answer in found)


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
    with patch.object(commit_outcomes, "_store", side_effect=StorageFull("The disk is full.")):
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


def test_requests_behind_publishes_of_one_commit_are_begun_one_after_the_other(
    running: ServedHub, ways: list[bool]
) -> None:
    paths = ["/v1/recipients/nobody/peek?wait=0.1", "/v1/recipients", "/v1/recipients/nobody/peek?wait=0.05", "/livez"]
    sent = [publish(message(), restante_correlation_id=f"p{number}") for number in range(3)]
    sent += [
        request(f"GET {path}", {"host": "localhost", "restante-correlation-id": f"g{number}"})
        for number, path in enumerate(paths)
    ]
    found = asked(running, *sent)
    ids = [re.search(rb"correlation-id: (\w+)", answer.head)[1].decode() for answer in found]  # type: ignore[index]
    assert ids == ["p0", "p1", "p2", "g0", "g1", "g2", "g3"]
    assert ways == [True] * 3


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
    wait_until(lambda: not running.desk.room.publishes and not running.desk.room.publish_bytes, "the room is free")
    assert len(ways) >= 1


def test_a_connection_that_was_refused_is_not_refused_again_and_others_are_still_looked_at(tmp_path: Path) -> None:
    """The second refusal was written behind the end, and the task that cuts off the slow ended with it."""
    settings = Settings(server=ServerSettings(header_seconds=2))
    with start(tmp_path / "data", settings) as running, closing(connected(running)) as client:
        client.sendall(b"POST /v1/mess")
        time.sleep(0.3)
        client.sendall(b"\x01 x\r\n\r\n")
        assert answers(client, 1)[0].status == 400
        time.sleep(4)
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
        assert isinstance(running.service, Service)
        (found,) = running.service.server.server_state.connections
        waiting = len(found.pipeline)  # type: ignore[union-attr]
        assert waiting < 20_000


def test_a_stranger_takes_no_room(tmp_path: Path) -> None:
    with start(tmp_path / "data", Settings(server=ServerSettings(access="tokens"))) as running:
        with closing(connected(running)) as client:
            client.sendall(publish(message())[:-3])
            assert answers(client, 1)[0].status == 401
        assert running.desk.room.publishes == 0


def test_a_defect_of_the_short_way_leaves_the_request_to_the_other(running: ServedHub) -> None:
    with patch.object(short_publish, "plain_letters", side_effect=MemoryError):
        (answer,) = asked(running, publish(message()))
    assert answer.status == 201
    assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)


def test_an_answer_that_cannot_be_made_harms_no_other(running: ServedHub) -> None:
    # They are encoded together, and when that fails, one by one.
    encode, failures = short_route._encode, iter([MemoryError, MemoryError])

    def faulty(value: object) -> bytes:
        for failure in failures:
            raise failure
        return encode(value)

    with patch.object(short_route, "_encode", faulty):
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


def test_publishes_of_one_commit_are_answered_in_order_and_counted_each(running: ServedHub, wire: Wire) -> None:
    before = _counts(wire)
    own_id = "01890000-0000-7000-8000-0000000000aa"
    sent = [publish(message(f"r{number}", number), restante_correlation_id=f"own-{number}") for number in range(20)]
    conflict = [publish(message("ada", number) | {"id": own_id}) for number in range(2)]
    found = asked(running, *sent[:10], *conflict, *sent[10:])
    assert [answer.status for answer in found] == [201] * 11 + [409] + [201] * 10
    ids = [re.search(rb"restante-correlation-id: (own-\d+)", answer.head) for answer in (*found[:10], *found[12:])]
    assert [own[1] for own in ids if own] == [f"own-{number}".encode() for number in range(20)]
    after = _counts(wire)
    assert [late - early for early, late in zip(before, after, strict=True)][:3] == [21, 22, 21]
    assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)


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


# The same for parcels, dequeues and acknowledgements. An empty header `te` is nothing special; two equal ones are, and
# such a request is left to the application.
TWICE = b"te: \r\nte: \r\n"


def by_both_ways(running: ServedHub, *sent: bytes) -> list[tuple[Raw, Raw]]:
    """The answers to requests that are sent twice: by the short way, and by the long one."""
    found = asked(
        running, *[way for one in sent for way in (one, one.replace(b"\r\n\r\n", b"\r\n" + TWICE + b"\r\n", 1))]
    )
    return list(zip(found[::2], found[1::2], strict=True))


def parcel(body: object, *, partition: str = "0", numbers: tuple[int, int, int] | None = None) -> bytes:
    names = ("restante_producer_group", "restante_owner_level", "restante_published_sequence")
    headers = {} if numbers is None else dict(zip(names, map(str, numbers), strict=True))
    return publish(body, **headers).replace(b"/v1/messages", f"/v1/partitions/{partition}/parcels".encode(), 1)


def acknowledgement(body: object) -> bytes:
    return publish(body).replace(b"/v1/messages", b"/v1/acknowledgements", 1)


def dequeue(recipient: str, bundle_id: str, **headers: str) -> bytes:
    return request(f"DELETE /v1/recipients/{recipient}/bundles/{bundle_id}", {"host": "localhost"} | headers)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", Settings(partition_count=1)) as running:
        yield running


def test_a_parcel_is_answered_the_same_by_either_way(narrow: ServedHub, ways: list[bool]) -> None:
    for short, long in by_both_ways(
        narrow,
        parcel(message()),
        parcel(message(recipient="")),
        parcel(message(), partition="7"),
        parcel(message(), numbers=(1, 0, 5)),
    ):
        assert without_ids(short) == without_ids(long)
    assert ways[0]


def test_numbered_parcels_of_one_connection_keep_their_order_and_are_replayed(
    narrow: ServedHub, ways: list[bool]
) -> None:
    sent = [parcel(message(data=number), numbers=(1, 0, number)) for number in range(40)]
    found = asked(narrow, *sent, sent[-1])
    assert [answer.status for answer in found] == [201] * 41
    assert json.loads(found[-1].body) == json.loads(found[-2].body) | {"replayed": True}
    assert set(ways) == {True}
    (older,) = asked(narrow, sent[3])
    assert (older.status, json.loads(older.body)["expected"]) == (409, 40)


@pytest.mark.parametrize("missing", ["restante-owner-level", "restante-producer-group"])
def test_a_parcel_with_half_of_its_numbers_is_left_to_the_application(narrow: ServedHub, missing: str) -> None:
    whole = parcel(message(), numbers=(1, 0, 0))
    (answer,) = asked(narrow, re.sub(missing.encode() + rb": \d+\r\n", b"", whole))
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "invalid_request")


def bundle_of(wire: Wire, recipient: str) -> str:
    return str(wire.get(f"/v1/recipients/{recipient}/peek").json()["bundle_id"])


def test_a_dequeue_goes_the_short_way_and_is_answered_as_by_the_long_one(
    running: ServedHub, wire: Wire, ways: list[bool]
) -> None:
    found = []
    for recipient, twice in (("ada", b""), ("bob", TWICE)):
        wire.publish(message(recipient), message(recipient))
        ways.clear()
        sent = dequeue(recipient, bundle_of(wire, recipient))
        found += asked(running, sent.replace(b"\r\n\r\n", b"\r\n" + twice + b"\r\n"))
        assert ways == ([] if twice else [True])
        again = asked(running, sent)[0]
        assert (again.status, json.loads(again.body)["code"]) == (404, "bundle_unknown")
        assert json.loads(again.body)["dequeued_at"]
    short, long = found
    assert json.loads(short.body)["messages"] == json.loads(long.body)["messages"] == 2
    assert without_ids(short)[0] == without_ids(long)[0]


@pytest.mark.parametrize(
    "sent",
    [
        dequeue("ada", "00000000-0000-0000-0000-000000000000"),
        dequeue("ada", "0000000-00000-0000-0000-000000000000"),
        dequeue("%20", "00000000-0000-0000-0000-000000000000"),
        dequeue("ada", "x"),
        dequeue("a" * 300, "00000000-0000-0000-0000-000000000000"),
        dequeue("ada", "00000000-0000-0000-0000-000000000000?why=so"),
    ],
    ids=str,
)
def test_a_dequeue_that_is_refused_is_refused_alike(running: ServedHub, sent: bytes) -> None:
    ((short, long),) = by_both_ways(running, sent)
    assert without_ids(short) == without_ids(long)
    assert short.status in {400, 404}


def test_a_dequeue_of_another_mailbox_is_refused(tmp_path: Path, ways: list[bool]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    secret = TokenFile(folder / "tokens.json").create(roles=[Role.RECIPIENT], recipients=["ada"])
    with start(folder) as running:
        wrong = dequeue("bob", "00000000-0000-0000-0000-000000000000", authorization=f"Bearer {secret}")
        own = dequeue("ada", "00000000-0000-0000-0000-000000000000", authorization=f"Bearer {secret}")
        assert [answer.status for answer in asked(running, own, wrong)] == [404, 403]
    assert ways == [True]


@pytest.mark.parametrize("counting", ["exact", "estimated"])
def test_acknowledgements_go_the_short_way_and_are_answered_as_by_the_long_one(
    running: ServedHub, wire: Wire, ways: list[bool], counting: str
) -> None:
    batch = wire("POST", "/v1/batches", {"key": "night", "counting": counting}).json()["id"]
    (group,) = wire("POST", f"/v1/batches/{batch}/items", {"count": 4}).json()["groups"]
    wire("POST", f"/v1/batches/{batch}/seal", {})
    items = [f"{batch}:{group['id']}:{index}" for index in range(4)]
    ways.clear()
    first, unknown, invalid, rest = asked(
        running,
        acknowledgement({"items": items[:2]}),
        acknowledgement({"items": [items[2], f"{batch}:{group['id']}:9"]}),
        acknowledgement({"items": ["nonsense"]}),
        acknowledgement({"ranges": [{"group": f"{batch}:{group['id']}", "from": 3, "upto": 4}]}),
    )
    assert json.loads(first.body) == {"acknowledged": 2, "complete": [], "unknown": []}
    assert json.loads(unknown.body)["unknown"] == [f"{batch}:{group['id']}:9"]
    assert (invalid.status, json.loads(invalid.body)["code"]) == (400, "invalid_item")
    assert json.loads(rest.body)["complete"] == [{"id": batch, "key": "night"}]
    assert ways[0]
    assert running.desk.room.publishes == 0


@pytest.mark.parametrize(
    "body",
    [
        {"items": 1},
        {"items": ["x"]},
        {"calls": [{"items": []}]},
        {"calls": [], "items": []},
        {},
        {"none": 1},
        b"no",
        b"",
    ],
    ids=str,
)
def test_an_acknowledgement_of_nothing_or_nonsense_is_answered_alike(running: ServedHub, body: object) -> None:
    ((short, long),) = by_both_ways(running, acknowledgement(body))
    assert without_ids(short) == without_ids(long)


def test_requests_of_all_short_ways_in_one_pipeline_are_answered_in_order(narrow: ServedHub, ways: list[bool]) -> None:
    sent = [
        publish(message()),
        parcel(message()),
        acknowledgement({"items": ["00000000-0000-7000-8000-000000000000:0:0"]}),
        dequeue("ada", "00000000-0000-0000-0000-000000000000"),
    ] * 5
    assert [answer.status for answer in asked(narrow, *sent)] == [201, 201, 200, 404] * 5
    assert set(ways) == {True}


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


def test_a_head_that_counts_is_known_but_for_its_number(narrow: ServedHub, known: list[bool]) -> None:
    numbered = [parcel(message(data=number), numbers=(7, 0, number)) for number in (*range(5), 9, 5)]
    found = in_turn(narrow, *numbered)
    assert [answer.status for answer in found] == [201] * 5 + [409, 201]
    assert known == [True] * 6
    stored = narrow.desk.hub.call(ReadHistory("ada")).messages
    assert [message.data for message in stored] == [0, 1, 2, 3, 4, 5]


def test_the_number_of_a_head_that_counts_is_digits_and_nothing_else(narrow: ServedHub, known: list[bool]) -> None:
    first = parcel(message(), numbers=(7, 0, 0))
    others = [
        first.replace(b"restante-published-sequence: 0", b"restante-published-sequence: " + value)
        for value in (b"1x", b"-1", b"", b"1" * 30, b"1\r\nrestante-made-anew: true", b"1")
    ]
    found = in_turn(narrow, first, *others)
    assert [answer.status for answer in found[:5]] == [201, 400, 400, 400, 400]
    assert found[-1].status == 201
    assert not any(known[:5])


def test_a_known_head_is_no_token(tmp_path: Path, known: list[bool]) -> None:
    (tmp_path / "data").mkdir()
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    sent = publish(message(), authorization=f"Bearer {tokens.create(roles=[Role.PUBLISHER])}")
    with start(tmp_path / "data") as running, closing(connected(running)) as client:
        client.sendall(sent)
        assert answers(client, 1)[0].status == 201
        tokens.revoke(tokens.listed()[0].id)
        status = 201
        while status == 201:
            client.sendall(sent)
            status = answers(client, 1)[0].status
        assert status == 401
    assert known[0]
    assert not known[-1]


def test_few_heads_are_remembered_and_no_large_ones() -> None:
    nowhere = cast("ShortWay", None)
    heads, head = KnownHeads(), PlainHead(nowhere, 2, (), {}, None, recurs=True)
    for number in range(100):
        heads.remember(b"%d\r\n\r\n{}" % number, head)
        assert heads.head_of(b"%d\r\n\r\n[]" % number) is head
    assert sum([heads.head_of(b"%d\r\n\r\n[]" % number) is head for number in range(100)]) <= 8
    heads.remember(b"once\r\n\r\n{}", head._replace(recurs=False))
    assert heads.head_of(b"once\r\n\r\n{}") is None
    large = b"x" * 2_000 + b"\r\n\r\n{}"
    heads.remember(large, head)
    assert heads.head_of(large) is None
    for other in (b"99\r\n\r\n", b"99\r\n\r\n{}{}", b"99\r\n\r\n{", b"", b"99", b"99\r\n"):
        assert heads.head_of(other) is None


def sends(*bodies: object, content_type: str = "application/json", **headers: str) -> bytes:
    content = json.dumps({"sends": bodies}).encode()
    lines = {"host": "localhost", "content-type": content_type, "content-length": str(len(content))}
    return (
        request("POST /v1/sends", lines | {name.replace("_", "-"): value for name, value in headers.items()}) + content
    )


def test_sends_that_share_a_request_are_answered_the_same_by_either_way(running: ServedHub, ways: list[bool]) -> None:
    first = [{"recipient": "ada", "id": "a", "data": 1}, {"messages": [message("ben"), message("ada")]}, [message()]]
    short, long = asked(running, sends(*first), sends(*first, content_type=LONG))
    assert ways == [True]
    assert short.status == long.status == 200
    stored, again = json.loads(short.body)["answers"], json.loads(long.body)["answers"]
    assert [(own["receipt"]["accepted"], own["receipt"]["duplicates"]) for own in stored] == [(1, 0), (2, 0), (1, 0)]
    assert [(own["receipt"]["accepted"], own["receipt"]["duplicates"]) for own in again] == [(0, 1), (2, 0), (1, 0)]


def test_one_send_that_is_refused_leaves_the_others_by_either_way(running: ServedHub, ways: list[bool]) -> None:
    asked(running, publish({"recipient": "ada", "id": "a", "data": 1}))
    ways.clear()
    some = [message("ben"), {"recipient": "ada", "id": "a", "data": 2}, message("ben")]
    for content_type in ("application/json", LONG):
        (found,) = asked(running, sends(*some, content_type=content_type, restante_correlation_id="night-7"))
        first, refused, last = json.loads(found.body)["answers"]
        assert (first["receipt"]["accepted"], last["receipt"]["accepted"]) == (1, 1)
        assert (refused["problem"]["code"], refused["problem"]["correlation_id"]) == ("message_conflict", "night-7")
    assert ways == [True]


@pytest.mark.parametrize(
    "sent",
    [
        sends(),
        sends(message(), message(recipient="")),
        sends(*[message()] * (SENDS_MAX + 1)),
        sends(message(), restante_batch=UNKNOWN_BATCH),
        sends({"recipient": "ada", "data": 1, "visible_at": LATER}),
    ],
    ids=["none", "invalid", "too many", "batch", "delayed"],
)
def test_sends_that_are_not_plainly_right_are_left_to_the_application(
    running: ServedHub, ways: list[bool], sent: bytes
) -> None:
    this, other = asked(running, sent, sent.replace(b"application/json", LONG.encode()))
    assert True not in ways
    assert without_ids(this) == without_ids(other)


def test_a_commit_of_sends_that_fails_is_answered_for_each_of_them(running: ServedHub, ways: list[bool]) -> None:
    with patch.object(commit_outcomes, "_store", side_effect=StorageFull("The disk is full.")):
        (found,) = asked(running, sends(message(), message()))
    assert ways == [True]
    assert [own["problem"]["code"] for own in json.loads(found.body)["answers"]] == ["storage_full"] * 2
    (counted,) = asked(running, sends(message(), message()))
    assert [own["receipt"]["accepted"] for own in json.loads(counted.body)["answers"]] == [1, 1]
    assert (running.desk.room.publishes, running.desk.room.publish_bytes) == (0, 0)
