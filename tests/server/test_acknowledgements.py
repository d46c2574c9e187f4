"""Acknowledging over bare HTTP: items, ranges, calls of every size, and what is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from restante.limits import ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_SMALL_MAX
from restante.server.serve import start
from restante.settings import ServerSettings, Settings
from tests.server.batching import (
    COUNTINGS,
    ID,
    OTHER,
    acknowledged,
    added,
    opened,
    refusal,
    sealed,
    shown,
)
from tests.server.wire import Wire
from tests.waiting import wait_until


@COUNTINGS
def test_a_batch_is_complete_when_it_is_sealed_and_all_is_acknowledged(wire: Wire, counting: str) -> None:
    batch = opened(wire, key="night", counting=counting)
    first, second, third = added(wire, batch, 3)
    assert acknowledged(wire, first, second) == {"acknowledged": 2, "complete": [], "unknown": []}
    assert sealed(wire, batch) is False
    assert shown(wire, batch)["state"] == "sealed"
    done = {"acknowledged": 1, "complete": [{"id": batch, "key": "night"}], "unknown": []}
    assert acknowledged(wire, third) == done
    assert sealed(wire, batch) is True
    status = shown(wire, batch)
    assert (status["state"], status["items"], status["pending"], status["acknowledged"]) == ("complete", 3, 0, 3)
    assert status["completed_at"] is not None


def test_the_answer_of_an_acknowledgement_has_its_fields_in_order(wire: Wire) -> None:
    (item,) = added(wire, opened(wire), 1)
    answer = wire("POST", "/v1/acknowledgements", {"items": [item]})
    assert answer.body == b'{"acknowledged":1,"complete":[],"unknown":[]}'
    assert answer.headers["content-type"] == "application/json"


def test_acknowledging_again_counts_nothing_and_tells_the_completion_again(wire: Wire) -> None:
    batch = opened(wire)
    (item,) = added(wire, batch, 1)
    assert sealed(wire, batch) is False
    complete = [{"id": batch, "key": None}]
    assert acknowledged(wire, item, item) == {"acknowledged": 1, "complete": complete, "unknown": []}
    assert acknowledged(wire, item) == {"acknowledged": 0, "complete": complete, "unknown": []}


def test_a_status_shows_all_that_there_is_to_know_and_nulls_for_what_is_not(wire: Wire) -> None:
    batch = opened(wire, id=ID)
    status = shown(wire, batch)
    assert status.pop("opened_at").endswith("Z")
    numbers = [
        "items",
        "pending",
        "acknowledged",
        "collected",
        "expired",
        "withdrawn",
        "duplicates",
        "duplicates_waiting",
    ]
    assert status == {
        "id": ID,
        "key": None,
        "counting": "exact",
        "state": "open",
        **dict.fromkeys(numbers, 0),
        "sealed_at": None,
        "completed_at": None,
        "deliveries": [],
    }


def test_ranges_and_items_of_several_batches_go_in_one_call(wire: Wire) -> None:
    one, two = opened(wire, key="one"), opened(wire, key="two")
    items, more = added(wire, one, 10), added(wire, two, 1)
    sealed(wire, one)
    sealed(wire, two)
    group = items[0].rpartition(":")[0]
    body = {"items": [items[0], *more], "ranges": [{"group": group, "from": 0, "upto": 10}]}
    answer = wire("POST", "/v1/acknowledgements", body).json()
    assert (answer["acknowledged"], answer["unknown"]) == (11, [])
    assert {found["key"] for found in answer["complete"]} == {"one", "two"}


def test_what_is_not_known_comes_back_as_it_was_sent_and_the_rest_is_acknowledged(wire: Wire) -> None:
    batch = opened(wire)
    items = added(wire, batch, 5)
    group = items[0].rpartition(":")[0]
    beyond, nowhere = f"{group}:5", f"{OTHER.upper()}:0:0"
    partly = {"group": group, "from": 3, "upto": 9}
    body = {"items": [items[0], beyond, nowhere], "ranges": [partly]}
    answer = wire("POST", "/v1/acknowledgements", body).json()
    assert answer == {"acknowledged": 3, "complete": [], "unknown": [beyond, nowhere, partly]}
    assert wire.get(f"/v1/batches/{batch}/pending").json()["items"] == items[1:3]


@pytest.mark.parametrize(
    "wrong", ["", "nonsense", f"{ID}:0", f"{ID}:0:0:0", f"{ID}:0:-1", f"{ID}:00:0", f"{ID}:0:01", "x" * 100_000]
)
def test_a_text_that_is_no_item_id_refuses_the_call_and_its_place_is_told(wire: Wire, wrong: str) -> None:
    batch = opened(wire)
    (item,) = added(wire, batch, 1)
    answer = wire("POST", "/v1/acknowledgements", {"items": [item, wrong]})
    assert refusal(answer) == (400, "invalid_item")
    assert (answer.problem["index"], answer.problem["retriable"]) == (1, False)
    assert answer.problem["item"].startswith(wrong[:40])
    assert len(answer.body) < 10_000
    assert shown(wire, batch)["pending"] == 1


@pytest.mark.parametrize(("start", "upto"), [(0, 0), (3, 2), (-1, 2)])
def test_a_range_that_is_none_is_an_invalid_item(wire: Wire, start: int, upto: int) -> None:
    group = added(wire, opened(wire), 5)[0].rpartition(":")[0]
    body = {"ranges": [{"group": group, "from": start, "upto": upto}]}
    assert refusal(wire("POST", "/v1/acknowledgements", body)) == (400, "invalid_item")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        (b"", None),
        ({"items": []}, None),
        ({"items": [7]}, "items"),
        ({"items": "x"}, "items"),
        ({"items": None}, "items"),
        ({"item": []}, "item"),
        ({"ranges": [{"group": f"{ID}:0", "from": 0}]}, None),
        ({"ranges": [{"group": f"{ID}:0", "from": 0, "upto": 1, "by": 2}]}, None),
        ({"ranges": [{"group": f"{ID}:0", "from": "0", "upto": 1}]}, "ranges"),
        (b'{"items": ["', None),
        (b'{"items": ["\xff"]}', None),
        (b"[]", None),
    ],
)
def test_a_body_of_another_shape_is_refused(wire: Wire, body: object, field: str | None) -> None:
    answer = wire("POST", "/v1/acknowledgements", body)
    assert refusal(answer) == (400, "invalid_request")
    if field is not None:
        assert answer.problem["field"] == field


@COUNTINGS
@pytest.mark.parametrize("count", [100, ACKNOWLEDGED_SMALL_MAX, ACKNOWLEDGED_SMALL_MAX + 1, 50_000])
def test_calls_of_every_size_answer_alike(wire: Wire, count: int, counting: str) -> None:
    batch = opened(wire, counting=counting)
    items = added(wire, batch, count)
    assert sealed(wire, batch) is False
    assert acknowledged(wire, *items[:-1]) == {"acknowledged": count - 1, "complete": [], "unknown": []}
    complete = [{"id": batch, "key": None}]
    assert acknowledged(wire, items[-1]) == {"acknowledged": 1, "complete": complete, "unknown": []}


def test_a_large_call_may_be_packed_and_all_of_it_unknown(wire: Wire) -> None:
    items = [f"{OTHER}:0:{index}" for index in range(60_000)]
    body = gzip.compress(msgspec.json.encode({"items": items}), 1)
    answer = wire("POST", "/v1/acknowledgements", body, headers={"content-encoding": "gzip"})
    assert answer.json() == {"acknowledged": 0, "complete": [], "unknown": items}


def test_a_large_call_with_one_bad_item_acknowledges_nothing(wire: Wire) -> None:
    batch = opened(wire)
    items = added(wire, batch, 50_000)
    answer = wire("POST", "/v1/acknowledgements", {"items": [*items, "nonsense"]})
    assert (refusal(answer), answer.problem["index"]) == ((400, "invalid_item"), 50_000)
    assert shown(wire, batch)["pending"] == 50_000


def test_more_items_than_a_call_may_have_are_refused_before_they_are_taken_apart(wire: Wire) -> None:
    body = b'{"items":[' + b'"",' * (2 * ACKNOWLEDGED_ITEMS_MAX) + b'""]}'
    answer = wire("POST", "/v1/acknowledgements", body)
    assert refusal(answer) == (400, "invalid_request")
    assert "more than 1,030,000 values" in answer.problem["detail"]


def test_no_more_calls_are_taken_apart_than_a_request_may_have(wire: Wire) -> None:
    answer = wire("POST", "/v1/acknowledgements", b'{"calls":[' + b"{}," * 900_000 + b"nothing]}")
    assert refusal(answer) == (400, "invalid_request")
    answer = wire("POST", "/v1/acknowledgements", b'{"calls":[' + b"{}," * 900_000 + b"{}]}")
    assert "At most 1,000 calls" in answer.problem["detail"]


def test_a_billion_items_are_added_and_acknowledged_in_two_small_calls(wire: Wire) -> None:
    batch = opened(wire)
    (group,) = wire("POST", f"/v1/batches/{batch}/items", {"count": 10**9}).json()["groups"]
    assert group["upto"] == 10**9
    assert sealed(wire, batch) is False
    whole = {"ranges": [{"group": f"{batch}:{group['id']}", "from": 0, "upto": 10**9}]}
    answer = wire("POST", "/v1/acknowledgements", whole).json()
    assert (answer["acknowledged"], answer["complete"]) == (10**9, [{"id": batch, "key": None}])


def test_many_who_acknowledge_the_same_at_once_count_each_item_once(wire: Wire, new_wire: Callable[..., Wire]) -> None:
    batch = opened(wire)
    items = added(wire, batch, 1_000)
    sealed(wire, batch)
    wires = [new_wire() for _ in range(8)]

    def work(worker: int) -> int:
        own = items[worker * 50 :] + items[: worker * 50]
        return sum(int(acknowledged(wires[worker], *own[at : at + 100])["acknowledged"]) for at in range(0, 1_000, 100))

    with ThreadPoolExecutor(len(wires)) as threads:
        assert sum(threads.map(work, range(len(wires)))) == 1_000
    assert shown(wire, batch)["state"] == "complete"


def test_acknowledgements_are_bounded_as_publishes_are(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"publishes_waiting_max": 1}, ServerSettings))
    with start(tmp_path / "data", settings) as running:
        slow, wire = Wire(running.url), Wire(running.url)
        connection = slow._connection
        connection.putrequest("POST", "/v1/messages")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "15")
        connection.endheaders(b'{"messages":')
        wait_until(lambda: running.desk.room.publishes == 1)
        answer = wire("POST", "/v1/acknowledgements", {"items": [f"{ID}:0:0"]})
        assert refusal(answer) == (429, "overloaded")
        connection.send(b"[]}")
        assert connection.getresponse().status == 201
        slow.close()
        wire.close()


def test_items_are_named_by_their_indices_too(wire: Wire) -> None:
    batch = opened(wire)
    items = added(wire, batch, 5)
    group = items[0].rpartition(":")[0]
    answer = wire("POST", "/v1/acknowledgements", {"indices": [{"group": group, "indices": [0, 3, 3, 7]}]}).json()
    assert answer == {"acknowledged": 2, "complete": [], "unknown": [f"{group}:7"]}
    assert wire("GET", f"/v1/batches/{batch}/pending").json()["items"] == [items[1], items[2], items[4]]


def test_unknown_items_come_in_the_order_of_the_call_however_they_were_named(wire: Wire) -> None:
    batch = opened(wire)
    (item,) = added(wire, batch, 1)
    group = item.rpartition(":")[0]
    beyond = {"group": group, "from": 0, "upto": 2}
    body = {
        "ranges": [beyond],
        "indices": [{"group": group, "indices": [2**70, 9]}, {"group": f"{OTHER}:0", "indices": [4]}],
        "items": [f"{group}:8", item],
    }
    answer = wire("POST", "/v1/acknowledgements", body).json()
    assert answer["unknown"] == [f"{group}:8", f"{group}:{10**18}", f"{group}:9", f"{OTHER}:0:4", beyond]


def test_several_calls_in_one_request_are_answered_one_by_one(wire: Wire) -> None:
    batch = opened(wire)
    items = added(wire, batch, 4)
    sealed(wire, batch)
    calls = [{"items": items[:2]}, {"items": items[1:3]}, {"items": [f"{OTHER}:0:1"]}, {"items": items}]
    answers = wire("POST", "/v1/acknowledgements", {"calls": calls}).json()["answers"]
    assert [answer["acknowledged"] for answer in answers] == [2, 1, 0, 1]
    assert [answer["unknown"] for answer in answers] == [[], [], [f"{OTHER}:0:1"], []]
    assert [done["id"] for done in answers[3]["complete"]] == [batch]


@pytest.mark.parametrize(
    "body",
    [
        {"indices": [{"group": "x", "indices": [1]}]},
        {"indices": [{"group": f"{ID}:0", "indices": [-1]}]},
        {"indices": [{"group": f"{ID}:0", "indices": ["1"]}]},
        {"indices": [{"group": f"{ID}:0", "indices": []}]},
        {"indices": [{"group": f"{ID}:0"}]},
        {"calls": [{"items": [f"{ID}:0:0"]}], "items": [f"{ID}:0:0"]},
        {"calls": [{}]},
        {"calls": [{"items": [f"{ID}:0:0"]}] * 1_001},
    ],
    ids=[str(number) for number in range(8)],
)
def test_what_makes_no_sense_is_refused(wire: Wire, body: dict[str, object]) -> None:
    assert wire("POST", "/v1/acknowledgements", body).status == 400


def test_a_malformed_call_refuses_those_beside_it(wire: Wire) -> None:
    batch = opened(wire)
    (item,) = added(wire, batch, 1)
    assert wire("POST", "/v1/acknowledgements", {"calls": [{"items": [item]}, {"items": ["x"]}]}).status == 400
    assert wire("GET", f"/v1/batches/{batch}/pending").json()["items"] == [item]
