"""The benchmark of live delivery: every way delivers all of it, in order, and what is missing does not go unnoticed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import ours_live, plots, tables, wire
from bench.display import Display
from bench.drivers import live_nats, live_valkey
from bench.live import (
    DATA_BYTES,
    Audience,
    LiveWay,
    More,
    Published,
    Received,
    Sending,
    Show,
    at_random,
    last_latencies,
    latencies,
    live_ways,
    number_of,
    one_for_all,
    one_mailbox_each,
)
from bench.live_publishers import PacedSocket
from bench.live_stage import Stage
from bench.mail import Mail
from bench.ours_wire import Restante
from bench.outcome import Outcome
from bench.scale import QUICK
from bench.server import Server, servers
from bench.workloads import WIRE_ORDER, workload

CONNECTIONS, MESSAGES = 8, 40
TINY = replace(
    QUICK,
    live_connections=10,
    live_each=5,
    live_pace=100,
    live_seconds=0.2,
    live_burst=5,
    live_broadcasts=4,
    live_stuck=2,
    live_idle=20,
    live_pushes=10,
    live_repetitions=1,
)
LIVE = [name for name in WIRE_ORDER if name.startswith("wire_live_")]
LINES = {
    "wire_live_throughput": {"W11 1,000 connections"},
    "wire_live_latency": {"W12 1,000 messages a second, p50", "W12 1,000 messages a second, p99"},
    "wire_live_fanout": {
        "W13 one to 1,000 clients",
        "W13 one to 1,000 clients, the last of them, p50",
        "W13 one to 1,000 clients, the last of them, p99",
    },
    "wire_live_stuck": {
        "W14 1,000 messages a second, the others' p50",
        "W14 1,000 messages a second, the others' p99",
        "W14 1,000 messages a second, memory of the server",
    },
    "wire_live_idle": {
        "W15 10,000 idle connections, memory of each",
        "W15 10,000 idle connections, a push, p50",
        "W15 10,000 idle connections, a push, p99",
    },
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below `tmp_path`, which is root's alone: a server that refuses to run as root has to get there."""
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as name:
        yield Path(name)


def _started(kind: type[Server], folder: Path) -> Server:
    if missing := kind.missing():
        pytest.skip(f"{kind.name} is {missing}")
    place = folder / kind.name
    place.mkdir()
    return kind(place)


def _delivers(way: LiveWay, mail: Mail) -> None:
    """To mailboxes of their own and to all clients of one, as fast as it goes and at a pace."""
    makers: tuple[Callable[[], Show], ...] = (
        lambda: one_mailbox_each(mail, connections=CONNECTIONS, messages=MESSAGES),
        lambda: one_for_all(mail, connections=CONNECTIONS, messages=MESSAGES),
    )
    with Stage(way) as stage:
        for make in makers:
            for pace in (None, 200.0):
                show = make()
                stage.gather(show.audience)
                published, received = stage.perform(Sending(show.table, pace))
                stage.leave()
                show.check(received)
                assert not received.dropped
                assert len(received.numbers) == sum(show.audience.expected) > 0
                assert latencies(published, received).max() > 0


@pytest.mark.long
@pytest.mark.parametrize("kind", servers(), ids=lambda kind: kind.name)
def test_every_way_of_a_peer_delivers_everything_in_order(kind: type[Server], folder: Path) -> None:
    mail = Mail()
    with closing(_started(kind, folder)) as server:
        for ways in live_ways({kind.name: server}).values():
            for way in ways:
                assert way.name.startswith(f"{kind.name}, ")
                for each in way.in_bulk():
                    _delivers(each, mail)


def test_valkey_nats_and_rabbitmq_deliver_beside_us() -> None:
    assert set(live_ways_of_all()) == {"valkey", "nats", "rabbitmq"}


def live_ways_of_all() -> list[str]:
    """By name, whether installed here or not: making a way connects nobody."""

    class Anything:
        port = 1

    return list(live_ways({kind.name: Anything() for kind in servers()}))  # type: ignore[misc] # no server is needed


