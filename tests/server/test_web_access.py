"""Web pages: a stranger's page cannot use a hub that asks for no token, and listed ones get what browsers ask for."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.access.web_access import EXPOSED
from restante.server.openapi import headers
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.live import live_url
from tests.server.wire import Answer, Wire

EVIL = "https://evil.example"
APP = "https://app.example.org"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """One open hub for all tests that only ask."""
    with start(tmp_path_factory.mktemp("open") / "data") as running:
        yield running


@contextmanager
def served(folder: Path, *, host: str = "127.0.0.1", token: bool = False, **server: object) -> Iterator[ServedHub]:
    if token:
        TokenFile(folder / "tokens.json").create(roles=[Role.OPERATOR])
    settings = Settings(server=msgspec.convert(server, ServerSettings))
    with start(folder, settings, host=host, insecure=True) as running:
        yield running


def asked(running: ServedHub, path: str = "/v1/partitions", method: str = "GET", **more: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in more.items()}
    with closing(Wire(running.url.replace("0.0.0.0", "127.0.0.1"))) as wire:
        return wire(method, path, headers=sent)


def refusal(answer: Answer) -> str:
    assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    return str(answer.problem["detail"])


def test_an_open_hub_answers_to_loopback_names_alone(running: ServedHub) -> None:
    for host in (
        "localhost",
        "LOCALHOST:8470",
        "hub.localhost:1",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9:80",
        "[::1]:9",
    ):
        assert asked(running, host=host).status == 200
    for host in (
        "evil.example",
        "evil.example:8470",
        "localhost.evil.example",
        "192.168.1.7",
        "0.0.0.0",
        "",
        "[::",
        "1",
    ):
        assert "server.hosts" in refusal(asked(running, host=host))


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics", "/v1/backup", "/nowhere", "/"])
def test_a_stranger_s_name_gets_nothing_but_the_health(running: ServedHub, path: str) -> None:
    assert "evil.example" in refusal(asked(running, path, host="evil.example"))
    for health in ("/livez", "/readyz", "/startupz", "/healthz"):
        assert asked(running, health, host="evil.example", origin=EVIL).status == 200


def test_a_hub_open_to_a_network_answers_to_addresses_and_to_names_that_are_listed(tmp_path: Path) -> None:
    with served(tmp_path / "data", host="0.0.0.0", hosts=["Hub.example.org"]) as running:
        for host in ("192.168.1.7:8470", "[fe80::1]:8470", "localhost", "hub.example.org:8470", "HUB.example.org."):
            assert asked(running, host=host).status == 200
        assert "server.hosts" in refusal(asked(running, host="evil.example"))


def test_a_request_without_a_host_is_a_400(running: ServedHub) -> None:
    with socket.create_connection(Wire(running.url).address, timeout=30) as plain:
        plain.sendall(b"GET /v1/partitions HTTP/1.1\r\nconnection: close\r\n\r\n")
        assert plain.recv(65_536).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:1", "http://evil.example:8470", "file://"])
def test_a_stranger_s_page_cannot_use_an_open_hub(running: ServedHub, origin: str) -> None:
    assert "server.origins" in refusal(asked(running, origin=origin))
    assert "access-control-allow-origin" not in asked(running, origin=origin).headers
    preflight = {"origin": origin, "access_control_request_method": "POST"}
    assert refusal(asked(running, "/v1/messages", "OPTIONS", **preflight))


def test_a_stranger_s_page_purges_nothing(running: ServedHub) -> None:
    wire = Wire(running.url)
    wire.publish({"recipient": "ada", "data": 1})
    sent = {"origin": EVIL, "content-type": "application/json"}
    assert wire("POST", "/v1/recipients/ada/purge", b"{}", headers=sent).status == 403
    assert len(wire.get("/v1/recipients/ada/peek").json()["messages"]) == 1


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_picture_or_link_in_another_page_opens_no_bundle(running: ServedHub, site: str) -> None:
    """Browsers send no `Origin` with what a page merely shows or leads to."""
    recipient = f"ada-{site}"
    Wire(running.url).publish({"recipient": recipient, "data": 1})
    assert "links and frames of other web pages are refused" in refusal(
        asked(running, f"/v1/recipients/{recipient}/peek", sec_fetch_site=site)
    )
    assert Wire(running.url).get(f"/v1/recipients/{recipient}/explain").json()["open_bundles"] == []
    for own in ("same-origin", "none"):
        assert asked(running, f"/v1/recipients/{recipient}/peek", sec_fetch_site=own).status == 200
    for page in ("/docs", "/healthz", "/openapi.json"):
        assert asked(running, page, sec_fetch_site=site).status == 200


def test_a_stranger_s_page_opens_no_web_socket_and_gets_no_events(running: ServedHub) -> None:
    for url in (live_url(running, "ada"), running.url.replace("http", "ws") + "/v1/publish"):
        with pytest.raises(InvalidStatus) as caught, connect(url, origin=Origin(EVIL)):
            pass
        response = caught.value.response
        assert (response.status_code, response.headers["x-content-type-options"]) == (403, "nosniff")
        assert b'"forbidden"' in (response.body or b"")
    assert refusal(asked(running, "/v1/recipients/ada/live", accept="text/event-stream", origin=EVIL))


def test_the_hub_s_own_pages_and_programs_without_an_origin_are_let_in(running: ServedHub) -> None:
    port = running.url.rsplit(":", 1)[1]
    for path in ("/docs", "/openapi.json", "/v1/partitions"):
        assert asked(running, path).status == 200
        assert asked(running, path, origin=running.url).status == 200
        assert asked(running, path, host=f"localhost:{port}", origin=f"http://localhost:{port}").status == 200
    with connect(live_url(running, "ada"), origin=Origin(running.url)) as own:
        assert b"connected" in own.recv(timeout=20, decode=False)


@pytest.mark.parametrize("token", [False, True])
def test_a_listed_origin_gets_what_browsers_ask_for(tmp_path: Path, token: bool) -> None:
    with served(tmp_path / "data", token=token, origins=[APP]) as running:
        answer = asked(running, origin=APP)
        assert answer.status == (401 if token else 200)
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["access-control-expose-headers"] == ", ".join(EXPOSED)
        assert answer.headers["vary"] == "origin"
        wanted = {"access_control_request_method": "POST", "access_control_request_headers": "authorization,ce-id"}
        preflight = asked(running, "/v1/messages", "OPTIONS", origin=APP, **wanted)
        assert (preflight.status, preflight.body) == (204, b"")
        assert preflight.headers["access-control-allow-origin"] == APP
        assert preflight.headers["access-control-allow-headers"] == "authorization,ce-id"
        assert "DELETE" in preflight.headers["access-control-allow-methods"]
        assert asked(running, "/v1/messages", "OPTIONS", origin=APP).status == 405


def test_with_tokens_other_origins_get_the_answer_of_their_token_and_nothing_of_browsers(tmp_path: Path) -> None:
    with served(tmp_path / "data", token=True, origins=[APP]) as running:
        answer = asked(running, origin=EVIL, host="hub.example.org")
        assert (answer.status, answer.headers["vary"]) == (401, "origin")
        assert not [name for name in answer.headers if name.startswith("access-control")]
        wanted = {"origin": EVIL, "access_control_request_method": "POST"}
        assert asked(running, "/v1/messages", "OPTIONS", **wanted).status == 405


def test_every_header_of_ours_is_exposed() -> None:
    ours = {name.split(".")[0] for name in headers.components() if name.startswith("Restante-")}
    assert ours <= set(EXPOSED)


@pytest.mark.parametrize("name", ["Authorization", "Host", "Origin", "Content-Type", "Content-Encoding"])
def test_a_header_that_says_two_things_is_refused(running: ServedHub, name: str) -> None:
    lines = [b"GET /v1/partitions HTTP/1.1", b"connection: close", b"host: localhost"]
    lines += [name.encode() + b": " + value for value in (b"Bearer one", b"Bearer two")]
    with socket.create_connection(Wire(running.url).address, timeout=30) as plain:
        plain.sendall(b"\r\n".join([*lines, b"", b""]))
        answer = plain.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 400")
    assert f"The header {name} came more than once".encode() in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /v1/recipients/a/peek HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /v1/partitions/0/feed HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /v1/backup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /v1/partitions HTTP/9.9\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
)
def test_browsers_are_not_to_guess_what_an_answer_is(running: ServedHub, sent: bytes) -> None:
    with socket.create_connection(Wire(running.url).address, timeout=30) as plain:
        plain.sendall(sent)
        head = plain.recv(65_536).partition(b"\r\n\r\n")[0]
    assert len(re.findall(rb"(?i)x-content-type-options: nosniff", head)) == 1


@pytest.mark.parametrize(
    ("method", "sent", "status", "code"),
    [
        ("GET", "sec-websocket-version: 13", 400, "invalid_request"),
        ("GET", "sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", 400, "invalid_request"),
        ("POST", "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", 405, "method_not_allowed"),
    ],
)
@pytest.mark.parametrize("given", ["mine", "not mine"])
def test_a_handshake_that_is_none_is_a_problem(
    running: ServedHub, method: str, sent: str, status: int, code: str, given: str
) -> None:
    upgrade = f"host: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nrestante-correlation-id: {given}"
    connection = http.client.HTTPConnection(*Wire(running.url).address, timeout=30)
    connection.connect()
    connection.sock.sendall(f"{method} /v1/publish HTTP/1.1\r\n{upgrade}\r\n{sent}\r\n\r\n".encode())
    response = http.client.HTTPResponse(connection.sock)
    response.begin()
    answer = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    connection.close()
    assert (answer.status, answer.problem["code"]) == (status, code)
    assert (answer.problem["correlation_id"] == "mine") is (given == "mine")
    assert answer.headers.get("allow") == ("GET" if status == 405 else None)
