"""Connections that last: each ends when its token is revoked or expires, also if nothing is sent; and hubs stay closed."""

from __future__ import annotations

import http.client
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from restante.calls.mailboxes import Explain
from restante.calls.publishing import Publish
from restante.errors import DataDamaged
from restante.model.access.access import Role
from restante.model.mailboxes.answers import Reason
from restante.model.publishing.message import Message
from restante.server.access.tokens import TokenFile, id_of
from restante.server.serve import ServedHub, start
from tests.server.live import Events, live
from tests.server.wire import Wire
from tests.waiting import wait_until

Hold = Callable[[ServedHub, str, Callable[[], None]], str]
"""Opens a connection that lasts, says when it is open, and gives what it was told at its end."""


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "data" / "tokens.json")


@pytest.fixture
def guarded(tokens: TokenFile) -> Iterator[ServedHub]:
    tokens.create(roles=[Role.READER], note="so that the hub is not open")
    with start(tokens.path.parent) as running:
        yield running


def publishing(running: ServedHub, secret: str) -> ClientConnection:
    address = running.url.replace("http", "ws") + "/v1/publish"
    return connect(address, additional_headers={"Authorization": f"Bearer {secret}"})


def frame(number: int, **more: object) -> str:
    return json.dumps({"number": number, "messages": [{"recipient": "ada", "data": number, **more}]})


