"""What operators look at over HTTP: rates, settings, tokens, connected clients, and recipients by a part of their names."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import restante
from restante.client.surface import Hub
from restante.errors import InvalidRequest
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, Service, start
from restante.settings import OriginSettings, Settings
from restante.stores.memory import MemoryStore
from tests.server.wire import Wire


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[ServedHub, str]]:
    """A hub that asks for tokens, and one of an operator."""
    folder = tmp_path / "closed"
    folder.mkdir()
    secret = TokenFile(folder / "tokens.json").create(roles=[Role.OPERATOR])
    with start(folder) as running:
        yield running, secret


def test_rates_count_what_happened_since_the_sample_before(running: ServedHub, wire: Wire) -> None:
    running.desk.rates.take()
    first = wire.get("/v1/rates").json()
    wire.publish({"recipient": "ada", "data": 1}, {"recipient": "bob", "data": 2})
    bundle = wire.get("/v1/recipients/ada/peek").headers["restante-bundle-id"]
    wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}")
    running.desk.rates.take()

    fresh = wire.get(f"/v1/rates?after={first['next']}").json()
    assert len(fresh["at"]) == 1
    assert (fresh["accepted"], fresh["collected"], fresh["waiting"]) == ([2], [1], [1])
    assert fresh["commits"][0] >= 2
    assert fresh["commit_ms"][0] > 0
    assert fresh["next"] == first["next"] + 1


def test_rates_forget_what_is_older_than_an_hour(running: ServedHub, wire: Wire) -> None:
    for _ in range(800):
        running.desk.rates.take()
    assert len(wire.get("/v1/rates").json()["at"]) == 720


def test_settings_say_where_they_came_from_and_hide_secrets(tmp_path: Path) -> None:
    secret = "whsec_" + "A" * 32
    settings = Settings(origins={"billing": OriginSettings(secret=secret, content_url="http://127.0.0.1:1/")})
    service = Service(
        None, _on_a_free_port(settings), store=MemoryStore(), places={("filing",): "environment RESTANTE_FILING"}
    )
    with ServedHub(service) as running:
        answer = Wire(running.url).get("/v1/settings")
    shown = {one["key"]: one for one in answer.json()["settings"]}
    assert shown["filing"]["source"] == "environment RESTANTE_FILING"
    assert shown["partition_count"] == {"key": "partition_count", "value": 16, "source": "default"}
    assert shown["origins.billing.secret"]["value"] == "(not shown)"
    assert secret.encode() not in answer.body


def _on_a_free_port(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=0))


def test_an_operator_makes_lists_and_revokes_tokens(closed: tuple[ServedHub, str]) -> None:
    running, secret = closed
    wire = Wire(running.url, token=secret)
    made = wire("POST", "/v1/tokens", {"roles": ["recipient"], "recipients": ["ada"], "note": "Ada's phone"})
    assert made.status == 201
    other = Wire(running.url, token=made.json()["token"])
    who = other.get("/v1/whoami").json()
    assert (who["name"], who["roles"], who["recipients"], who["open"]) == (
        made.json()["id"],
        ["recipient"],
        ["ada"],
        False,
    )

    listed = wire.get("/v1/tokens").json()["tokens"]
    assert [token["note"] for token in listed] == ["Ada's phone", ""]
    assert made.json()["token"].encode() not in wire.get("/v1/tokens").body
    assert [token["id"] for token in wire.get("/v1/tokens?limit=1&after=1").json()["tokens"]] == [listed[1]["id"]]

    revoked = wire("DELETE", f"/v1/tokens/{made.json()['id']}")
    assert (revoked.status, revoked.json()["state"]) == (200, "revoked")
    assert other.get("/v1/whoami").status == 401


def test_a_token_does_not_revoke_itself(closed: tuple[ServedHub, str]) -> None:
    running, secret = closed
    wire = Wire(running.url, token=secret)
    own = wire.get("/v1/whoami").json()["name"]
    assert wire("DELETE", f"/v1/tokens/{own}").problem["code"] == "invalid_request"
    assert wire.get("/v1/whoami").status == 200


def test_a_wrong_token_is_not_made(closed: tuple[ServedHub, str]) -> None:
    running, secret = closed
    wire = Wire(running.url, token=secret)
    wrong: tuple[dict[str, object], ...] = (
        {"roles": []},
        {"roles": ["king"]},
        {"roles": ["reader"], "recipients": ["ada"]},
        {"roles": ["reader"], "expires_at": "2001-01-01T00:00:00Z"},
        {"roles": ["recipient"], "recipients": []},
    )
    for body in wrong:
        assert wire("POST", "/v1/tokens", body).problem["code"] == "invalid_request", body
    assert len(wire.get("/v1/tokens").json()["tokens"]) == 1


def test_an_open_hub_is_not_closed_over_the_network(wire: Wire) -> None:
    assert wire("POST", "/v1/tokens", {"roles": ["operator"]}).problem["code"] == "forbidden"
    assert wire("DELETE", "/v1/tokens/abcdefgh").problem["code"] == "forbidden"
    assert wire.get("/v1/whoami").json()["open"] is True


def test_connected_clients_are_listed(running: ServedHub, wire: Wire) -> None:
    connection = http.client.HTTPConnection(*wire.address, timeout=30)
    connection.request("GET", "/v1/recipients/ada/live?client=phone", headers={"accept": "text/event-stream"})
    answer = connection.getresponse()
    while b"connected" not in answer.readline():
        pass
    listed = wire.get("/v1/live").json()
    assert [(one["recipient"], one["client"], one["queued"]) for one in listed["clients"]] == [("ada", "phone", 0)]
    assert listed["next"] is None
    connection.close()


@pytest.mark.parametrize("place", ["served", "in process"])
def test_recipients_are_found_by_a_part_of_their_names(
    running: ServedHub, tmp_path: Path, place: str, wire: Wire
) -> None:
    opened: Callable[[], Hub] = (
        (lambda: restante.connect(running.url)) if place == "served" else (lambda: restante.open(tmp_path / "own"))
    )
    with opened() as hub:
        hub.send([{"recipient": name, "data": 1} for name in ("Alice", "alison", "bob", "natalia", "ÅLI", "a.i")])
        assert {one.recipient for one in hub.recipients(search="ALI").recipients} == {"Alice", "alison", "natalia"}
        assert [one.recipient for one in hub.recipients(search="a.i").recipients] == ["a.i"]
        page = hub.recipients(search="ali", limit=2)
        rest = hub.recipients(search="ali", limit=2, after=page.next)
        assert len(page.recipients) == 2
        assert len(rest.recipients) == 1
        assert hub.recipients(search="nobody").recipients == ()
        with pytest.raises(InvalidRequest):
            hub.recipients(search=" ")