class TestOurs:
    @pytest.mark.parametrize("number", [0, 1], ids=["client", "bare sockets"])
    def test_the_client_and_bare_sockets_get_everything_in_order(self, tmp_path: Path, number: int) -> None:
        with closing(Restante(tmp_path)) as server:
            ways = ours_live.live(server)
            assert [way.name for way in ways] == ["restante", "restante, bare sockets"]
            _delivers(ways[number], Mail())

    def test_those_that_read_nothing_are_connected_and_get_nothing(self, tmp_path: Path) -> None:
        show = one_mailbox_each(Mail(), connections=CONNECTIONS, messages=MESSAGES, stuck=3)
        with closing(Restante(tmp_path)) as server, Stage(ours_live.bare(server)) as stage:
            stage.gather(show.audience)
            _, received = stage.perform(Sending(show.table))
            show.check(received)
        assert set(received.connections.tolist()) == set(range(3, CONNECTIONS))

    def test_connections_may_wait_for_more(self, tmp_path: Path) -> None:
        mail = Mail()
        names = mail.newcomers(CONNECTIONS)
        first, second = (at_random(mail, names, messages=MESSAGES) for _ in range(2))
        with closing(Restante(tmp_path)) as server, Stage(ours_live.bare(server)) as stage:
            stage.gather(first.audience)
            first.check(stage.perform(Sending(first.table))[1])
            stage.gather(More(second.audience.expected))
            second.check(stage.perform(Sending(second.table))[1])

    @pytest.mark.long
    @pytest.mark.parametrize("name", LIVE)
    def test_each_workload_runs(self, name: str, tmp_path: Path) -> None:
        outcome = _run(name, tmp_path, peers=False)
        if name in {"wire_live_stuck", "wire_live_idle"}:
            assert outcome.lines
        assert {what for what, _ in outcome.figures} == LINES[name]
        assert all(figure.value for _, figure in outcome.figures)


@pytest.mark.long
@pytest.mark.parametrize("name", LIVE)
def test_each_workload_compares_us_with_those_that_are_there(name: str, folder: Path) -> None:
    peers = [kind for kind in servers() if kind.name in live_ways_of_all()]
    missing = [f"{kind.name} is {reason}" for kind in peers if (reason := kind.missing())]
    if len(missing) == len(peers) and name not in {"wire_live_stuck", "wire_live_idle"}:
        pytest.skip("; ".join(missing))
    outcome = _run(name, folder, peers=True)
    assert {line.what.split(", by the clients")[0].split(", over bare sockets")[0] for line in outcome.lines} >= LINES[
        name
    ]
    goals = [line for line in outcome.lines if line.goal is not None]
    assert len(goals) == {"wire_live_throughput": 2, "wire_live_latency": 2, "wire_live_stuck": 3}.get(name, 0)


def _run(name: str, folder: Path, *, peers: bool) -> Outcome:
    with wire.running(folder, peers=peers) as (started, _):
        data = folder / "more"
        data.mkdir()
        return workload(name).run(wire.WireBench(TINY, root=data, kept=data, display=Display(), servers=started))


