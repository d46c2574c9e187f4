"""Reading along over bare HTTP: changes as JSON and Arrow, pages, waits, wishes, snapshots, and what is counted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import ipc

from restante.model.feed.feed import FEED_SCHEMA
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA
from restante.server.connections.room import Wait
from restante.server.serve import ServedHub, start
from restante.settings import ServerSettings, Settings
from restante.wire.compression import decompress
from tests.server.batching import counted, refusal
from tests.server.wire import Answer, Wire
from tests.waiting import wait_until

ARROW = "application/vnd.apache.arrow.stream"
IDS = [f"0198c5a2-6f1e-7c3b-9d4a-{number:012}" for number in range(100)]


def home(wire: Wire, recipient: str = "ada") -> int:
    return int(wire.get(f"/v1/recipients/{recipient}/partition").json()["partition"])


def fed(wire: Wire, query: str = "", recipient: str = "ada") -> Answer:
    answer = wire.get(f"/v1/partitions/{home(wire, recipient)}/feed{query}")
    assert answer.status == 200, answer
    return answer


def changes(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.json()["changes"]
    return found


def place(answer: Answer) -> tuple[int, int, int]:
    next_, start_, end = (int(answer.headers[f"restante-{name}"]) for name in ("next", "start", "end"))
    return next_, start_, end


def table_of(answer: Answer) -> pa.Table:
    assert answer.headers["content-type"] == ARROW
    table: pa.Table = ipc.open_stream(answer.body).read_all()
    return table


def publish(wire: Wire, count: int, **more: object) -> None:
    sent = [{"id": IDS[number], "recipient": "ada", "data": {"n": number}, **more} for number in range(count)]
    assert wire.publish(*sent).json()["accepted"] == count


def collect(wire: Wire) -> str:
    bundle = str(wire.get("/v1/recipients/ada/peek").json()["bundle_id"])
    assert wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}").status == 200
    return bundle


def test_a_published_message_comes_with_all_its_fields_and_without_nulls(wire: Wire) -> None:
    publish(wire, 1)
    answer = fed(wire)
    (change,) = changes(answer)
    history = wire.get("/v1/recipients/ada/messages").json()["messages"][0]
    assert change.pop("at") == history.pop("published_at")
    assert history.pop("properties") == {}
    assert history.pop("state") == "waiting"
    assert change == {**history, "change": "published", "message_sequence_number": 1}
    assert place(answer) == (1, 1, 1)
    assert answer.headers["cache-control"] == "no-store"


def test_what_was_collected_comes_as_one_entry_a_message_under_one_number(wire: Wire) -> None:
    publish(wire, 2)
    bundle = collect(wire)
    found = changes(fed(wire, "?after=2"))
    moments = {change.pop("at") for change in found}
    about = {"recipient": "ada", "origin": "default", "kind": "default", "bundle_id": bundle}
    assert found == [
        {"sequence_number": 3, "change": "collected", "id": IDS[number], "message_sequence_number": number + 1, **about}
        for number in range(2)
    ]
    assert len(moments) == 1


def test_arrow_has_the_columns_of_the_schema_and_says_the_same(wire: Wire) -> None:
    publish(wire, 3, properties={"night": "7"}, expires_at="2100-01-01T00:00:00Z")
    collect(wire)
    path = f"/v1/partitions/{home(wire)}/feed"
    answer = wire.get(path, accept=ARROW)
    table = table_of(answer)
    assert table.schema.equals(FEED_SCHEMA)
    assert place(answer) == (4, 1, 4)
    rows, shown = table.to_pylist(), changes(wire.get(path))
    assert len(rows) == len(shown) == 6
    for row, change in zip(rows, shown, strict=True):
        present = {name for name, value in row.items() if value is not None}
        assert present == change.keys()
        for name in ("sequence_number", "change", "message_sequence_number", "recipient", "kind"):
            assert row[name] == change[name]


def test_pages_follow_each_other_and_lose_nothing(wire: Wire) -> None:
    publish(wire, 10)
    seen, after = [], 0
    while True:
        answer = fed(wire, f"?limit=3&after={after}")
        seen += [change["sequence_number"] for change in changes(answer)]
        following, _, end = place(answer)
        if following == after:
            break
        after = following
    assert seen == list(range(1, 11))
    assert after == end == 10


def test_after_the_end_there_is_nothing_and_next_stays(wire: Wire) -> None:
    publish(wire, 2)
    answer = fed(wire, "?after=2")
    assert (changes(answer), place(answer)) == ([], (2, 1, 2))


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ("kind=letter", [1]),
        ("kind=letter&kind=card", [1, 2]),
        ("origin=post", [1, 2]),
        ("origin=post&kind=card", [2]),
        ("recipient=ada", [1, 2, 3]),
        ("recipient=bob", []),
        ("kind=none", []),
    ],
)
def test_only_what_is_wished_for_comes(wire: Wire, wish: str, found: list[int]) -> None:
    for origin, kind in (("post", "letter"), ("post", "card"), ("bank", "bill")):
        assert wire.publish({"recipient": "ada", "data": 1, "origin": origin, "kind": kind}).status == 201
    answer = fed(wire, f"?{wish}")
    assert [change["sequence_number"] for change in changes(answer)] == found
    assert place(answer)[0] == 3


@pytest.mark.parametrize("query", ["columns=data,kind", "columns=data&columns=kind", "columns=kind&columns=data"])
def test_only_the_columns_that_are_asked_for_come(wire: Wire, query: str) -> None:
    publish(wire, 1)
    wire.publish({"recipient": "ada", "data_base64": "/w=="})
    path = f"/v1/partitions/{home(wire)}/feed?{query}"
    assert changes(wire.get(path)) == [
        {"sequence_number": 1, "change": "published", "kind": "default", "data": {"n": 0}},
        {"sequence_number": 2, "change": "published", "kind": "default", "data_base64": "/w=="},
    ]
    table = table_of(wire.get(path, accept=ARROW))
    assert table.column_names == ["sequence_number", "change", "kind", "data"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("columns=colour", None),
        ("columns=", None),
        ("after=-1", "after"),
        ("after=x", "after"),
        ("limit=x", "limit"),
        ("limit=0", None),
        ("wait=x", "wait"),
        ("wait=-1", "wait"),
        ("reader=", None),
        (f"reader={'x' * 65}", None),
        ("colour=red", "colour"),
        ("after=1&after=2", "after"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wire: Wire, query: str, parameter: str | None) -> None:
    answer = wire.get(f"/v1/partitions/0/feed?{query}")
    assert refusal(answer) == (400, "invalid_request")
    if parameter is not None:
        assert answer.problem["parameter"] == parameter
    assert "colour" not in query or "colour" in answer.problem["detail"]


@pytest.mark.parametrize("route", ["feed", "snapshot"])
def test_there_must_be_such_a_partition_and_such_a_type(wire: Wire, route: str) -> None:
    assert refusal(wire.get(f"/v1/partitions/99/{route}")) == (404, "partition_unknown")
    assert refusal(wire.get(f"/v1/partitions/x/{route}")) == (404, "partition_unknown")
    assert refusal(wire.get(f"/v1/partitions/0/{route}", accept="text/html")) == (406, "not_acceptable")


def test_whoever_waits_is_answered_when_something_comes(running: ServedHub, wire: Wire) -> None:
    number = home(wire)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: Wire(running.url).get(f"/v1/partitions/{number}/feed?wait=20"))
        wait_until(lambda: running.desk.room.waits[Wait.FEED] == 1)
        assert counted(wire)["restante_feeds_waiting"] == 1
        publish(wire, 2)
        answer = waiting.result()
    assert [change["sequence_number"] for change in changes(answer)] == [1, 2]
    assert place(answer) == (2, 1, 2)
    assert counted(wire)["restante_feeds_waiting"] == 0


def test_who_waits_for_one_kind_is_not_answered_with_another(running: ServedHub, wire: Wire) -> None:
    number = home(wire)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: Wire(running.url).get(f"/v1/partitions/{number}/feed?wait=20&kind=letter"))
        wait_until(lambda: running.desk.room.waits[Wait.FEED] == 1)
        publish(wire, 1)
        wire.publish({"recipient": "ada", "kind": "letter", "data": 1})
        answer = waiting.result()
        while not changes(answer):  # it may have been led on past the other
            answer = fed(wire, f"?kind=letter&wait=20&after={answer.headers['restante-next']}")
    assert [change["kind"] for change in changes(answer)] == ["letter"]


def test_a_wait_that_is_over_answers_nothing(wire: Wire) -> None:
    answer = fed(wire, "?wait=0.05")
    assert (answer.status, changes(answer), place(answer)) == (200, [], (0, 1, 0))


def test_those_who_wait_take_no_room_and_no_thread(tmp_path: Path) -> None:
    settings = Settings(server=msgspec.convert({"reads_waiting_max": 1}, ServerSettings))
    with start(tmp_path / "data", settings) as running, ThreadPoolExecutor(40) as threads:
        wire = Wire(running.url)
        number = home(wire)
        waits = []
        for count in range(1, 41):
            waits.append(threads.submit(lambda: Wire(running.url).get(f"/v1/partitions/{number}/feed?wait=20")))
            wait_until(lambda count=count: running.desk.room.waits[Wait.FEED] == count)  # type: ignore[misc]
        assert fed(wire).json() == {"changes": []}
        publish(wire, 1)
        assert [len(changes(wait.result())) for wait in waits] == [1] * 40
        wire.close()


def test_a_reader_that_leaves_is_not_waited_for(running: ServedHub, wire: Wire) -> None:
    other = Wire(running.url)
    other._connection.request("GET", "/v1/partitions/0/feed?wait=20")
    wait_until(lambda: running.desk.room.waits[Wait.FEED] == 1)
    other.close()
    wait_until(lambda: running.desk.room.waits[Wait.FEED] == 0)


def test_a_wait_ends_when_the_hub_does(tmp_path: Path) -> None:
    running = start(tmp_path / "data")
    answers: list[Answer] = []
    waiting = threading.Thread(target=lambda: answers.append(Wire(running.url).get("/v1/partitions/0/feed?wait=25")))
    waiting.start()
    wait_until(lambda: running.desk.room.waits[Wait.FEED] == 1)
    running.stop()
    waiting.join()
    assert [(answer.status, changes(answer)) for answer in answers] == [(200, [])]


def test_behind_retention_a_position_is_gone(tmp_path: Path) -> None:
    now = [1_896_091_200_000_000]
    with start(tmp_path / "data", clock=lambda: now[0]) as running:
        wire = Wire(running.url)
        publish(wire, 3)
        collect(wire)
        now[0] += 400 * 86_400 * 1_000_000
        wire("POST", "/v1/maintenance/file")
        wire("POST", "/v1/maintenance/retain")
        publish(wire, 0)
        partition = home(wire)
        first = int(fed(wire).headers["restante-start"])
        assert first > 1
        answer = wire.get(f"/v1/partitions/{partition}/feed?after={first - 2}")
        assert (refusal(answer), answer.problem["first"]) == ((410, "position_gone"), first)
        assert place(fed(wire, f"?after={first - 1}"))[1] == first
        assert fed(wire).status == 200
        wire.close()


@pytest.mark.parametrize("wait", ["", "&wait=20"])
def test_a_position_beyond_the_end_is_refused(wire: Wire, wait: str) -> None:
    publish(wire, 3)
    answer = wire.get(f"/v1/partitions/{home(wire)}/feed?after=4{wait}")
    assert (refusal(answer), answer.problem["end"]) == ((409, "position_ahead"), 3)
    assert place(fed(wire, "?after=3")) == (3, 1, 3)


@pytest.mark.parametrize("query", ["origin=", "origin=" + "x" * 65, "kind=%20", "recipient=", "recipient=" + "x" * 257])
def test_a_filter_that_no_message_could_match_is_refused(wire: Wire, query: str) -> None:
    for route in ("feed", "snapshot"):
        answer = wire.get(f"/v1/partitions/0/{route}?{query}")
        assert (refusal(answer), answer.problem["parameter"]) == (
            (400, "invalid_request"),
            query.split("=", maxsplit=1)[0],
        )


def test_a_snapshot_shows_what_history_shows_and_where_the_feed_goes_on(wire: Wire) -> None:
    publish(wire, 3)
    collect(wire)
    wire.publish({"recipient": "ada", "data_base64": "/w==", "properties": {"night": "7"}})
    path = f"/v1/partitions/{home(wire)}/snapshot"
    answer = wire.get(path)
    history = wire.get("/v1/recipients/ada/messages").json()["messages"]
    by_number = sorted(answer.json()["messages"], key=lambda message: message["sequence_number"])
    assert (by_number, answer.json()["next"]) == (history, None)
    assert {message["state"] for message in history} == {"waiting", "collected"}
    assert "restante-next" not in answer.headers
    position = int(answer.headers["restante-position"])
    assert position == place(fed(wire))[2] == 5
    wire.publish({"recipient": "ada", "data": "new"})
    assert [change["data"] for change in changes(fed(wire, f"?after={position}"))] == ["new"]


def test_the_pages_of_a_snapshot_are_as_of_one_moment(wire: Wire) -> None:
    publish(wire, 10)
    path = f"/v1/partitions/{home(wire)}/snapshot?limit=4"
    tables, positions, answer = [], set(), wire.get(path, accept=ARROW)
    while True:
        assert answer.status == 200, answer
        tables.append(table_of(answer))
        positions.add(answer.headers["restante-position"])
        wire.publish({"recipient": "ada", "data": "later"})
        if "restante-next" not in answer.headers:
            break
        answer = wire.get(f"{path}&after={answer.headers['restante-next']}", accept=ARROW)
    assert len(tables) > 1
    whole = pa.concat_tables(tables)
    assert whole.schema.equals(MESSAGE_SCHEMA)
    assert set(whole.column("sequence_number").to_pylist()) == set(range(1, 11))
    assert whole.num_rows == 10
    assert positions == {"10"}


def test_a_snapshot_may_be_of_an_earlier_position(wire: Wire) -> None:
    publish(wire, 10)
    path = f"/v1/partitions/{home(wire)}/snapshot"
    then = wire.get(path)
    collect(wire)
    wire.publish({"recipient": "ada", "data": "later"})
    again = wire.get(f"{path}?position=10")
    assert (again.json(), again.headers["restante-position"]) == (then.json(), "10")
    assert {message["state"] for message in wire.get(path).json()["messages"]} == {"collected", "waiting"}
    token = wire.get(f"{path}?position=10&limit=4").headers["restante-next"]
    assert len(wire.get(f"{path}?position=10&after={token}").json()["messages"]) == 6
    for query in ("position=99", "position=-1", "position=x", f"position=9&after={token}"):
        assert refusal(wire.get(f"{path}?{query}")) == (400, "invalid_request")


def test_a_snapshot_has_only_what_is_wished_for(wire: Wire) -> None:
    for kind in ("letter", "card"):
        wire.publish({"recipient": "ada", "kind": kind, "data": kind})
    path = f"/v1/partitions/{home(wire)}/snapshot?kind=card&columns=kind,data,state"
    assert wire.get(path).json()["messages"] == [
        {"sequence_number": 2, "kind": "card", "data": "card", "state": "waiting"}
    ]
    assert table_of(wire.get(path, accept=ARROW)).column_names == ["sequence_number", "kind", "data", "state"]
    for query in ("columns=colour", "after=nonsense", "limit=x", "wait=1"):
        assert refusal(wire.get(f"/v1/partitions/0/snapshot?{query}")) == (400, "invalid_request")


def test_a_reader_is_counted_by_its_name(wire: Wire) -> None:
    publish(wire, 5)
    fed(wire, "?limit=2&reader=ware%20house")
    found = counted(wire)
    assert found['restante_feed_lag{reader="ware house"}'] == 3
    assert found['restante_feed_changes_total{reader="ware house"}'] == 2
    fed(wire, "?after=2&reader=ware%20house")
    found = counted(wire)
    assert found['restante_feed_lag{reader="ware house"}'] == 0
    assert found['restante_feed_changes_total{reader="ware house"}'] == 5
    assert sum(name.startswith("restante_feed_lag") for name in found) == 1


@pytest.mark.parametrize("kind", ["application/json", ARROW])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_large_answers_are_whole_and_packed_on_request(wire: Wire, kind: str, encoding: str) -> None:
    table = pa.table({"recipient": ["ada"] * 20_000, "data": [b"%d" % number * 20 for number in range(20_000)]})
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    wire("POST", "/v1/messages", sink.getvalue().to_pybytes(), headers={"content-type": ARROW})
    path = f"/v1/partitions/{home(wire)}/feed?limit=100000"
    plain = wire.get(path, accept=kind)
    packed = wire.get(path, accept=kind, accept_encoding=encoding)
    assert packed.headers["content-encoding"] == encoding
    assert len(packed.body) < len(plain.body)
    assert bytes(decompress(packed.body, encoding, 2**26)) == plain.body
    count = len(changes(plain)) if kind != ARROW else table_of(plain).num_rows
    assert count == 20_000
