"""Tickets for browsers: they open the live routes of one recipient for a minute, and nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from restante.errors import Unauthenticated
from restante.limits import TICKET_SECONDS
from restante.model.access.access import Role
from restante.server.access.tickets import Tickets
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings

PAGE = "https://app.example.org"
SETTINGS = Settings(partition_count=1, server=ServerSettings(origins=(PAGE,), log_level="debug"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    folder = tmp_path_factory.mktemp("tickets") / "data"
    folder.mkdir()
    return TokenFile(folder / "tokens.json")


@pytest.fixture(scope="module")
def token(tokens: TokenFile) -> str:
    return tokens.create(roles=[Role.RECIPIENT], recipients=["ada"])


@pytest.fixture(scope="module")
def greedy(tokens: TokenFile) -> str:
    return tokens.create(roles=[Role.RECIPIENT], recipients=["ada"])


@pytest.fixture(scope="module")
def guarded(tokens: TokenFile, token: str, greedy: str) -> Iterator[ServedHub]:
    assert token
    assert greedy
    with start(tokens.path.parent, SETTINGS) as running:
        yield running


def asked(
    running: ServedHub, path: str, *, token: str | None = None, body: object = None, **headers: str
) -> tuple[int, Message, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent |= {} if token is None else {"Authorization": f"Bearer {token}"}
    sent |= {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(running.url + path, data, sent), timeout=20) as answer:
            first = answer.readline() if "event-stream" in answer.headers["Content-Type"] else answer.read()
            return answer.status, answer.headers, first
    except HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


def ticket_of(running: ServedHub, token: str | None, recipient: str = "ada") -> str:
    status, headers, body = asked(running, "/v1/tickets", token=token, body={"recipient": recipient})
    assert (status, headers["Cache-Control"]) == (201, "no-store")
    told = json.loads(body)
    assert told.keys() == {"ticket", "expires_at"}
    return str(told["ticket"])


def test_a_ticket_opens_events_and_a_web_socket(guarded: ServedHub, token: str) -> None:
    ticket = ticket_of(guarded, token)
    path = f"/v1/recipients/ada/live?ticket={ticket}"
    status, _, first = asked(guarded, path, Accept="text/event-stream", Origin=PAGE)
    assert status == 200
    assert first
    with connect(guarded.url.replace("http", "ws", 1) + path, origin=Origin(PAGE)) as socket:
        assert json.loads(socket.recv(timeout=20))["type"] == "connected"


def test_it_opens_nothing_else(guarded: ServedHub, token: str) -> None:
    ticket = ticket_of(guarded, token)
    for path in (
        "/v1/recipients/ada/peek",
        "/v1/recipients/ada/messages",
        "/v1/partitions",
        "/v1/recipients/ada/explain",
    ):
        assert asked(guarded, f"{path}?ticket={ticket}")[0] == 401
        assert asked(guarded, f"{path}?ticket={ticket}", token=token)[0] in (400, 403)
    assert asked(guarded, "/v1/recipients/ada/peek", token=ticket)[0] == 401
    assert asked(guarded, f"/v1/recipients/bob/live?ticket={ticket}", Accept="text/event-stream")[0] == 401
    assert asked(guarded, f"/v1/publish?ticket={ticket}")[0] in (401, 404)
    both = asked(guarded, f"/v1/recipients/ada/live?ticket={ticket}", token=token, Accept="text/event-stream")
    assert both[0] == 400


def test_a_wrong_one_is_refused_and_not_repeated(guarded: ServedHub) -> None:
    status, _, problem = asked(guarded, "/v1/recipients/ada/live?ticket=rsttk_wrong", Accept="text/event-stream")
    assert (status, problem["code"]) == (401, "unauthenticated")
    assert "rsttk_wrong" not in json.dumps(problem)
    with (
        pytest.raises(InvalidStatus),
        connect(f"{guarded.url.replace('http', 'ws', 1)}/v1/recipients/ada/live?ticket=x"),
    ):
        pass


def test_who_may_not_follow_a_mailbox_gets_no_ticket_for_it(guarded: ServedHub, tokens: TokenFile, token: str) -> None:
    assert asked(guarded, "/v1/tickets", token=token, body={"recipient": "bob"})[0] == 403
    assert asked(guarded, "/v1/tickets", body={"recipient": "ada"})[0] == 401
    publisher = tokens.create(roles=[Role.PUBLISHER])
    guarded.desk.gate.version()  # looks at the file now, not up to a second later
    assert asked(guarded, "/v1/tickets", token=publisher, body={"recipient": "ada"})[0] == 403
    for name in (" ", "", "..", "a\u0000", "a" * 257, None, 5):
        assert asked(guarded, "/v1/tickets", token=token, body={"recipient": name})[0] == 400
    assert asked(guarded, "/v1/tickets", token=token, body={})[0] == 400


def test_a_page_of_a_listed_origin_may_ask_for_one(guarded: ServedHub, token: str) -> None:
    request = Request(f"{guarded.url}/v1/tickets", method="OPTIONS")
    for name, value in (("Origin", PAGE), ("Access-Control-Request-Method", "POST")):
        request.add_header(name, value)
    request.add_header("Access-Control-Request-Headers", "authorization,content-type")
    with urlopen(request) as answer:
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        assert "authorization" in answer.headers["Access-Control-Allow-Headers"]
    _, headers, _ = asked(guarded, "/v1/tickets", token=token, body={"recipient": "ada"}, Origin=PAGE)
    assert headers["Access-Control-Allow-Origin"] == PAGE
    _, headers, _ = asked(
        guarded, "/v1/tickets", token=token, body={"recipient": "ada"}, Origin="https://elsewhere.org"
    )
    assert "Access-Control-Allow-Origin" not in headers


def test_what_it_opened_ends_with_its_token(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = TokenFile(folder / "tokens.json")
    file.create(roles=[Role.OPERATOR])
    token = file.create(roles=[Role.RECIPIENT])
    with start(folder, SETTINGS) as running:
        ticket = ticket_of(running, token)
        with connect(f"{running.url.replace('http', 'ws', 1)}/v1/recipients/ada/live?ticket={ticket}") as socket:
            assert json.loads(socket.recv(timeout=20))["type"] == "connected"
            (name,) = [each.id for each in file.listed() if Role.RECIPIENT in each.roles]
            file.revoke(name)
            while json.loads(socket.recv(timeout=20))["type"] != "disconnect":
                pass
        assert asked(running, f"/v1/recipients/ada/live?ticket={ticket}", Accept="text/event-stream")[0] == 401


def test_no_log_has_it(guarded: ServedHub, token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ticket = ticket_of(guarded, token)
    asked(guarded, f"/v1/recipients/ada/live?ticket={ticket}", Accept="text/event-stream")
    asked(guarded, f"/v1/recipients/ada/peek?ticket={ticket}")
    with connect(f"{guarded.url.replace('http', 'ws', 1)}/v1/recipients/ada/live?ticket={ticket}") as socket:
        socket.recv(timeout=20)
    assert caplog.records
    own = [record for record in caplog.records if not record.name.startswith("websockets.client")]
    assert not [record for record in own if ticket in repr(vars(record)) or ticket in record.getMessage()]


def test_an_open_hub_gives_them_too(tmp_path: Path) -> None:
    with start(tmp_path / "data", SETTINGS) as running:
        ticket = ticket_of(running, None)
        path = f"/v1/recipients/ada/live?ticket={ticket}"
        assert asked(running, path, Accept="text/event-stream")[0] == 200


def test_they_expire_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    tickets = Tickets(lambda: now[0])
    ticket = tickets.make("x", "Bearer x", "ada")
    assert TICKET_SECONDS <= 60
    now[0] += TICKET_SECONDS - 1
    assert tickets.authorization(ticket, "ada") == "Bearer x"
    now[0] += 1
    with pytest.raises(Unauthenticated):
        tickets.authorization(ticket, "ada")
    monkeypatch.setattr("restante.server.access.tickets.TICKETS_MAX", 2)
    first, second, third = (tickets.make("x", None, "ada") for _ in range(3))
    with pytest.raises(Unauthenticated):
        tickets.authorization(first, "ada")
    for kept in (second, third):
        assert tickets.authorization(kept, "ada") is None


def test_a_token_that_asks_for_many_pushes_out_only_its_own(
    token: str, greedy: str, guarded: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.server.access.tickets.TICKETS_MAX", 8)
    kept = [ticket_of(guarded, token) for _ in range(3)]
    spent = [ticket_of(guarded, greedy) for _ in range(12)]
    for ticket in (*kept, *spent[-5:], ticket_of(guarded, token)):
        status, _, _ = asked(guarded, f"/v1/recipients/ada/live?ticket={ticket}", Accept="text/event-stream")
        assert status == (401 if ticket == spent[-5] else 200)
