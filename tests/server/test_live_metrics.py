"""What operators are told of live delivery: who is connected, what was pushed, dropped, replayed and recovered."""

from __future__ import annotations

from pathlib import Path

import pytest

import restante
from restante.calls.publishing import Publish
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub, start
from restante.settings import LiveSettings, Settings
from tests.server.live import dropped, live
from tests.server.wire import Wire
from tests.waiting import wait_until


def metrics(wire: Wire) -> dict[str, float]:
    """What there is to tell of live delivery, by its name less what all have in common."""
    lines = [line.split() for line in wire.get("/metrics").body.decode().splitlines()]
    return {
        line[0].removeprefix("restante_live_"): float(line[1])
        for line in lines
        if line[0].startswith("restante_live_") and "{" not in line[0]
    }


def test_connections_and_what_was_pushed_are_counted(running: ServedHub, wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1})
    with live(running, "ada", after=0) as first, live(running, "ada") as second:
        first.frame()
        wire.publish({"recipient": "ada", "data": 2}, {"recipient": "nobody", "data": 3})
        assert (first.frame()["counter"], second.frame()["counter"]) == (2, 1)
        first.say(type="send", request=1, message={"recipient": "bob", "data": 1})
        first.until("status")
        found = metrics(wire)
    assert (found["connections"], found["pushed_total"], found["sent_total"]) == (2, 2, 1)
    assert (found["replays_total"], found["replayed_total"]) == (1, 1)
    assert (found["dropped_total"], found["gaps_total"]) == (0, 0)
    assert found["push_duration_seconds_count"] == 1
    assert found["push_duration_seconds_sum"] > 0


def test_what_is_dropped_stays_counted_when_its_connection_has_gone(tmp_path: Path) -> None:
    with start(tmp_path / "data", Settings(live=LiveSettings(queue_messages=2))) as running:
        wire = Wire(running.url)
        with live(running, "ada"), live(running, "ada") as quick:
            for value in range(200):
                running.desk.hub.call(Publish.of(Message(recipient="ada", data=[value, "x" * 40_000])))
                quick.frame()
            during = metrics(wire)
        wait_until(lambda: not len(running.desk.post), "nobody is connected")
        after = metrics(wire)
        wire.close()
    assert during["dropped_total"] > 50
    assert 1 <= during["gaps_total"] < 50
    assert during["fullest_queue"] == during["queued_messages"] <= 2
    assert (after["dropped_total"], after["gaps_total"]) == (during["dropped_total"], during["gaps_total"])
    assert (after["connections"], after["queued_messages"], after["fullest_queue"]) == (0, 0, 0)


def test_a_gap_that_was_read_from_history_is_counted_once_and_changes_nothing_else(wire: Wire) -> None:
    wire.publish({"recipient": "ada", "data": 1}, {"recipient": "ada", "data": 2})
    plain = wire.get("/v1/recipients/ada/messages?after=0")
    assert metrics(wire)["gaps_recovered_total"] == 0
    assert wire.get("/v1/recipients/ada/messages?after=0", restante_live_gap="2").json() == plain.json()
    assert metrics(wire)["gaps_recovered_total"] == 1


def test_a_client_of_ours_says_which_gaps_it_has_filled(tmp_path: Path) -> None:
    settings = Settings(live=LiveSettings(queue_messages=4))
    with (
        start(tmp_path / "data", settings) as running,
        restante.connect(running.url) as hub,
        hub.recipient("ada").live(after=0) as followed,
    ):
        shown = iter(followed)
        running.desk.hub.call(Publish.of(Message(recipient="ada", data=[0])))
        assert next(shown).data == [0]
        count = 1
        while not dropped(running):
            assert count < 2000, "a follower that reads nothing is never told of a gap"
            running.desk.hub.call(Publish.of(Message(recipient="ada", data=[count, "x" * 60_000])))
            count += 1
        assert [next(shown).data[0] for _ in range(1, count)] == list(range(1, count))
        assert 1 <= running.desk.post.tally.gaps_recovered <= followed.gaps_recovered


@pytest.mark.parametrize("text", ["0", "-1", "", "x", "1.5", "²", "9" * 40])
def test_a_gap_that_is_no_number_is_refused(wire: Wire, text: str) -> None:
    answer = wire("GET", "/v1/recipients/ada/messages", headers={"Restante-Live-Gap": text.encode().decode("latin-1")})
    assert (answer.status, answer.problem["header"]) == (400, "Restante-Live-Gap")
    assert metrics(wire)["gaps_recovered_total"] == 0
