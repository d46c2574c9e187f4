"""The API of `examples/catalog`: what it reads, what it writes at once, and what it asks workers for."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from examples.catalog.shapes import LIST_ITEMS_MAX
from tests.client.scripted import Canned, ScriptedServer, problem
from tests.examples.catalog_world import KEY, ServedCatalog, served_catalog

LAMP = {"name": "a lamp", "description": "It shines.", "price": 12.5}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCatalog]:
    with served_catalog(tmp_path_factory.mktemp("catalog")) as world:
        yield world


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServedCatalog]:
    """For tests that count, or break the database."""
    with served_catalog(tmp_path) as world:
        yield world


# Items


def test_an_item_is_read_as_it_was_made_in_camel_case_and_without_nulls(catalog: ServedCatalog) -> None:
    made = catalog.ask("POST", "/catalogitem", LAMP, key=KEY)
    assert made.status == 201
    read = catalog.get(made.headers["location"])
    assert (read.status, read.body) == (200, made.body)
    assert set(read.body) == {"id", "name", "description", "price", "lastUpdated"}
    assert (read.body["name"], read.body["price"]) == ("a lamp", 12.5)
    again = catalog.ask("POST", "/catalogitem", {**LAMP, "imageUrl": "/lamp.png"}, key=KEY)
    assert again.body["imageUrl"] == "/lamp.png"
    assert again.body["id"] != made.body["id"]


def test_a_given_id_is_kept_and_given_again_it_replaces_the_item(catalog: ServedCatalog) -> None:
    own_id = str(uuid.uuid4())
    first = catalog.ask("POST", "/catalogitem", {**LAMP, "id": own_id.upper()}, key=KEY)
    assert first.headers["location"] == f"/catalogitem/{own_id}"
    second = catalog.ask("POST", "/catalogitem", {**LAMP, "id": own_id, "name": "a candle"}, key=KEY)
    assert second.status == 201
    assert catalog.get(f"/catalogitem/{own_id}").body["name"] == "a candle"


@pytest.mark.parametrize(
    "body",
    [
        {"price": 3.75},
        {"name": "a candle"},
        {"description": "It burns."},
        {"imageUrl": "/candle.png"},
        {"price": 0},
        {},
    ],
)
def test_put_changes_only_what_is_sent(catalog: ServedCatalog, body: dict[str, object]) -> None:
    path = catalog.new_item()
    before = catalog.get(path).body
    changed = catalog.ask("PUT", path, body, key=KEY)
    assert changed.status == 200
    after = catalog.get(path).body
    assert after == changed.body == {**before, **body, "lastUpdated": after["lastUpdated"]}
    assert after["lastUpdated"] > before["lastUpdated"]


@pytest.mark.parametrize("left_out", ["name", "description", "price"])
@pytest.mark.parametrize("as_null", [False, True])
def test_an_item_without_name_description_or_price_is_refused(
    catalog: ServedCatalog, left_out: str, as_null: bool
) -> None:
    body = {name: value for name, value in LAMP.items() if name != left_out}
    refused = catalog.ask("POST", "/catalogitem", body | ({left_out: None} if as_null else {}), key=KEY)
    assert (refused.status, refused.detail) == (400, "Missing required fields")


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("POST", {**LAMP, "name": "  "}),
        ("POST", {**LAMP, "price": -1}),
        ("POST", {**LAMP, "price": "cheap"}),
        ("POST", {**LAMP, "id": "seven"}),
        ("POST", {**LAMP, "name": 7}),
        ("POST", b"{"),
        ("POST", b"\xff"),
        ("POST", b"[" * 50_000),
        ("POST", []),
        ("POST", b""),
        ("PUT", {"name": ""}),
        ("PUT", {"price": -0.01}),
    ],
)
def test_what_makes_no_sense_is_refused(catalog: ServedCatalog, method: str, body: object) -> None:
    path = catalog.new_item() if method == "PUT" else "/catalogitem"
    refused = catalog.ask(method, path, body, key=KEY)
    assert refused.status == 400
    assert refused.detail


def test_a_list_has_at_most_100_items_by_name_without_their_descriptions(own: ServedCatalog) -> None:
    assert own.get("/catalogitem").body == []
    for number in reversed(range(LIST_ITEMS_MAX + 1)):
        own.new_item(f"lamp {number:03d}")
    listed = own.get("/catalogitem").body
    assert [item["name"] for item in listed] == [f"lamp {number:03d}" for number in range(LIST_ITEMS_MAX)]
    assert all("description" not in item for item in listed)


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("PUT", "/{id}"), ("DELETE", "/{id}")])
@pytest.mark.parametrize(
    ("headers", "detail"), [({}, "Api Key was not provided"), ({"key": "a key"}, "Api Key is not valid")]
)
def test_items_are_changed_with_the_api_key_only(
    catalog: ServedCatalog, method: str, path: str, headers: dict[str, str], detail: str
) -> None:
    path = "/catalogitem" + path.replace("{id}", str(uuid.uuid4()))
    refused = catalog.ask(method, path, LAMP, **headers)
    assert (refused.status, refused.detail) == (401, detail)
    assert catalog.asked() == []


@pytest.mark.parametrize("kind", ["comments", "ratings"])
def test_comments_and_ratings_are_deleted_with_the_api_key_only(catalog: ServedCatalog, kind: str) -> None:
    path = f"/catalogitem/{uuid.uuid4()}/{kind}/{uuid.uuid4()}"
    assert catalog.ask("DELETE", path).detail == "Api Key was not provided"
    assert catalog.asked() == []


UNKNOWN = f"/catalogitem/{uuid.UUID(int=1)}"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", UNKNOWN, None),
        ("PUT", UNKNOWN, {"name": "a candle"}),
        ("GET", f"{UNKNOWN}/comments", None),
        ("GET", f"{UNKNOWN}/comments/{uuid.UUID(int=2)}", None),
        ("POST", f"{UNKNOWN}/comments", {"authorName": "ada", "text": "good"}),
        ("GET", f"{UNKNOWN}/ratings", None),
        ("GET", f"{UNKNOWN}/ratings/{uuid.UUID(int=2)}", None),
        ("POST", f"{UNKNOWN}/ratings", {"rating": 5}),
        ("GET", "/catalogitem/seven", None),
        ("GET", "/catalogitem/", None),
        ("GET", "/", None),
        ("GET", "/catalogitems", None),
        ("GET", f"{UNKNOWN}/comments/{uuid.UUID(int=2)}/more", None),
    ],
)
def test_what_is_not_there_is_404(catalog: ServedCatalog, method: str, path: str, body: object) -> None:
    missing = catalog.ask(method, path, body, key=KEY)
    assert missing.status == 404
    assert missing.detail
    assert catalog.asked() == []


def test_another_method_is_405_and_the_answer_says_which_are_allowed(catalog: ServedCatalog) -> None:
    refused = catalog.ask("PATCH", "/catalogitem", {})
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")


def test_a_body_that_is_too_large_is_413(catalog: ServedCatalog) -> None:
    assert catalog.ask("POST", "/catalogitem", b" " * 70_000, key=KEY).status == 413


@pytest.mark.parametrize(
    ("given", "kept"), [("order-7", True), ("", False), ("x" * 200, False), ("\xe9", False)], ids=repr
)
def test_each_answer_has_the_correlation_id_of_its_request_or_a_new_one(
    catalog: ServedCatalog, given: str, kept: bool
) -> None:
    missing = catalog.ask("GET", UNKNOWN, X_Correlation_ID=given)
    assert missing.detail
    assert (missing.headers["x-correlation-id"] == given) is kept
    assert catalog.ask("GET", "/catalogitem", X_Correlation_ID="order-8").headers["x-correlation-id"] == "order-8"


# Comments and ratings


def test_a_comment_is_accepted_with_its_address_which_is_404_until_it_is_done(catalog: ServedCatalog) -> None:
    path = catalog.new_item()
    accepted = catalog.ask("POST", f"{path}/comments", {"authorName": "ada", "text": "good"})
    assert accepted.status == 202
    location = accepted.headers["location"]
    assert location == f"{path}/comments/{accepted.body['id']}"
    assert catalog.get(location).status == 404
    assert catalog.get(f"{path}/comments").body == []
    (asked,) = catalog.asked()
    action_id, item_id = accepted.headers["x-action-id"], path.rpartition("/")[2]
    assert (asked.name, asked.item_id, asked.id) == ("add_comment", item_id, action_id)
    catalog.work()
    assert catalog.get(location).body == accepted.body
    assert catalog.get(f"{path}/comments").body == [accepted.body]
    assert set(accepted.body) == {"id", "catalogItemId", "authorName", "text", "creationDate"}


def test_the_handler_of_an_action_knows_the_correlation_id_of_its_request(catalog: ServedCatalog) -> None:
    path = catalog.new_item()
    catalog.ask("POST", f"{path}/ratings", {"rating": 5}, X_Correlation_ID="order-10")
    with restante.connect(catalog.hub_url) as hub:
        rows = [row for page in hub.feed(recipients=[path.rpartition("/")[2]]) for row in page.table.to_pylist()]
    assert [dict(row["properties"])["correlation_id"] for row in rows] == ["order-10"]
    catalog.work()


def test_the_ten_newest_comments_are_listed_the_newest_first(catalog: ServedCatalog) -> None:
    path = catalog.new_item()
    for number in range(12):
        catalog.ask("POST", f"{path}/comments", {"authorName": "ada", "text": str(number)})
    catalog.work()
    shown = [comment["text"] for comment in catalog.get(f"{path}/comments").body]
    assert shown == [str(number) for number in reversed(range(2, 12))]


def test_ratings_have_an_average_and_a_number_of_votes(catalog: ServedCatalog) -> None:
    path = catalog.new_item()
    assert catalog.get(f"{path}/ratings").body == {"averageRating": 0, "numberOfVotes": 0}
    answers = [catalog.ask("POST", f"{path}/ratings", {"rating": rating}) for rating in (1, 5, 4, 4)]
    assert [one.status for one in answers] == [202] * 4
    accepted = answers[-1]
    assert catalog.get(accepted.headers["location"]).status == 404
    catalog.work()
    assert catalog.get(accepted.headers["location"]).body == accepted.body
    assert catalog.get(f"{path}/ratings").body == {"averageRating": 3.5, "numberOfVotes": 4}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("comments", {"text": "good"}),
        ("comments", {"authorName": "ada"}),
        ("comments", {"authorName": "ada", "text": " "}),
        ("comments", {"authorName": "ada", "text": "good", "id": "seven"}),
        ("ratings", {}),
        ("ratings", {"rating": 0}),
        ("ratings", {"rating": 6}),
        ("ratings", {"rating": 2.5}),
        ("ratings", {"rating": "5"}),
        ("ratings", {"rating": None}),
    ],
)
def test_a_comment_without_author_or_text_and_a_rating_outside_1_to_5_are_refused(
    catalog: ServedCatalog, kind: str, body: object
) -> None:
    refused = catalog.ask("POST", f"{catalog.new_item()}/{kind}", body)
    assert refused.status == 400
    assert refused.detail
    assert catalog.asked() == []


def test_a_comment_given_twice_with_one_id_is_one(catalog: ServedCatalog) -> None:
    path, own_id = catalog.new_item(), str(uuid.uuid4())
    for text in ("god", "good"):
        catalog.ask("POST", f"{path}/comments", {"id": own_id, "authorName": "ada", "text": text})
    catalog.work()
    assert [comment["text"] for comment in catalog.get(f"{path}/comments").body] == ["good"]


# Deletions


@pytest.mark.parametrize(
    ("kind", "body"), [("comments", {"authorName": "ada", "text": "good"}), ("ratings", {"rating": 5})]
)
def test_what_is_deleted_is_there_until_it_is_done(catalog: ServedCatalog, kind: str, body: object) -> None:
    path = catalog.new_item()
    location = catalog.ask("POST", f"{path}/{kind}", body).headers["location"]
    catalog.work()
    deleted = catalog.ask("DELETE", location, key=KEY)
    assert (deleted.status, deleted.headers["location"], deleted.body) == (202, location, None)
    assert catalog.get(location).status == 200
    catalog.work()
    assert catalog.get(location).status == 404


def test_an_item_goes_with_its_comments_and_ratings(catalog: ServedCatalog) -> None:
    path = catalog.new_item()
    comment = catalog.ask("POST", f"{path}/comments", {"authorName": "ada", "text": "good"}).headers["location"]
    rating = catalog.ask("POST", f"{path}/ratings", {"rating": 5}).headers["location"]
    assert catalog.ask("DELETE", path, key=KEY).status == 202
    late = catalog.ask("POST", f"{path}/comments", {"authorName": "ben", "text": "too late"}).headers["location"]
    catalog.work()
    assert [catalog.get(one).status for one in (path, comment, rating, late)] == [404] * 4


@pytest.mark.parametrize(
    "path", [UNKNOWN, f"{UNKNOWN}/comments/{uuid.UUID(int=2)}", f"{UNKNOWN}/ratings/{uuid.UUID(int=2)}"]
)
def test_deleting_what_is_not_there_is_accepted_and_done(catalog: ServedCatalog, path: str) -> None:
    assert catalog.ask("DELETE", path, key=KEY).status == 202
    catalog.work()
    assert catalog.get(path).status == 404


# Test data


def test_test_data_is_gone_after_30_seconds_and_other_data_never(
    own: ServedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = own.new_item()
    made = [own.new_item(X_Test_Data="true")]
    for kind, body in (("comments", {"authorName": "ada", "text": "good"}), ("ratings", {"rating": 5})):
        own.ask("POST", f"{kept}/{kind}", body)
        made.append(own.ask("POST", f"{kept}/{kind}", body, X_Test_Data="True").headers["location"])
    own.work()
    assert [own.get(path).status for path in made] == [200] * 3
    assert len(own.get("/catalogitem").body) == len(own.get(f"{kept}/comments").body) == 2
    own.ask("PUT", made[0], {"name": "a candle"}, key=KEY)  # It does not live longer.
    now = time.time()
    for later, status in ((15, 200), (31, 404)):
        monkeypatch.setattr("time.time", lambda later=later: now + later)
        assert [own.get(path).status for path in made] == [status] * 3
    assert len(own.get("/catalogitem").body) == len(own.get(f"{kept}/comments").body) == 1
    assert own.get(f"{kept}/ratings").body["numberOfVotes"] == 1
    own.new_item()  # With a write, what is gone leaves the disk too.
    with sqlite3.connect(own.path) as connection:
        assert connection.execute("SELECT count(*) FROM comments").fetchone() == (1,)
    connection.close()


# Failures


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (problem(429, "overloaded", retry_after=1), 503),
        (problem(503, "unavailable", retry_after=1), 500),
        (problem(507, "storage_full"), 500),
        (problem(409, "message_conflict"), 500),
        (problem(401, "unauthenticated"), 500),
        (Canned(502, b"a proxy"), 500),
    ],
    ids=lambda value: str(getattr(value, "status", value)),
)
def test_a_busy_hub_is_503_and_other_errors_of_the_hub_are_500(tmp_path: Path, said: Canned, status: int) -> None:
    with ScriptedServer(said) as hub, served_catalog(tmp_path, hub.url) as catalog:
        path = catalog.new_item()
        failed = catalog.ask("POST", f"{path}/ratings", {"rating": 5}, X_Correlation_ID="order-9")
    assert failed.status == status
    assert failed.detail.startswith("The hub")
    assert failed.body["correlationId"] == "order-9"
    assert ("retry-after" in failed.headers) is (status == 503)


def test_a_hub_that_is_not_there_is_500_and_reads_go_on(tmp_path: Path) -> None:
    with served_catalog(tmp_path, "http://127.0.0.1:9") as catalog:
        path = catalog.new_item()
        assert catalog.ask("POST", f"{path}/ratings", {"rating": 5}).status == 500
        assert catalog.get(path).status == 200


def test_a_database_that_has_too_much_to_do_is_503(own: ServedCatalog) -> None:
    other = sqlite3.connect(own.path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        failed = own.ask("POST", "/catalogitem", LAMP, key=KEY)
        assert (failed.status, failed.headers["retry-after"]) == (503, "1")
        assert failed.detail
        other.execute("ROLLBACK")
    finally:
        other.close()
    assert own.ask("POST", "/catalogitem", LAMP, key=KEY).status == 201


def test_a_database_that_is_not_available_is_500(own: ServedCatalog) -> None:
    path = own.new_item()
    assert own.get("/healthz").status == 200
    with sqlite3.connect(own.path) as other:
        other.execute("DROP TABLE items")
    other.close()
    answers = [own.get("/catalogitem"), own.get(path), own.ask("POST", f"{path}/ratings", {"rating": 5})]
    answers += [own.ask("POST", "/catalogitem", LAMP, key=KEY), own.get("/healthz")]
    assert {(one.status, one.detail) for one in answers} == {(500, "The database is not available.")}
    assert own.asked() == []