def publish_socket(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
    with publishing(running, secret) as link:
        link.send(frame(1))
        assert json.loads(link.recv(timeout=30))["accepted"] == 1
        opened()
        return closing_of(link)


def closing_of(link: ClientConnection) -> str:
    with pytest.raises(ConnectionClosed) as closed:
        link.recv(timeout=30)
    assert closed.value.rcvd is not None
    return f"{closed.value.rcvd.code} {closed.value.rcvd.reason.split(':')[0]}"


def live_socket(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
    with live(running, "ada", token=secret) as talk:
        opened()
        reason = talk.until("disconnect")["reason"]
        return f"{closing_of(talk.socket)} {reason}"


def events(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
    stream = Events(running, "ada", headers={"Authorization": f"Bearer {secret}"})
    frames = iter(stream)
    next(frames)
    opened()
    told = [found for _, found in frames][-1]
    stream.close()
    return str(told["reason"])


def waiting(path: str) -> Hold:
    def hold(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
        wire = Wire(running.url, token=secret)
        batch = wire("POST", "/v1/batches", {}).json()["id"]
        before = sum(running.desk.room.waits.values())
        watch = threading.Thread(target=lambda: opened() if waits(running, more_than=before) else None)
        watch.start()
        answer = wire.get(path.format(batch=batch))
        watch.join()
        return f"{answer.status} {answer.problem['code']}"

    return hold


SLOW_SECONDS = 2.5
"""The time that somebody slow takes after the connection is there."""
EXPIRY_SECONDS = 5
"""Of a token: long enough to connect on a busy machine."""


def slow_body(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
    """A publish whose body ends more than a second after its token did."""
    body = json.dumps({"recipient": "late", "data": 1}).encode()
    wire = http.client.HTTPConnection(*Wire(running.url).address, timeout=30)
    wire.putrequest("POST", "/v1/messages")
    for name, value in {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}.items():
        wire.putheader(name, value)
    wire.putheader("Content-Length", str(len(body)))
    wire.endheaders(body[:5])
    opened()
    time.sleep(SLOW_SECONDS)
    wire.send(body[5:])
    answer = wire.getresponse()
    code = json.loads(answer.read())["code"]
    wire.close()
    assert running.desk.hub.call(Explain("late")).reason is Reason.RECIPIENT_UNKNOWN
    return f"{answer.status} {code}"


def slow_backup(running: ServedHub, secret: str, opened: Callable[[], None]) -> str:
    """A backup that its reader takes in slowly, and does not get whole."""
    running.desk.hub.call(Publish.of([Message(recipient="ada", data=os.urandom(1_000_000)) for _ in range(40)]))
    wire = http.client.HTTPConnection(*Wire(running.url).address, timeout=30)
    wire.request("GET", "/v1/backup", headers={"Authorization": f"Bearer {secret}"})
    answer = wire.getresponse()
    opened()
    time.sleep(SLOW_SECONDS)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    wire.close()
    return "broken off"


def waits(running: ServedHub, *, more_than: int) -> bool:
    wait_until(lambda: sum(running.desk.room.waits.values()) > more_than, "the request waits")
    return True


HOLDS: dict[str, tuple[Hold, str]] = {
    "publish socket": (publish_socket, "1008 unauthenticated"),
    "live socket": (live_socket, "1008 token_expired token_expired"),
    "events": (events, "token_expired"),
    "peek": (waiting("/v1/recipients/bob/peek?wait=25"), "401 unauthenticated"),
    "feed": (waiting("/v1/partitions/0/feed?after=0&wait=25"), "401 unauthenticated"),
    "slow body": (slow_body, "401 unauthenticated"),
    "slow backup": (slow_backup, "broken off"),
    "batch": (waiting("/v1/batches/{batch}/wait?seconds=25"), "401 unauthenticated"),
}


@pytest.mark.parametrize("kind", HOLDS)
def test_a_connection_ends_when_its_token_is_revoked(guarded: ServedHub, tokens: TokenFile, kind: str) -> None:
    hold, told = HOLDS[kind]
    secret = tokens.create(roles=[Role.OPERATOR])
    guarded.desk.gate.version()  # looks at the file now, not up to a second later
    assert hold(guarded, secret, lambda: void(tokens.revoke(str(id_of(secret))))) == told


@pytest.mark.parametrize("kind", HOLDS)
def test_a_connection_ends_when_its_token_expires(guarded: ServedHub, tokens: TokenFile, kind: str) -> None:
    hold, told = HOLDS[kind]
    expires_at = datetime.now(UTC) + timedelta(seconds=EXPIRY_SECONDS)
    secret = tokens.create(roles=[Role.OPERATOR], expires_at=expires_at)
    guarded.desk.gate.version()
    soon = expires_at - timedelta(seconds=SLOW_SECONDS - 0.5)
    assert hold(guarded, secret, lambda: time.sleep(max(0, (soon - datetime.now(UTC)).total_seconds()))) == told


def void(_: object) -> None: ...


def test_a_connection_to_an_open_hub_ends_with_the_first_token(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        address = running.url.replace("http", "ws") + "/v1/publish"
        with connect(address) as link:
            TokenFile(tmp_path / "data" / "tokens.json").create(roles=[Role.OPERATOR])
            assert closing_of(link) == "1008 unauthenticated"


def test_frames_before_the_revocation_are_answered_and_none_after_it_is_stored(
    guarded: ServedHub, tokens: TokenFile
) -> None:
    secret = tokens.create(roles=[Role.OPERATOR])
    guarded.desk.gate.version()
    accepted = sent = 0
    with publishing(guarded, secret) as link, suppress(ConnectionClosed):
        while True:
            link.send(frame(sent))
            sent += 1
            answer = json.loads(link.recv(timeout=30))
            if sent == 20:
                tokens.revoke(str(id_of(secret)))
            assert "accepted" in answer or answer["problem"]["code"] == "unauthenticated"
            accepted += answer.get("accepted", 0)
    assert link.close_code == 1008
    assert 20 <= accepted <= sent
    reader = Wire(guarded.url, token=tokens.create(roles=[Role.OPERATOR]))
    guarded.desk.gate.version()
    assert reader.get("/v1/recipients/ada/explain").json()["waiting"][0]["messages"] == accepted


def test_what_a_token_allows_is_followed_while_a_socket_is_open(guarded: ServedHub, tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.PUBLISHER], origins=["a", "b"])
    guarded.desk.gate.version()
    with publishing(guarded, secret) as link:
        link.send(frame(1, origin="b"))
        assert json.loads(link.recv(timeout=30))["accepted"] == 1
        changed = json.loads(tokens.path.read_text())
        changed["tokens"][-1]["origins"] = ["a"]
        put(tokens.path, json.dumps(changed).encode())
        answer: dict[str, object] = {}
        while "problem" not in answer:
            link.send(frame(2, origin="b"))
            answer = json.loads(link.recv(timeout=30))
        link.send(frame(3, origin="a"))
        assert json.loads(link.recv(timeout=30))["accepted"] == 1


def put(path: Path, content: bytes) -> None:
    """Replace a file as a whole: nobody sees half of it."""
    path.with_suffix(".edited").write_bytes(content)
    path.with_suffix(".edited").replace(path)


def statuses(running: ServedHub, secret: str) -> tuple[int, int]:
    """What a caller gets without the token, and with it."""
    running.desk.gate.version()
    return Wire(running.url).get("/v1/partitions").status, Wire(running.url, token=secret).get("/v1/partitions").status


def test_a_hub_whose_tokens_are_lost_stays_closed_also_when_it_starts_again(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    secret = tokens.create(roles=[Role.OPERATOR])
    kept = tokens.path.read_bytes()
    with start(tokens.path.parent) as running:
        assert statuses(running, secret) == (401, 200)
        tokens.path.unlink()
        assert statuses(running, secret) == (401, 401)
        put(tokens.path, b'{"format": 1}')
        assert statuses(running, secret) == (401, 401)
        put(tokens.path, kept)
        assert statuses(running, secret) == (401, 200)
    tokens.path.unlink()
    with start(tokens.path.parent) as running:
        assert statuses(running, secret) == (401, 401)
    tokens.path.with_name("tokens.json.lock").unlink()
    with start(tokens.path.parent) as running:
        assert statuses(running, secret) == (200, 200)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 9}', b"\x00" * 100])
def test_damaged_tokens_let_nobody_in_and_the_log_says_why_once(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    secret = tokens.create(roles=[Role.OPERATOR])
    kept = tokens.path.read_bytes()
    with start(tokens.path.parent) as running, caplog.at_level(logging.ERROR, logger="restante.server"):
        put(tokens.path, content)
        assert statuses(running, secret) == (401, 503)
        problem = Wire(running.url, token=secret).get("/v1/partitions").problem
        assert (problem["code"], "tokens.json" in json.dumps(problem)) == ("unavailable", False)
        assert Wire(running.url).get("/livez").status == 200
        assert len([record for record in caplog.records if "tokens.json" in record.getMessage()]) == 1
        put(tokens.path, kept)
        assert statuses(running, secret) == (401, 200)
    put(tokens.path, content)
    with pytest.raises(DataDamaged, match=r"tokens\.json"):
        start(tokens.path.parent)


def test_tokens_that_come_damaged_close_an_open_hub(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        put(tmp_path / "data" / "tokens.json", b"")
        assert statuses(running, "none") == (503, 503)
        (tmp_path / "data" / "tokens.json").unlink()
        assert statuses(running, "none") == (200, 200)
