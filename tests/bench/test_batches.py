"""The benchmark of batches: everybody counts the same items down, and a count that is wrong is found out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bench import plots
from bench.batch_growth import STEPS, Work, grown
from bench.ours_batches import Gathered, Ours
from bench.ours_wire import Restante
from bench.peers import celery_chord
from bench.peers.postgresql import Postgresql
from bench.peers.valkey import Valkey
from bench.server import Server
from bench.tally import WORKERS, Call, Calls, Crew, Report, Tally, check, deal, kinds_of_tallies
from restante.model.batches.batch_answers import ItemRange

ITEMS = 1_000
SERVERS: dict[str, type[Server]] = {kind.name: kind for kind in (Restante, Valkey, Postgresql)}
KINDS: list[type[Tally]] = [Ours, Gathered, *kinds_of_tallies()]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below `tmp_path`, which is root's alone: a server that refuses to run as root has to get there."""
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as name:
        yield Path(name)


def _started(name: str, folder: Path) -> Server:
    kind = SERVERS[name]
    if missing := kind.missing():
        pytest.skip(f"{name} is {missing}")
    place = folder / name
    place.mkdir()
    return kind(place)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_four_workers_count_a_batch_down_to_one_completion(kind: type[Tally], folder: Path) -> None:
    with closing(_started(kind.server, folder)) as server, Crew(kind(server)) as crew:
        for size, depth in ((100, 1), (7, 8)):
            crew.prepare(ITEMS, size=size, depth=depth)
            assert crew.run() > 0


def test_the_hub_counts_a_batch_down_to_one_completion(folder: Path) -> None:
    with closing(_started(Restante.name, folder)) as server:
        assert isinstance(server, Restante)
        with Crew(Ours(server)) as crew:
            crew.prepare(ITEMS, size=100, depth=1)
            assert crew.run() > 0


@pytest.mark.long
def test_a_chord_counts_its_tasks(folder: Path) -> None:
    if missing := celery_chord.missing():
        pytest.skip(f"celery is {missing}")
    place = folder / "celery"
    place.mkdir()
    with closing(_started(Valkey.name, folder)) as server:
        assert isinstance(server, Valkey)
        with celery_chord.running(server, place) as sender:
            sender.ask(20)
            assert sender.ask(None) > 0


def test_every_item_is_dealt_and_a_tenth_of_them_to_two_workers() -> None:
    shares = deal(ITEMS, size=64)
    assert len(shares) == WORKERS
    assert all(len(call) == 64 for share in shares for call in share[:-1])
    by_worker = [np.concatenate(share) for share in shares]
    assert all(len(np.unique(own)) == len(own) for own in by_worker)
    times = np.bincount(np.concatenate(by_worker), minlength=ITEMS)
    assert sorted(times.tolist()) == [1] * 900 + [2] * 100


class TestACountThatIsWrong:
    """Two workers with a call each, of items 0 to 2 and 2 to 4."""

    SHARES: Sequence[Calls] = ([np.array([0, 1, 2])], [np.array([2, 3, 4])])

    @staticmethod
    def _reports(first: Call, second: Call, completions: int = 1) -> list[Report]:
        return [Report([first], 0), Report([second], completions)]

    def test_a_right_one_passes(self) -> None:
        check(5, self.SHARES, self._reports(Call(0, 1, 3, False), Call(0.5, 2, 2, True)))

    def test_nobody_was_told(self) -> None:
        with pytest.raises(AssertionError, match="nobody was told"):
            check(5, self.SHARES, self._reports(Call(0, 1, 3, False), Call(0.5, 2, 2, False)))

    def test_it_was_told_early(self) -> None:
        with pytest.raises(AssertionError, match="had not been acknowledged"):
            check(5, self.SHARES, self._reports(Call(0, 1, 3, True), Call(1.5, 2, 2, True)))

    @pytest.mark.parametrize("completions", [0, 2])
    def test_it_was_not_completed_once(self, completions: int) -> None:
        with pytest.raises(AssertionError, match=f"completed {completions} times"):
            check(5, self.SHARES, self._reports(Call(0, 1, 3, False), Call(0.5, 2, 2, True), completions))

    def test_an_item_was_counted_twice(self) -> None:
        with pytest.raises(AssertionError, match="5 items"):
            check(5, self.SHARES, self._reports(Call(0, 1, 3, False), Call(0.5, 2, 3, True)))


@pytest.mark.long
def test_a_batch_is_looked_at_tenth_by_tenth(tmp_path: Path) -> None:
    tenths: list[None] = []
    found = grown(tmp_path, Work(items=1_000, call=50, ranges=True), lambda: tenths.append(None))
    assert [point.acknowledged for point in found.points] == list(range(100, 1_001, 100))
    assert len(tenths) == STEPS
    assert found.seconds > 0


@pytest.mark.parametrize("ranges", [True, False])
def test_the_calls_of_a_batch_alone_name_every_item_once(ranges: bool) -> None:
    work = Work(items=100, call=10, ranges=ranges)
    order = work.order()
    named = [each for call in range(work.calls) for each in _indices(work.named("b:0", order, call))]
    assert named != sorted(named)
    assert sorted(named) == list(range(100))


def _indices(named: ItemRange | list[str]) -> list[int]:
    if isinstance(named, ItemRange):
        return list(range(named.start, named.upto))
    return [int(item.removeprefix("b:0:")) for item in named]


def test_the_batches_are_drawn(tmp_path: Path) -> None:
    points = [[100.0, 5.0], [200.0, 6.0]]
    series = {name: {"restante": points} for name, _, _ in plots.BATCH_SERIES}
    figure = {"name": "restante", "value": 2.0}
    lines = [
        {"what": what, "ours": figure, "reference": {"name": "valkey, set of ids", "value": 1.0}}
        for _, what, _ in plots.WIRE_BATCHES
    ]
    report = json.loads(
        json.dumps({"workloads": {"batches_alone": {"series": series, "lines": []}, "wire_batches": {"lines": lines}}})
    )
    drawn = plots.draw(report, tmp_path)
    assert {path.name for path in drawn} == {"bench-batches.png", "bench-peers-batches.png"}
    assert all(path.stat().st_size > 1_000 for path in drawn)


def test_the_plots_name_the_lines_of_the_workload() -> None:
    from bench.workloads import wire_batches

    lines = {wire_batches.named(size, depth) for size in wire_batches.AT_LEAST for depth in wire_batches.DEPTHS}
    assert {what for _, what, _ in plots.WIRE_BATCHES} == lines
