"""Batches over bare HTTP: opened, added to, sealed, listed, reaped, counted."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from restante.limits import BATCH_ITEMS_MAX
from restante.server.serve import start
from restante.settings import Settings, WebhookSettings
from tests.server.batching import (
    ID,
    OTHER,
    SECRET,
    acknowledged,
    added,
    counted,
    opened,
    refusal,
    sealed,
    shown,
)
from tests.server.wire import Wire
from tests.waiting import wait_until
from tests.webhooks.receiver import receiving, says


def test_a_proposed_id_may_be_proposed_again_with_the_same_arguments_only(wire: Wire) -> None:
    first = wire("POST", "/v1/batches", {"id": ID.upper(), "key": "night"})
    assert first.json() == {"id": ID, "key": "night", "state": "open"}
    assert wire("POST", "/v1/batches", {"id": ID, "key": "night"}).json() == first.json()
    assert refusal(wire("POST", "/v1/batches", {"id": ID, "key": "other"})) == (400, "invalid_request")
    assert len(wire.get("/v1/batches").json()["batches"]) == 1


def test_an_id_that_the_hub_makes_is_of_version_7(wire: Wire) -> None:
    assert uuid.UUID(wire("POST", "/v1/batches").json()["id"]).version == 7


def test_a_secret_that_the_hub_makes_is_told_and_one_that_is_given_is_not(wire: Wire) -> None:
    hook = {"url": "https://example.org/done"}
    made = wire("POST", "/v1/batches", {"webhook": hook})
    assert made.json()["webhook_secret"].startswith("whsec_")
    assert made.headers["cache-control"] == "no-store"
    given = wire("POST", "/v1/batches", {"webhook": {**hook, "secret": SECRET}})
    assert "webhook_secret" not in given.json()
    for batch in (made, given):
        assert "whsec_" not in wire.get(f"/v1/batches/{batch.json()['id']}").body.decode()


def test_a_unique_key_is_refused_while_another_open_batch_has_it(wire: Wire) -> None:
    first = opened(wire, key="night")
    answer = wire("POST", "/v1/batches", {"key": "night", "unique": True})
    assert refusal(answer) == (409, "batch_key_used")
    assert answer.problem["batch"] == first
    opened(wire, key="night")
    assert len(wire.get("/v1/batches?key=night").json()["batches"]) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"id": "night"}, "id"),
        ({"id": 7}, "id"),
        ({"key": ""}, "key"),
        ({"key": "x" * 257}, "key"),
        ({"unique": 1}, "unique"),
        ({"counting": "roughly"}, "counting"),
        ({"webhook": "https://example.org"}, "webhook"),
        ({"webhook": {"url": "ftp://example.org"}}, None),
        ({"webhook": {"url": "https://example.org", "secret": "open sesame"}}, None),
        ({"webhook": {"url": "https://example.org", "method": "GET"}}, None),
        ({"notify": ""}, "notify"),
        ({"notify": " "}, None),
        ({"notify": ".."}, None),
        ({"notify": "a\tb"}, None),
        ({"kye": "night"}, "kye"),
        (b"{", None),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(wire: Wire, body: object, field: str | None) -> None:
    answer = wire("POST", "/v1/batches", body)
    assert refusal(answer) == (400, "invalid_request")
    if field is not None:
        assert answer.problem["field"] == field
    assert "open sesame" not in answer.body.decode()
    assert wire.get("/v1/batches").json() == {"batches": [], "next": None}


def test_a_request_to_add_that_is_repeated_adds_once(wire: Wire) -> None:
    batch = opened(wire)
    asked = {"count": 5, "request_id": OTHER}
    first = wire("POST", f"/v1/batches/{batch}/items", asked)
    assert wire("POST", f"/v1/batches/{batch}/items", {**asked, "request_id": OTHER.upper()}).json() == first.json()
    assert shown(wire, batch)["items"] == 5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": 0}, "count"),
        ({"count": -1}, "count"),
        ({"count": BATCH_ITEMS_MAX + 1}, "count"),
        ({"count": 10**30}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": "3"}, "count"),
        ({"count": True}, "count"),
        ({}, "count"),
        (b"", "count"),
        ({"count": 1, "request_id": "x"}, "request_id"),
        ({"count": 1, "items": 2}, "items"),
    ],
)
def test_adding_what_makes_no_sense_is_refused_and_the_field_named(wire: Wire, body: object, field: str) -> None:
    batch = opened(wire)
    answer = wire("POST", f"/v1/batches/{batch}/items", body)
    assert refusal(answer) == (400, "invalid_request")
    assert answer.problem["field"] == field
    assert shown(wire, batch)["items"] == 0


def test_nothing_is_added_to_a_sealed_batch(wire: Wire) -> None:
    batch = opened(wire)
    assert sealed(wire, batch) is True
    answer = wire("POST", f"/v1/batches/{batch}/items", {"count": 1})
    assert refusal(answer) == (409, "batch_sealed")
    assert answer.problem["retriable"] is False


@pytest.mark.parametrize("batch", [OTHER, "deleted"])
def test_a_batch_that_there_is_not_is_a_404_everywhere(wire: Wire, batch: str) -> None:
    if batch == "deleted":
        batch = opened(wire)
        assert wire("DELETE", f"/v1/batches/{batch}").status == 204
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/items"),
        ("POST", "/seal"),
        ("GET", "/pending"),
        ("GET", "/progress"),
        ("GET", "/wait?seconds=20"),
    ):
        answer = wire(method, f"/v1/batches/{batch}{path}", {"count": 1} if path == "/items" else None)
        assert refusal(answer) == (404, "batch_unknown"), path
    assert acknowledged(wire, f"{batch}:0:0")["unknown"] == [f"{batch}:0:0"]


@pytest.mark.parametrize("name", ["night", "1", "%20", ID[:-1], f"%7B{ID}%7D"])
def test_a_name_that_is_no_uuid_is_a_400(wire: Wire, name: str) -> None:
    assert refusal(wire.get(f"/v1/batches/{name}")) == (400, "invalid_request")
    assert refusal(wire.get(f"/v1/batches/{name}/wait?seconds=20")) == (400, "invalid_request")


# Lists


def test_batches_are_listed_newest_first_in_pages_and_by_state(wire: Wire) -> None:
    made = [opened(wire, key=key) for key in ("a", "b", "a", "c", "d")]
    sealed(wire, made[1])
    added(wire, made[3], 1)
    sealed(wire, made[3])
    listed: list[str] = []
    after = ""
    while True:
        page = wire.get(f"/v1/batches?limit=2{after}").json()
        listed += [found["id"] for found in page["batches"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert listed == made[::-1]
    by = {
        name: wire.get(f"/v1/batches?{name}").json()["batches"] for name in ("state=complete", "state=sealed", "key=a")
    }
    assert {name: [found["id"] for found in batches] for name, batches in by.items()} == {
        "state=complete": [made[1]],
        "state=sealed": [made[3]],
        "key=a": [made[2], made[0]],
    }


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("state=done", "state"), ("limit=0", "limit"), ("limit=x", "limit"), ("after=x", None), ("page=2", "page")],
)
def test_a_wrong_query_is_refused_and_named(wire: Wire, query: str, parameter: str | None) -> None:
    answer = wire.get(f"/v1/batches?{query}")
    assert refusal(answer) == (400, "invalid_request")
    assert query.split("=", maxsplit=1)[0] in answer.problem["detail"]
    if parameter is not None:
        assert answer.problem["parameter"] == parameter


def test_pending_items_come_in_pages(wire: Wire) -> None:
    batch = opened(wire)
    items = added(wire, batch, 4) + added(wire, batch, 3)
    acknowledged(wire, items[1], items[4])
    left = [item for item in items if item not in (items[1], items[4])]
    page = wire.get(f"/v1/batches/{batch}/pending?limit=3").json()
    rest = wire.get(f"/v1/batches/{batch}/pending?limit=3&after={page['next']}").json()
    assert page["items"] + rest["items"] == left
    assert rest["next"] is None
    estimated = opened(wire, counting="estimated")
    assert refusal(wire.get(f"/v1/batches/{estimated}/pending")) == (400, "invalid_request")


def test_reaping_leaves_what_is_in_use(wire: Wire) -> None:
    batch = opened(wire)
    assert wire("POST", "/v1/batches/reap", {"dry_run": True}).json() == {"batches": []}
    assert wire("POST", "/v1/batches/reap").json() == {"batches": []}
    assert shown(wire, batch)["state"] == "open"
    assert refusal(wire("POST", "/v1/batches/reap", {"dry": True})) == (400, "invalid_request")


def test_a_batch_that_nobody_uses_is_reaped_and_named(tmp_path: Path) -> None:
    settings = Settings(open_batch_retention_seconds=0, housekeeping_seconds=0)
    with start(tmp_path / "data", settings) as running:
        wire = Wire(running.url)
        batch = opened(wire, key="orphan")
        wait_until(lambda: bool(wire("POST", "/v1/batches/reap", {"dry_run": True}).json()["batches"]))
        assert shown(wire, batch)["state"] == "open"
        (reaped,) = wire("POST", "/v1/batches/reap").json()["batches"]
        assert (reaped["id"], reaped["key"], reaped["state"]) == (batch, "orphan", "open")
        assert reaped["idle_since"].endswith("Z")
        assert wire.get(f"/v1/batches/{batch}").status == 404
        assert counted(wire)["restante_batches_reaped_total"] == 1
        wire.close()


def test_batches_and_their_items_are_counted(wire: Wire) -> None:
    batch = opened(wire)
    opened(wire)
    items = added(wire, batch, 3)
    acknowledged(wire, *items[:2])
    acknowledged(wire, *items[:2])
    assert counted(wire)["restante_batches_completed_total"] == 0
    sealed(wire, batch)
    acknowledged(wire, *items)
    values = counted(wire)
    assert values["restante_batches_opened_total"] == 2
    assert values["restante_batches_completed_total"] == 1
    assert values["restante_batch_items_acknowledged_total"] == 3
    assert values["restante_publishes_in_flight"] == values["restante_publish_in_flight_bytes"] == 0


def test_a_message_of_a_completion_is_counted_as_delivered(wire: Wire) -> None:
    batch = opened(wire, key="night", notify="operator")
    assert sealed(wire, batch) is True
    answer = wire.came("operator")
    assert (answer["origin"], answer["kind"]) == ("restante", "batch_completed")
    assert answer["messages"][0]["data"]["id"] == batch
    wait_until(lambda: counted(wire).get('restante_batch_notices_total{result="delivered",to="notify"}') == 1)


def test_a_webhook_is_called_by_a_served_hub_and_its_attempts_are_shown_and_counted(tmp_path: Path) -> None:
    settings = Settings(webhooks=WebhookSettings(allowed_networks=("127.0.0.0/8",)))
    with receiving() as receiver, start(tmp_path / "data", settings) as running:
        wire = Wire(running.url)
        receiver.answer = says(500, 200)
        batch = opened(wire, key="night", webhook={"url": receiver.url, "secret": SECRET})
        assert sealed(wire, batch) is True
        first, second = receiver.next(), receiver.next()
        assert first.webhook_id == second.webhook_id == batch
        completed_at = shown(wire, batch)["completed_at"]
        assert second.verified(SECRET) == {
            "id": batch,
            "key": "night",
            "completed_at": completed_at,
            "items": 0,
            "duplicates": 0,
            "duplicates_waiting": 0,
        }
        wait_until(lambda: shown(wire, batch)["deliveries"][0]["delivered_at"] is not None)
        (delivery,) = shown(wire, batch)["deliveries"]
        assert (delivery["to"], delivery["attempts"], delivery["next_attempt_at"]) == ("webhook", 2, None)
        values = counted(wire)
        assert values['restante_batch_notices_total{result="failed",to="webhook"}'] == 1
        assert values['restante_batch_notices_total{result="delivered",to="webhook"}'] == 1
        wire.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://localhost/", "http://[::1]/", "http://169.254.169.254/x"]
)
def test_a_webhook_inside_the_hubs_own_network_is_refused_when_it_is_given(wire: Wire, url: str) -> None:
    for path, body in (
        ("/v1/batches", {"webhook": {"url": url}}),
        ("/v1/consignments", {"key": "night", "batch": {"webhook": {"url": url}}}),
    ):
        answer = wire("POST", path, body)
        assert refusal(answer) == (400, "invalid_request")
        assert "webhooks.allowed_networks" in answer.json()["detail"]
    assert wire.get("/v1/batches").json()["batches"] == []
    assert wire.get("/v1/consignments").json()["consignments"] == []
