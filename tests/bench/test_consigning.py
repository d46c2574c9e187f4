"""The benchmark of consignments: both ways deliver the same mail, and calls beside a commit are told from the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import restante
from bench import plots
from bench.consigning import QUIET_CALLS, Beside, Call, Waits, parcels, peeker, publish_all, publisher, stage_all
from bench.context import Bench
from bench.display import Display
from bench.mail import Mail
from bench.outcome import Figure, Unit, faster_by_turns
from bench.scale import QUICK
from bench.workloads import consignments
from restante.client.surface.surface import Hub
from restante.model.batches.batch_answers import BatchState

MESSAGES, PARCEL = 1_000, 100


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with restante.open(tmp_path / "data") as hub:
        yield hub


def _stored(hub: Hub) -> int:
    return sum(status.visible_sequence for status in hub.partitions())


def test_what_four_writers_publish_is_a_duplicate_of_what_four_writers_staged(hub: Hub) -> None:
    mail = parcels(Mail(), recipients=50, messages=MESSAGES, parcel=PARCEL)
    commit = stage_all(hub, mail)
    assert _stored(hub) == 0
    commit()
    assert _stored(hub) == MESSAGES
    with pytest.raises(AssertionError, match="0 messages instead of 1000"):
        publish_all(hub, mail)
    (found,) = hub.consignments()
    assert found.receipt is not None
    assert found.receipt.accepted == MESSAGES


def test_a_commit_with_a_batch_seals_one_of_all_its_messages(hub: Hub) -> None:
    mail = parcels(Mail(), recipients=50, messages=MESSAGES, parcel=PARCEL)
    stage_all(hub, mail, batch=True)()
    (consignment,) = hub.consignments()
    assert consignment.batch is not None
    status = hub.batches.get(consignment.batch).status()
    assert (status.state, status.items) == (BatchState.SEALED, MESSAGES)


def test_calls_are_made_before_and_after_what_is_measured(hub: Hub) -> None:
    with Beside(publisher(hub)) as beside:
        before = len(beside.calls)
        assert before >= QUIET_CALLS
    assert len(beside.calls) >= before + QUIET_CALLS
    assert _stored(hub) == len(beside.calls)


def test_a_call_that_fails_is_told_at_the_end() -> None:
    numbers = count()

    def fail() -> None:
        if next(numbers) >= QUIET_CALLS:
            raise ValueError("the last one")

    with pytest.raises(ValueError, match="the last one"), Beside(fail):
        pass


@pytest.mark.parametrize("again", [True, False])
def test_every_peek_finds_something(hub: Hub, again: bool) -> None:
    peek = peeker(hub, Mail(), again=again)
    assert all(peek() is not None for _ in range(10))


def test_calls_that_overlap_the_commit_are_those_beside_it() -> None:
    calls = [Call(0, 1), Call(1, 3), Call(3, 4), Call(4, 6), Call(6, 10)]
    found = Waits.during_commit(calls, Call(2, 5))
    assert list(found.during) == [2, 1, 2]
    assert list(found.quiet) == [1, 4]
    assert list(Waits.of([found, found]).during) == [2, 1, 2] * 2


def test_the_ratio_of_rates_in_turn_says_how_many_times_as_fast_it_is() -> None:
    staged = Figure(90.0, Unit.RATE, "staged", (40.0, 90.0, 100.0))
    plain = Figure(100.0, Unit.RATE, "published", (50.0, 100.0, 100.0))
    line = faster_by_turns("writers", staged, plain, at_least=0.85)
    assert line.ratio == pytest.approx(0.9)
    assert line.met
    assert not faster_by_turns("writers", staged, plain, at_least=0.95).met


@pytest.mark.long
def test_the_workload_has_a_line_for_each_size_and_a_plot(tmp_path: Path) -> None:
    scale = replace(QUICK, consigned=2_000, commits=(1_000, 2_000))
    bench = Bench(scale, root=tmp_path, kept=tmp_path, display=Display())
    outcome = consignments.run(bench)
    named = {line.what for line in outcome.lines}
    for size in scale.commits:
        assert f"commit of {size:,}, a message" in named
        assert f"publish beside a commit with a batch of {size:,}, longest" in named
    series = json.loads(json.dumps({"workloads": {"consignments": {"series": outcome.series}}}))
    assert [path.name for path in plots.draw(series, tmp_path / "plots")] == ["bench-consignments.png"]


def test_the_consignments_are_drawn(tmp_path: Path) -> None:
    series = {name: {"commit": [[100.0, 5.0], [1000.0, 6.0]]} for name, _, _ in plots.CONSIGNMENT_SERIES}
    drawn = plots.draw({"workloads": {"consignments": {"series": series}}}, tmp_path)
    assert [path.name for path in drawn] == ["bench-consignments.png"]
    assert drawn[0].stat().st_size > 1_000
