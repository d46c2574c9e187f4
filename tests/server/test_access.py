"""Who may do what: every route for every role, tokens that are wrong, and addresses that need them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from restante.errors import InvalidSettings
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.app import ROUTES
from restante.server.serve import ServedHub, Service, start
from restante.settings import ServerSettings, Settings
from tests.server.wire import Wire

ID = "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a"

NOBODY, EVERYBODY = "", "porxw"
"""Letters: p publisher, o operator, r reader, x recipient, w worker."""
ALLOWED = {
    "POST /v1/messages": "po",
    "POST /v1/sends": "po",
    "POST /v1/partitions/{partition}/parcels": "po",
    "POST /v1/partitions/{partition}/links": "po",
    "GET /v1/partitions/{partition}/producers/{group}": "pro",
    "GET /v1/partitions/{partition}/producers": "pro",
    "GET /v1/backplane": "o",
    "GET /v1/backplane/refused": "o",
    "GET /v1/backplane/refused/{partition}/{position}": "o",
    "POST /v1/backplane/refused/{partition}/{position}/again": "o",
    "DELETE /v1/backplane/refused/{partition}/{position}": "o",
    "GET /v1/sources": "pro",
    "GET /v1/sources/{source}": "pro",
    "POST /v1/sources/{source}/reset": "o",
    "DELETE /v1/sources/{source}": "o",
    "GET /v1/jobs": "prwo",
    "GET /v1/jobs/{job}": "prwo",
    "PUT /v1/jobs/{job}": "prwo",
    "GET /v1/jobs/{job}/runs": "prwo",
    "GET /v1/jobs/{job}/runs/{run}": "prwo",
    "DELETE /v1/jobs/{job}": "o",
    "GET /v1/recipients/{recipient}/peek": "xo",
    "DELETE /v1/recipients/{recipient}/bundles/{bundle_id}": "xo",
    "GET /v1/recipients/{recipient}/explain": "xo",
    "GET /v1/recipients": "o",
    "GET /v1/recipients/{recipient}/messages": "xo",
    "GET /v1/recipients/{recipient}/messages/{id}": "xo",
    "DELETE /v1/recipients/{recipient}/messages/{id}": "o",
    "POST /v1/recipients/{recipient}/messages/{id}/set-aside": "o",
    "POST /v1/recipients/{recipient}/messages/{id}/release": "o",
    "POST /v1/recipients/{recipient}/purge": "o",
    "DELETE /v1/recipients/{recipient}": "o",
    "GET /v1/partitions": "pro",
    "GET /v1/partitions/{partition}": "pro",
    "GET /v1/recipients/{recipient}/partition": "prxo",
    "POST /v1/batches": "po",
    "GET /v1/batches": "pro",
    "POST /v1/batches/reap": "o",
    "GET /v1/batches/{batch}": "pro",
    "DELETE /v1/batches/{batch}": "po",
    "POST /v1/batches/{batch}/items": "po",
    "POST /v1/batches/{batch}/seal": "po",
    "GET /v1/batches/{batch}/pending": "pro",
    "GET /v1/batches/{batch}/progress": "pro",
    "GET /v1/batches/{batch}/wait": "pro",
    "POST /v1/acknowledgements": "po",
    "POST /v1/consignments": "po",
    "GET /v1/consignments": "pro",
    "GET /v1/consignments/{consignment}": "pro",
    "DELETE /v1/consignments/{consignment}": "po",
    "POST /v1/consignments/{consignment}/parcels": "po",
    "POST /v1/consignments/{consignment}/commit": "po",
    "GET /v1/recipients/{recipient}/live": "xo",
    "POST /v1/tickets": "xo",
    "GET /v1/partitions/{partition}/feed": "ro",
    "GET /v1/partitions/{partition}/snapshot": "ro",
    "POST /v1/maintenance/file": "o",
    "POST /v1/maintenance/expire": "o",
    "POST /v1/maintenance/retain": "o",
    "GET /v1/backup": "o",
    "PUT /v1/groups/{group}": "wo",
    "GET /v1/groups": "wro",
    "GET /v1/groups/{group}": "wro",
    "DELETE /v1/groups/{group}": "o",
    "POST /v1/groups/{group}/members": "wo",
    "DELETE /v1/groups/{group}/members/{member}": "wo",
    "POST /v1/groups/{group}/members/{member}/heartbeat": "wo",
    "POST /v1/groups/{group}/members/{member}/next": "wo",
    "PUT /v1/groups/{group}/positions/{partition}": "wo",
    "POST /v1/groups/{group}/positions/{partition}/reset": "o",
    "POST /v1/groups/{group}/pause": "o",
    "POST /v1/groups/{group}/resume": "o",
    "DELETE /v1/groups/{group}/actions/{action}": "o",
    "POST /v1/actions/{action}": "po",
    "POST /v1/actions": "po",
    "GET /v1/actions/{action}": "prxwo",
    "POST /v1/groups/{group}/partitions/{partition}/outcomes": "wo",
    "POST /v1/groups/{group}/outcomes": "wo",
    "GET /v1/groups/{group}/poison": "wo",
    "POST /v1/groups/{group}/poison/{id}/again": "o",
    "DELETE /v1/groups/{group}/poison/{id}": "o",
    "GET /metrics": "ro",
    "GET /v1/health": "ro",
    "GET /v1/rates": "ro",
    "GET /v1/settings": "o",
    "GET /v1/live": "o",
    "GET /v1/whoami": EVERYBODY,
    "GET /v1/nodes": EVERYBODY,
    "POST /v1/nodes/{node}/drain": "o",
    "GET /v1/rounds": "o",
    "GET /v1/tokens": "o",
    "POST /v1/tokens": "o",
    "DELETE /v1/tokens/{token}": "o",
}
OPEN = {"GET /", "GET /livez", "GET /readyz", "GET /startupz", "GET /healthz", "GET /docs"}
OPEN |= {"GET /openapi.json", "GET /asyncapi.json"}
LETTERS = {"p": Role.PUBLISHER, "o": Role.OPERATOR, "r": Role.READER, "x": Role.RECIPIENT, "w": Role.WORKER}
PLACES = {
    "{partition}": "0",
    "{recipient}": "ada",
    "{bundle_id}": ID,
    "{id}": ID,
    "{group}": "7",
    "{batch}": ID,
    "{consignment}": ID,
    "{member}": ID,
    "{action}": "charge",
    "{source}": "orders",
    "{job}": "nightly-run",
    "{run}": "7",
    "{token}": "nosuchid",
    "{node}": "elsewhere",
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    return TokenFile(tmp_path_factory.mktemp("guarded") / "data" / "tokens.json")


@pytest.fixture(scope="module")
def secrets(tokens: TokenFile) -> dict[str, str]:
    """A token for each role: of the origin `default`, of the recipient ada, of the group 7."""
    tokens.path.parent.mkdir()
    made = {}
    for letter, role in LETTERS.items():
        made[letter] = tokens.create(
            roles=[role],
            origins=["default"] if role is Role.PUBLISHER else None,
            recipients=["ada"] if role is Role.RECIPIENT else None,
            groups=["7"] if role is Role.WORKER else None,
        )
    return made


@pytest.fixture(scope="module")
def guarded(tokens: TokenFile, secrets: dict[str, str]) -> Iterator[ServedHub]:
    with start(tokens.path.parent) as running:
        yield running


@pytest.fixture
def call(guarded: ServedHub) -> Iterator[Callable[[str | None], Wire]]:
    made: list[Wire] = []

    def wire(token: str | None) -> Wire:
        made.append(Wire(guarded.url, token=token))
        return made[-1]

    yield wire
    for one in made:
        one.close()


def routes() -> list[str]:
    return [f"{route.method} {route.path}" for route in ROUTES]


def test_the_table_of_access_has_every_route() -> None:
    named = ALLOWED.keys() | OPEN
    assert named - set(routes()) == set()
    assert {route for route in set(routes()) - named if not route.startswith("GET /docs")} == set()


@pytest.mark.parametrize("letter", EVERYBODY)
@pytest.mark.parametrize("route", sorted(ALLOWED))
def test_a_route_is_for_its_roles_alone(
    call: Callable[[str | None], Wire], secrets: dict[str, str], route: str, letter: str
) -> None:
    method, path = route.split(" ")
    for name, value in PLACES.items():
        path = path.replace(name, value)
    body: object = {"messages": []} if path.endswith(("messages", "parcels")) and method == "POST" else None
    answer = call(secrets[letter])(method, path, body)
    if letter in ALLOWED[route]:
        assert answer.status not in (401, 403)
    else:
        assert (answer.status, answer.problem["code"]) == (403, "forbidden")


@pytest.mark.parametrize("route", sorted(ALLOWED))
def test_without_a_token_every_route_but_the_open_ones_is_shut(call: Callable[[str | None], Wire], route: str) -> None:
    method, path = route.split(" ")
    answer = call(None)(method, path.replace("{", "").replace("}", ""))
    assert (answer.status, answer.problem["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", sorted(OPEN))
def test_health_and_documentation_are_open(call: Callable[[str | None], Wire], route: str) -> None:
    assert call(None).get(route.split(" ")[1]).status in (200, 307)
    assert call(None)("HEAD", route.split(" ")[1]).body == b""


def test_a_worker_works_for_its_groups_only(call: Callable[[str | None], Wire], secrets: dict[str, str]) -> None:
    worker, operator = call(secrets["w"]), call(secrets["o"])
    assert operator("PUT", "/v1/groups/others", {}).status == 200
    assert worker("PUT", "/v1/groups/7?change=true", {}).status == 403
    assert operator("PUT", "/v1/groups/7?change=true", {}).status == 200
    assert worker("PUT", "/v1/groups/7", {}).status == 200
    for method, path in (("PUT", ""), ("GET", ""), ("POST", "/members"), ("PUT", "/positions/0")):
        answer = worker(method, f"/v1/groups/others{path}", {} if method != "GET" else None)
        assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    assert [own["group"] for own in worker.get("/v1/groups").json()["groups"]] == ["7"]
    assert call(secrets["r"]).get("/v1/groups/others").status == 200


def test_a_publisher_sends_for_its_origins_only(call: Callable[[str | None], Wire], secrets: dict[str, str]) -> None:
    wire = call(secrets["p"])
    assert wire.publish({"recipient": "ada", "data": 1}).status == 201
    answer = wire.publish({"recipient": "ada", "data": 1}, {"recipient": "ada", "data": 1, "origin": "other"})
    assert (answer.status, answer.problem["origin"]) == (403, "other")


def test_a_numbered_parcel_of_another_origin_is_forbidden_and_uses_no_number(
    call: Callable[[str | None], Wire], secrets: dict[str, str]
) -> None:
    publisher, reader = call(secrets["p"]), call(secrets["r"])
    home = reader.get("/v1/recipients/ada/partition").json()["partition"]
    numbers = {"restante-producer-group": "1", "restante-owner-level": "0", "restante-published-sequence": "0"}
    for origin, status, shown in (("other", 403, 404), ("default", 201, 200)):
        body = {"messages": [{"recipient": "ada", "data": 1, "origin": origin}]}
        assert publisher("POST", f"/v1/partitions/{home}/parcels", body, headers=numbers).status == status
        assert reader.get(f"/v1/partitions/{home}/producers/1").status == shown


def test_a_publisher_of_some_origins_uses_batches_all_the_same(
    call: Callable[[str | None], Wire], secrets: dict[str, str]
) -> None:
    publisher, reader = call(secrets["p"]), call(secrets["r"])
    batch = publisher("POST", "/v1/batches", {"key": "night"}).json()["id"]
    group = publisher("POST", f"/v1/batches/{batch}/items", {"count": 1}).json()["groups"][0]["id"]
    bound = {"messages": [{"recipient": "ada", "data": 1, "origin": "other"}]}
    assert publisher("POST", "/v1/messages", bound, headers={"Restante-Batch": batch}).status == 403
    assert reader.get(f"/v1/batches/{batch}").json()["items"] == 1
    done = publisher("POST", "/v1/acknowledgements", {"items": [f"{batch}:{group}:0"]})
    assert done.json()["acknowledged"] == 1


def test_a_publisher_stages_for_its_origins_only(call: Callable[[str | None], Wire], secrets: dict[str, str]) -> None:
    publisher, reader = call(secrets["p"]), call(secrets["r"])
    consignment = publisher("POST", "/v1/consignments", {"key": "night"}).json()["id"]
    for parcel, (origin, status) in enumerate((("other", 403), ("default", 201))):
        body = {"messages": [{"recipient": "ada", "data": 1, "origin": origin}]}
        place = f"/v1/consignments/{consignment}/parcels?writer=w&attempt=0&parcel={parcel}"
        answer = publisher("POST", place, body)
        assert answer.status == status
    shown = reader.get(f"/v1/consignments/{consignment}").json()
    assert shown["attempts"][0]["parcels"] == shown["staged_messages"] == 1


def test_a_recipient_collects_its_own_mail_only(call: Callable[[str | None], Wire], secrets: dict[str, str]) -> None:
    wire = call(secrets["x"])
    assert wire.get("/v1/recipients/ada/peek").status in (200, 204)
    for path in ("peek", "messages", "explain", f"messages/{ID}", "partition", "live"):
        assert wire.get(f"/v1/recipients/bob/{path}").status == 403


def test_wrong_expired_and_revoked_tokens_are_worth_nothing(
    call: Callable[[str | None], Wire], tokens: TokenFile, secrets: dict[str, str]
) -> None:
    past = datetime.now(UTC) - timedelta(days=2)
    expired = tokens.create(roles=[Role.OPERATOR], now=past, expires_at=past + timedelta(days=1))
    for secret in (expired, secrets["o"][:-1] + "~", "nonsense", ""):
        answer = call(secret).get("/v1/partitions")
        assert (answer.status, answer.problem["code"]) == (401, "unauthenticated")
        assert secret == "" or secret not in json.dumps(answer.json())


def test_a_revoked_token_stops_working_while_the_hub_runs(guarded: ServedHub, tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.OPERATOR])
    known = guarded.desk.gate._tokens
    assert known is not None
    known.listed()  # looks at the file now, not up to a second later
    wire = Wire(guarded.url, token=secret)
    assert wire.get("/v1/partitions").status == 200
    tokens.revoke(secret.split("_")[1])
    known.listed()
    assert wire.get("/v1/partitions").status == 401
    wire.close()


def settings(**server: object) -> Settings:
    return Settings(server=msgspec.convert(server, ServerSettings))


def test_without_tokens_a_hub_is_not_served_to_other_machines(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="--insecure"):
        Service(tmp_path / "data", settings(host="0.0.0.0", port=0))
    assert not (tmp_path / "data" / "restante.db").exists()


def test_whoever_says_insecure_gets_it(tmp_path: Path) -> None:
    with start(tmp_path / "data", host="0.0.0.0", insecure=True) as running:
        port = running.url.rsplit(":", 1)[1]
        assert Wire(f"http://127.0.0.1:{port}").get("/v1/partitions").status == 200


def test_an_open_hub_asks_for_tokens_from_the_moment_there_are_any(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        wire = Wire(running.url)
        assert wire.get("/v1/partitions").status == 200
        secret = TokenFile(tmp_path / "data" / "tokens.json").create(roles=[Role.OPERATOR])
        known = running.desk.gate._tokens
        assert known is not None
        known.listed()  # looks at the file now, not up to a second later
        assert wire.get("/v1/partitions").status == 401
        assert Wire(running.url, token=secret).get("/v1/partitions").status == 200


def test_settings_may_ask_for_tokens_on_loopback_too(tmp_path: Path) -> None:
    with start(tmp_path / "data", settings(access="tokens")) as running:
        assert Wire(running.url).get("/v1/partitions").status == 401


def test_open_access_on_a_network_needs_insecure_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings):
        Service(tmp_path / "data", settings(host="0.0.0.0", port=0, access="open"))