class TestShows:
    def test_a_message_carries_its_number_and_has_the_size_that_is_told(self) -> None:
        show = one_mailbox_each(Mail(), connections=CONNECTIONS, messages=MESSAGES)
        data: list[Any] = show.table.column("data").to_pylist()
        assert [number_of(each)[0] for each in data] == list(range(MESSAGES))
        assert {len(each) for each in data} == {DATA_BYTES} == {256}
        assert show.table.column("recipient").to_pylist() == [
            show.audience.names[number % CONNECTIONS] for number in range(MESSAGES)
        ]

    @pytest.mark.parametrize(
        "numbers",
        [
            pytest.param([0, 2, 1], id="one is missing"),
            pytest.param([2, 0, 1, 3], id="another order"),
            pytest.param([0, 1, 2, 3], id="those of another"),
            pytest.param([0, 2, 2, 1, 3], id="one twice"),
        ],
    )
    def test_receipts_that_are_not_those_that_were_to_come_are_noticed(self, numbers: list[int]) -> None:
        show = one_mailbox_each(Mail(), connections=2, messages=4)
        show.check(_received([0, 0, 1, 1], [0, 2, 1, 3]))
        with pytest.raises(AssertionError, match="not the 4 that were to come"):
            show.check(_received([0, 0, 1, 1, 1][: len(numbers)], numbers))

    def test_a_gap_that_was_told_is_no_failure_but_one_that_is_none_is(self) -> None:
        show = one_mailbox_each(Mail(), connections=2, messages=4)
        show.check(replace(_received([0, 1, 1], [0, 1, 3]), dropped=1))
        with pytest.raises(AssertionError, match="told of a gap"):
            show.check(replace(_received([0, 0, 1, 1], [0, 2, 1, 3]), dropped=1))

    def test_what_was_there_before_it_was_published_is_noticed(self) -> None:
        with pytest.raises(AssertionError, match="received before it was published"):
            latencies(Published(np.array([2.0]), 3.0), Received(np.array([0]), np.array([0]), np.array([1.0])))

    def test_what_goes_to_all_is_expected_by_each(self) -> None:
        show = one_for_all(Mail(), connections=3, messages=2)
        assert isinstance(show.audience, Audience)
        assert len(set(show.audience.names)) == 1
        show.check(_received([0, 0, 1, 1, 2, 2], [0, 1] * 3))

    def test_latency_is_from_the_publish_of_a_message_to_its_receipt_and_the_last_is_the_longest(self) -> None:
        published = Published(np.array([1.0, 2.0]), 2.5)
        received = Received(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1.5, 2.25, 1.25, 4.0]))
        assert latencies(published, received).tolist() == [0.5, 0.25, 0.25, 2.0]
        assert last_latencies(published, received).tolist() == [0.5, 2.0]


def _received(connections: list[int], numbers: list[int]) -> Received:
    return Received(np.array(connections), np.array(numbers), np.zeros(len(numbers)))


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (live_valkey.PacedBare, b"$15\r\n1700000000000-0\r\n"),
        (live_nats.PacedBare, b'MSG answers.x 1 30\r\n{"stream":"mail", "seq":1}\r\n'),
    ],
)
def test_answers_are_counted_however_they_are_cut(kind: Callable[[int], PacedSocket], answer: bytes) -> None:
    octets = answer * 3
    with closing(kind(0)) as driver:
        for cut in range(len(octets) + 1):
            first, left = driver.count(octets[:cut])
            second, left = driver.count(left + octets[cut:])
            assert (first + second, left) == (3, b""), cut


def test_the_plots_name_lines_of_the_workloads(tmp_path: Path) -> None:
    named = [*plots.WIRE_LIVE, *plots.WIRE_LIVE_TIMES]
    for name, what, _ in named:
        assert what.split(", by the clients")[0].split(", over bare sockets")[0] in LINES[name]
    lines = {
        name: [
            {"what": what, "ours": {"name": "restante", "value": 2.0}, "reference": {"name": "valkey, x", "value": 1.0}}
            for of, what, _ in named
            if of == name
        ]
        for name in LIVE
    }
    drawn = plots.draw({"workloads": {name: {"lines": found} for name, found in lines.items()}}, tmp_path)
    assert [path.name for path in drawn] == ["bench-peers-live.png", "bench-peers-live-latency.png"]
    assert min(path.stat().st_size for path in drawn) > 1_000


def test_the_page_has_the_markers_of_these_workloads() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    for name in LIVE:
        assert page.count(f"<!-- bench:{name} -->\n") == page.count(f"<!-- /bench:{name} -->") == 1, name
