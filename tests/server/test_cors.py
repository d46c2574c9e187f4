"""CORS as a browser sees it: pages of listed origins use every route and read every answer; pages of others see nothing."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.app import ROUTES
from restante.server.route_table import Route
from restante.server.routes.health import HEALTH_PATHS
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from tests.server.browser import CorsRefused, Page
from tests.server.wire import Wire

APP, EVIL = "https://app.example.org", "https://evil.example"
SETTINGS = Settings(partition_count=2, server=ServerSettings(origins=(APP, "http://localhost:5173")))
ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"
PLACES = {"partition": "0", "recipient": "a%2Fb", "group": "1", "member": ID, "action": "x"}
STREAMS = ("/v1/recipients/{recipient}/live", "/v1/backup")
"""Their answers are long; what a page may read of them is in their heads."""
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cors")


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    (folder / "guarded").mkdir()
    return TokenFile(folder / "guarded" / "tokens.json").create(roles=[Role.OPERATOR])


@pytest.fixture(scope="module")
def guarded(folder: Path, token: str) -> Iterator[ServedHub]:
    assert token
    with start(folder / "guarded", SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[ServedHub]:
    with start(folder / "open", SETTINGS) as running:
        yield running


@pytest.fixture
def served(request: pytest.FixtureRequest) -> ServedHub:
    running = request.getfixturevalue(request.param)
    assert isinstance(running, ServedHub)
    return running


both = pytest.mark.parametrize("served", ["guarded", "opened"], indirect=True)
every_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
every_answer = pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.path not in STREAMS], ids=lambda route: f"{route.method} {route.path}"
)


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: PLACES.get(name[1], ID), path)


@contextmanager
def page(served: ServedHub, origin: str = APP) -> Iterator[Page]:
    with closing(Wire(served.url)) as wire:
        yield Page(origin, wire)


def body_of(route: Route) -> bytes | None:
    return None if route.method == "GET" else b"{}"


@both
@every_answer
def test_a_page_of_a_listed_origin_reads_the_answer_of_every_route(served: ServedHub, token: str, route: Route) -> None:
    """With the token, and without: a refusal must be readable, too."""
    with page(served) as app:
        for sent in (JSON, JSON | {"authorization": f"Bearer {token}"}):
            answer = app.fetch(route.method, filled(route.path), body_of(route), headers=sent)
            assert 200 <= answer.status < 500
            assert answer.headers["restante-correlation-id"]


@every_answer
def test_a_page_of_another_origin_reads_nothing(guarded: ServedHub, token: str, route: Route) -> None:
    with page(guarded, EVIL) as evil:
        for sent in ({}, JSON | {"authorization": f"Bearer {token}"}):
            with pytest.raises(CorsRefused):
                evil.fetch(route.method, filled(route.path), headers=sent)


@every_route
def test_a_page_of_another_origin_does_nothing_to_an_open_hub(opened: ServedHub, route: Route) -> None:
    """A simple request reaches the hub without a preflight, so the hub itself refuses it."""
    simple = {"origin": EVIL, "content-type": "text/plain"}
    with closing(Wire(opened.url)) as wire:
        answer = wire(route.method, filled(route.path), body_of(route), headers=simple)
    assert answer.status == (200 if route.path.encode() in HEALTH_PATHS else 403)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["null", "https://app.example.org.evil.example", "http://app.example.org", "https://a"]
)
def test_an_origin_is_listed_as_a_whole(guarded: ServedHub, token: str, origin: str) -> None:
    with pytest.raises(CorsRefused), page(guarded, origin) as other:
        other.fetch("GET", "/v1/partitions", headers={"authorization": f"Bearer {token}"})


@both
def test_every_listed_origin_gets_its_own_name_and_caches_keep_them_apart(served: ServedHub) -> None:
    with closing(Wire(served.url)) as wire:
        for origin in SETTINGS.server.origins:
            answer = wire.get("/v1/partitions", origin=origin)
            assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (origin, "origin")
        assert wire.get("/v1/partitions").headers["vary"] == "origin"


@both
def test_credentials_of_a_browser_are_never_asked_for(served: ServedHub) -> None:
    """The hub knows no cookies: a page sends its token as a header, and `credentials: "include"` is refused."""
    with page(served) as app:
        with pytest.raises(CorsRefused, match="no credentials"):
            app.fetch("GET", "/v1/partitions", with_credentials=True)
        with pytest.raises(CorsRefused, match="no credentials"):
            app.fetch("POST", "/v1/messages", b"[]", headers=JSON, with_credentials=True)


@both
def test_a_page_sends_and_collects(served: ServedHub, token: str) -> None:
    """The routes that have a short way past the application answer pages all the same, many times on one connection."""
    with page(served) as app:
        send_and_collect(app, JSON | {"authorization": f"Bearer {token}"})


def send_and_collect(app: Page, sent: dict[str, str]) -> None:
    for number in range(5):
        body = b'{"recipient": "ada", "id": "m%d", "text": "hello"}' % number
        stored = app.fetch("POST", "/v1/messages", body, headers=sent)
        assert (stored.status, stored.json()["accepted"]) == (201, 1)
    bundle = app.fetch("GET", "/v1/recipients/ada/peek?max_messages=2", headers=sent)
    assert [message["id"] for message in bundle.json()["messages"]] == ["m0", "m1"]
    own = bundle.headers["restante-bundle-id"]
    assert bundle.headers["restante-message-count"] == "2"
    assert app.fetch("DELETE", f"/v1/recipients/ada/bundles/{own}", headers=sent).json()["messages"] == 2
    again = app.fetch("DELETE", f"/v1/recipients/ada/bundles/{own}", headers=sent)
    assert (again.status, again.json()["code"]) == (404, "bundle_unknown")
    assert app.fetch("PUT", "/v1/groups/g1", b"{}", headers=sent).status == 200
    assert app.fetch("DELETE", "/v1/groups/g1", headers=sent).status == 204
    assert app.fetch("DELETE", "/v1/recipients/ada", headers=sent).json()["messages"] == 5


@both
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/messages", b"{", 400),
        ("POST", "/v1/messages", b'{"recipient": ""}', 400),
        ("GET", "/nowhere", None, 404),
        ("PUT", "/v1/messages", b"", 405),
        ("POST", "/v1/recipients/ada/purge", b"x" * 70_000, 413),
        ("GET", "/v1/recipients/ada/peek?wait=x", None, 400),
    ],
)
def test_what_is_wrong_can_be_read(
    served: ServedHub, token: str, method: str, path: str, body: bytes | None, status: int
) -> None:
    sent = JSON | {"authorization": f"Bearer {token}"}
    with page(served) as app:
        answer = app.fetch(method, path, body, headers=sent)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["correlation_id"] == answer.headers["restante-correlation-id"]


@both
def test_events_and_downloads_say_in_their_heads_who_may_read_them(served: ServedHub, token: str) -> None:
    for path in ("/v1/recipients/ada/live", "/v1/backup"):
        for origin, allowed in ((APP, APP), (EVIL, None)):
            with closing(http.client.HTTPConnection(*Wire(served.url).address, timeout=20)) as connection:
                sent = {"origin": origin, "accept": "text/event-stream", "authorization": f"Bearer {token}"}
                connection.request("GET", path, headers=sent if "live" in path else sent | {"accept": "*/*"})
                answer = connection.getresponse()
                assert answer.status == (403 if origin == EVIL and served.desk.gate.open else 200)
                assert answer.headers["access-control-allow-origin"] == allowed


@both
def test_a_preflight_tells_how_long_it_holds_and_commits_nothing(served: ServedHub) -> None:
    asked = {"origin": APP, "access-control-request-method": "DELETE"}
    with closing(Wire(served.url)) as wire:
        answer = wire("OPTIONS", "/v1/recipients/ada", headers=asked)
    assert (answer.status, answer.headers["access-control-max-age"]) == (204, "600")
    methods = {route.method for route in ROUTES}
    assert methods <= {name.strip() for name in answer.headers["access-control-allow-methods"].split(",")}
