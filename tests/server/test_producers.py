"""Numbered parcels over a socket: headers, replays, fences, links, what is shown of producers, and what is counted."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from restante.errors import OutcomeUnknown
from restante.hub.engine import commit_outcomes
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.storage.changes import Changes
from restante.model.storage.partition import partition_of
from restante.ports.store import Store
from restante.server.connections.incoming_messages import is_for_the_loop
from restante.server.serve import ServedHub, start
from tests.server.test_publishing import ARROW, arrow_body, found
from tests.server.wire import Answer, Wire

HOME = partition_of("ada", 16)
PARCELS, LINKS, PRODUCERS = (f"/v1/partitions/{HOME}/{name}" for name in ("parcels", "links", "producers"))
GROUP, LEVEL, SEQUENCE = "Restante-Producer-Group", "Restante-Owner-Level", "Restante-Published-Sequence"


def numbers(first: int | str, *, group: int | str = 7, level: int | str = 0) -> dict[str, str]:
    return {GROUP: str(group), LEVEL: str(level), SEQUENCE: str(first)}


def send(wire: Wire, first: int, *data: object, group: int = 7, level: int = 0) -> Answer:
    messages = [{"recipient": "ada", "data": value} for value in data]
    return wire("POST", PARCELS, {"messages": messages}, headers=numbers(first, group=group, level=level))


def stored(wire: Wire) -> list[object]:
    return [message["data"] for message in found(wire, "ada")]


def refusal(answer: Answer) -> tuple[int, str, dict[str, Any]]:
    problem = answer.problem
    told = {name: problem[name] for name in ("expected", "received", "current") if name in problem}
    return answer.status, problem["code"], told


def counted(wire: Wire) -> dict[str, float]:
    text = wire.get("/metrics").body.decode()
    return {name: float(value) for name, value in re.findall(r"^(restante_[a-z_]+_total) (\S+)$", text, re.MULTILINE)}


# Parcels


def test_the_last_parcel_again_is_answered_as_it_was_and_stored_once(wire: Wire) -> None:
    first = send(wire, 0, "a", "b")
    assert first.status == 201
    assert first.json() == {
        "accepted": 2,
        "duplicates": 0,
        "partitions": [{"partition": HOME, "first_sequence_number": 1, "last_sequence_number": 2}],
    }
    wire.publish({"recipient": "ada", "data": "between"})
    again = send(wire, 0, "a", "b")
    assert (again.status, again.json()) == (201, first.json() | {"replayed": True})
    assert send(wire, 2, "c").json()["accepted"] == 1
    assert stored(wire) == ["a", "b", "between", "c"]


def test_a_replay_by_another_connection_and_after_a_restart_is_one(tmp_path: Path) -> None:
    with start(tmp_path / "data") as running:
        first = send(Wire(running.url), 0, "a")
        assert send(Wire(running.url), 0, "a").json()["replayed"]
    with start(tmp_path / "data") as running:
        wire = Wire(running.url)
        assert send(wire, 0, "a").json() == first.json() | {"replayed": True}
        assert stored(wire) == ["a"]


def test_the_same_messages_as_json_and_as_arrow_are_the_same_parcel(wire: Wire) -> None:
    assert send(wire, 0, 1, 2).status == 201
    table = pa.table({"recipient": ["ada"] * 2, "data": [b"1", b"2"], "media_type": ["application/json"] * 2})
    again = wire("POST", PARCELS, arrow_body(table), headers={**ARROW, **numbers(0)})
    assert again.json()["replayed"]
    assert stored(wire) == [1, 2]


def test_a_large_parcel_is_numbered_like_a_small_one(wire: Wire) -> None:
    data = [f"{number:0100}" for number in range(1_000)]
    assert not is_for_the_loop(sum(map(len, data)))
    assert send(wire, 0, *data).json()["accepted"] == 1_000
    assert send(wire, 0, *data).json()["replayed"]
    assert refusal(send(wire, 0, *data[:-1], "other")) == (409, "invalid_client_state", {"expected": 1_000})
    assert send(wire, 1_000, "next").json()["accepted"] == 1
    assert stored(wire) == data  # a page of a thousand
    assert wire.get(f"{PRODUCERS}/7").json()["last_published_sequence_number"] == 1_000


@pytest.mark.parametrize("first", [0, 1, 3, PUBLISHED_SEQUENCE_MAX])
def test_gaps_and_old_numbers_are_refused_with_what_would_be_next(wire: Wire, first: int) -> None:
    assert send(wire, 0, "a").status == send(wire, 1, "b").status == 201
    assert refusal(send(wire, first, "c")) == (409, "invalid_client_state", {"expected": 2})
    assert stored(wire) == ["a", "b"]


def test_a_refusal_is_not_retriable_and_says_what_to_do(wire: Wire) -> None:
    problem = send(wire, 5, "a").problem
    assert problem["retriable"] is False
    assert problem["type"] == "/docs/problems#invalid_client_state"
    assert "the next number is 0" in problem["detail"]


def test_a_parcel_that_is_refused_for_its_messages_uses_no_numbers(wire: Wire) -> None:
    bad = {"messages": [{"recipient": "ada", "data": 1}, {"recipient": " ", "data": 1}]}
    assert wire("POST", PARCELS, bad, headers=numbers(0)).problem["code"] == "invalid_message"
    elsewhere = {
        "messages": [{"recipient": next(name for name in "abcdefgh" if partition_of(name, 16) != HOME), "data": 1}]
    }
    assert wire("POST", PARCELS, elsewhere, headers=numbers(0)).problem["code"] == "partition_mismatch"
    assert wire.get(f"{PRODUCERS}/7").status == 404
    assert send(wire, 0, "a").status == 201


def test_the_largest_numbers_pass_exactly_and_wrap(wire: Wire) -> None:
    group, level, last = PRODUCER_GROUP_MAX, OWNER_LEVEL_MAX, PUBLISHED_SEQUENCE_MAX - 1
    assert send(wire, 0, "a", group=group).status == 201
    body = {"producer_group": group, "owner_level": level, "last_published_sequence_number": last}
    assert wire("POST", LINKS, body).json()["producer_group"] == group
    assert send(wire, last + 1, "b", "c", group=group, level=level).json()["accepted"] == 2
    assert send(wire, last + 1, "b", "c", group=group, level=level).json()["replayed"]
    assert f'"producer_group":{group},'.encode() in wire.get(f"{PRODUCERS}/{group}").body
    assert wire.get(f"{PRODUCERS}/{group}").json()["last_published_sequence_number"] == 0
    assert send(wire, 1, "d", group=group, level=level).status == 201
    assert wire.get(f"{PRODUCERS}/{group - 1}").status == 404


# Headers


@pytest.mark.parametrize(
    "missing", [{GROUP}, {LEVEL}, {SEQUENCE}, {GROUP, LEVEL}, {LEVEL, SEQUENCE}, {GROUP, SEQUENCE}]
)
def test_one_or_two_of_three_headers_are_refused_and_a_missing_one_is_named(wire: Wire, missing: set[str]) -> None:
    headers = {name: value for name, value in numbers(0).items() if name not in missing}
    answer = wire("POST", PARCELS, {"messages": [{"recipient": "ada", "data": 1}]}, headers=headers)
    assert (answer.status, answer.problem["code"]) == (400, "invalid_request")
    assert answer.problem["header"] in missing
    assert answer.problem["header"] in answer.problem["detail"]
    assert stored(wire) == []


@pytest.mark.parametrize(
    ("header", "most"), [(GROUP, PRODUCER_GROUP_MAX), (LEVEL, OWNER_LEVEL_MAX), (SEQUENCE, PUBLISHED_SEQUENCE_MAX)]
)
@pytest.mark.parametrize(
    "text", ["most+1", "-1", "+1", "1.0", "1e3", "0x1", "1_0", "", "g", "1, 2", "9" * 5_000, "\xb2"]
)
def test_a_header_that_is_no_number_of_its_range_is_named(wire: Wire, header: str, most: int, text: str) -> None:
    value = str(most + 1) if text == "most+1" else text
    answer = wire("POST", PARCELS, {"messages": []}, headers=numbers(0) | {header: value})
    assert (answer.status, answer.problem["code"], answer.problem["header"]) == (400, "invalid_request", header)
    assert str(most) in answer.problem["detail"]


def test_a_header_that_is_there_twice_is_refused(running: ServedHub) -> None:
    host, _, port = running.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.putrequest("POST", PARCELS)
    body = b'{"messages": []}'
    for name, value in [*numbers(0).items(), (SEQUENCE, "0"), ("Content-Length", str(len(body)))]:
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    assert answer.status == 400
    assert SEQUENCE in answer.read().decode()
    connection.close()


@pytest.mark.parametrize("header", [GROUP, LEVEL, SEQUENCE])
def test_a_publish_to_any_partition_takes_no_numbers_and_says_where_they_go(wire: Wire, header: str) -> None:
    answer = wire("POST", "/v1/messages", {"messages": []}, headers={header: "1"})
    assert (answer.status, answer.problem["code"], answer.problem["header"]) == (400, "invalid_request", header)
    assert "/parcels" in answer.problem["detail"]


# Owner levels and links


def test_a_higher_level_takes_over_and_fences_the_lower(wire: Wire) -> None:
    assert send(wire, 0, "a").status == 201
    assert send(wire, 0, "b", level=2).status == 201
    assert refusal(send(wire, 1, "c")) == (409, "producer_disconnected", {"received": 0, "current": 2})
    assert send(wire, 1, "d", level=2).status == 201
    assert send(wire, 0, "other group", group=8).status == 201
    assert wire.publish({"recipient": "ada", "data": "plain"}).status == 201
    assert stored(wire) == ["a", "b", "d", "other group", "plain"]


def test_a_link_answers_the_state_and_fences_at_once(wire: Wire) -> None:
    assert send(wire, 0, "a", "b").status == 201
    began = datetime.now(UTC)
    linked = wire("POST", LINKS, {"producer_group": 7, "owner_level": 1, "last_published_sequence_number": 1})
    assert linked.status == 201
    shown = linked.json()
    assert began <= datetime.fromisoformat(shown.pop("last_activity_at")) <= datetime.now(UTC)
    assert shown == {
        "partition": HOME,
        "producer_group": 7,
        "owner_level": 1,
        "last_published_sequence_number": 1,
        "replays": 0,
        "fenced_attempts": 0,
    }
    assert refusal(send(wire, 2, "zombie")) == (409, "producer_disconnected", {"received": 0, "current": 1})
    assert send(wire, 2, "c", level=1).status == 201
    assert stored(wire) == ["a", "b", "c"]


def test_a_link_without_anything_is_a_new_group_each_time(wire: Wire) -> None:
    first, second = wire("POST", LINKS).json(), wire("POST", LINKS, {}).json()
    assert (first["owner_level"], first["last_published_sequence_number"]) == (0, None)
    assert first["producer_group"] != second["producer_group"]
    assert send(wire, 0, "a", group=first["producer_group"]).status == 201


def test_a_link_below_the_level_of_the_group_is_fenced_off(wire: Wire) -> None:
    assert send(wire, 0, "a", level=5).status == 201
    answer = wire("POST", LINKS, {"producer_group": 7, "owner_level": 4})
    assert refusal(answer) == (409, "producer_disconnected", {"received": 4, "current": 5})


def test_a_link_that_offers_another_last_number_is_refused_with_the_hubs(wire: Wire) -> None:
    unknown = wire("POST", LINKS, {"producer_group": 7, "last_published_sequence_number": 3})
    assert refusal(unknown) == (409, "link_refused", {"expected": None})
    assert send(wire, 0, "a").status == 201
    wrong = wire("POST", LINKS, {"producer_group": 7, "last_published_sequence_number": 3})
    assert refusal(wrong) == (409, "link_refused", {"expected": 0})
    right = wire("POST", LINKS, {"producer_group": 7, "last_published_sequence_number": 0})
    assert right.status == 201


def test_a_raised_level_without_a_number_starts_at_0(wire: Wire) -> None:
    assert send(wire, 0, "a").status == 201
    linked = wire("POST", LINKS, {"producer_group": 7, "owner_level": 1}).json()
    assert linked["last_published_sequence_number"] is None
    assert refusal(send(wire, 1, "b", level=1)) == (409, "invalid_client_state", {"expected": 0})
    assert send(wire, 0, "b", level=1).status == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"producer_group": PRODUCER_GROUP_MAX + 1}, "producer_group"),
        ({"producer_group": -1}, "producer_group"),
        ({"producer_group": "7"}, "producer_group"),
        ({"producer_group": 7.5}, "producer_group"),
        ({"owner_level": OWNER_LEVEL_MAX + 1}, "owner_level"),
        ({"owner_level": True}, "owner_level"),
        ({"last_published_sequence_number": PUBLISHED_SEQUENCE_MAX + 1}, "last_published_sequence_number"),
        ({"group": 7}, "group"),
        ([], None),
        (b"{", None),
    ],
)
def test_a_link_that_makes_no_sense_is_refused_and_its_field_named(wire: Wire, body: object, field: str | None) -> None:
    answer = wire("POST", LINKS, body)
    assert (answer.status, answer.problem["code"]) == (400, "invalid_request")
    assert answer.problem.get("field") == field
    assert wire.get(PRODUCERS).json() == {"producers": [], "next": None}


@pytest.mark.parametrize("partition", ["16", "x", "-1"])
def test_there_are_no_producers_in_a_partition_that_there_is_not(wire: Wire, partition: str) -> None:
    for method, path in (("POST", "links"), ("GET", "producers"), ("GET", "producers/7")):
        answer = wire(method, f"/v1/partitions/{partition}/{path}")
        assert (answer.status, answer.problem["code"]) == (404, "partition_unknown")


# What is shown and counted


def test_a_producer_shows_its_replays_and_the_attempts_of_those_fenced_off(wire: Wire) -> None:
    send(wire, 0, "a", level=1)
    send(wire, 0, "a", level=1)
    send(wire, 1, "zombie")
    wire("POST", LINKS, {"producer_group": 7, "owner_level": 0})
    shown = wire.get(f"{PRODUCERS}/7").json()
    assert (shown["owner_level"], shown["replays"], shown["fenced_attempts"]) == (1, 1, 2)


def test_a_producer_that_is_not_known_is_a_404_and_what_is_no_group_a_400(wire: Wire) -> None:
    answer = wire.get(f"{PRODUCERS}/7")
    assert (answer.status, answer.problem["code"]) == (404, "producer_unknown")
    for text in ("billing", "-1", str(PRODUCER_GROUP_MAX + 1), "1.0", "%20"):
        answer = wire.get(f"{PRODUCERS}/{text}")
        assert (answer.status, answer.problem["code"]) == (400, "invalid_request")


def test_producers_are_listed_in_pages_by_their_groups(wire: Wire) -> None:
    groups = [3, 70, 2**40, PRODUCER_GROUP_MAX]
    for group in reversed(groups):
        assert send(wire, 0, group, group=group).status == 201
    listed, after = [], ""
    while True:
        page = wire.get(f"{PRODUCERS}?limit=3{after}").json()
        listed.append([shown["producer_group"] for shown in page["producers"]])
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert listed == [groups[:3], groups[3:]]
    other = wire.get(f"/v1/partitions/{(HOME + 1) % 16}/producers")
    assert other.json() == {"producers": [], "next": None}


@pytest.mark.parametrize(
    ("query", "parameter"), [("after=x", "after"), ("limit=0", "limit"), ("limit=x", "limit"), ("group=7", "group")]
)
def test_a_wrong_query_of_the_list_is_named(wire: Wire, query: str, parameter: str) -> None:
    answer = wire.get(f"{PRODUCERS}?{query}")
    assert (answer.status, answer.problem["code"], answer.problem["parameter"]) == (400, "invalid_request", parameter)


def test_replays_fences_and_refusals_are_counted_and_a_replay_stores_nothing(wire: Wire) -> None:
    send(wire, 0, "a", "b", level=1)
    send(wire, 0, "a", "b", level=1)
    send(wire, 5, "gap", level=1)
    send(wire, 0, "zombie")
    send(wire, 1, "zombie")
    values = counted(wire)
    assert values["restante_producer_replays_total"] == 1
    assert values["restante_producer_refused_total"] == 1
    assert values["restante_producer_fenced_total"] == 2
    assert values["restante_messages_accepted_total"] == 2
    assert values["restante_messages_duplicate_total"] == 2


def test_an_outcome_that_the_hub_does_not_know_is_a_503_that_may_be_repeated(
    running: ServedHub, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, stored = running.desk.hub.core.store, commit_outcomes._store

    def unknown(store: Store, changes: Changes) -> float | None:
        if store is not own:  # Other hubs of this process go on.
            return stored(store, changes)
        raise OutcomeUnknown("It was stored, and then the hub failed.")

    monkeypatch.setattr(commit_outcomes, "_store", unknown)
    answer = send(wire, 0, "a")
    assert (answer.status, answer.problem["code"], answer.problem["retriable"]) == (503, "outcome_unknown", True)


def test_of_many_who_send_the_same_parcel_at_once_one_stores_it(new_wire: Callable[..., Wire], wire: Wire) -> None:
    wires = [new_wire() for _ in range(8)]
    with ThreadPoolExecutor(len(wires)) as threads:
        answers = list(threads.map(lambda own: send(own, 0, "a", "b"), wires))
    assert [answer.status for answer in answers] == [201] * 8
    assert sum(not answer.json().get("replayed") for answer in answers) == 1
    assert stored(wire) == ["a", "b"]


def test_groups_do_not_wait_for_each_other(new_wire: Callable[..., Wire], wire: Wire) -> None:
    wires = [new_wire() for _ in range(8)]

    def publish(group: int) -> list[int]:
        return [send(wires[group], first, [group, first], group=group).status for first in range(20)]

    with ThreadPoolExecutor(len(wires)) as threads:
        assert list(threads.map(publish, range(8))) == [[201] * 20] * 8
    values: list[Any] = stored(wire)
    for group in range(8):
        assert [first for own, first in values if own == group] == list(range(20))


def test_messages_made_anew_are_known_by_what_they_say_and_only_if_the_sender_says_so(wire: Wire) -> None:
    def sent(message_id: str, **more: str) -> Answer:
        body = {"messages": [{"recipient": "ada", "data": "tick", "id": message_id}]}
        return wire("POST", PARCELS, body, headers=numbers(0) | more)

    first, other = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60", "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f61"
    assert sent(first).status == 201
    assert sent(other).problem["code"] == "invalid_client_state"
    assert sent(other, **{"Restante-Made-Anew": "true"}).json()["replayed"] is True
    wrong = sent(other, **{"Restante-Made-Anew": "perhaps"})
    assert (wrong.status, wrong.problem["header"]) == (400, "Restante-Made-Anew")


@pytest.mark.parametrize("path", ["/v1/messages", PARCELS])
def test_made_anew_belongs_to_numbers(wire: Wire, path: str) -> None:
    answer = wire("POST", path, {"messages": []}, headers={"Restante-Made-Anew": "true"})
    assert (answer.status, answer.problem["header"]) == (400, "Restante-Made-Anew")
