"""Health checks through groups: workers drop them, nobody counts them, and a group that is stuck is red."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante.calls.groups import DefineGroup, JoinGroup
from restante.client.surface import sync
from restante.hub.actions.group_checks import EVERY_SECONDS
from restante.hub.groups.group_health import LATE_SECONDS, GroupChecks
from restante.model.health.tree import HealthNode
from restante.server.serve import ServedHub, start
from restante.work import App
from tests.hub.engines import FakeClock
from tests.waiting import wait_until
from tests.work.workers import SETTINGS, WorkerHere


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def served(tmp_path: Path, clock: FakeClock) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS, clock=clock) as running:
        yield running


@pytest.fixture
def hub(served: ServedHub) -> Iterator[sync.Hub]:
    with restante.connect(served.url) as opened:
        yield opened


def looked(served: ServedHub) -> GroupChecks:
    served.desk.hub.check_groups()
    return served.desk.hub.core.memory(GroupChecks)


def leaf(served: ServedHub, group: str) -> HealthNode:
    tree = served.desk.health.look(deeply=False).tree.root

    def found(node: HealthNode) -> Iterator[HealthNode]:
        if node.name in (group, f"groups/{group}"):
            yield node
        for part in node.parts:
            yield from found(part)

    return next(found(tree))


def test_workers_drop_checks_and_nobody_counts_them(served: ServedHub, hub: sync.Hub, clock: FakeClock) -> None:
    app = App("shop")

    @app.action("note")
    async def note() -> None:
        raise AssertionError("no handler is called")

    with WorkerHere(app, served.url) as worker:
        partitions = set()
        for turn in range(3):
            wait_until(lambda: all(c.took is not None for c in looked(served).checks.values()), "it is dropped")
            partitions.add(looked(served).checks["shop"].partition)
            assert worker.runner.counts.health_checks == turn + 1
            clock.advance(EVERY_SECONDS)
            looked(served)
        assert partitions == {0, 1, 2}, "one partition after another"
    assert [page for page in hub.feed() if page.table.num_rows] == []
    assert [each.recipient for each in hub.recipients().recipients] == []
    assert leaf(served, "shop").state.value == "green"


def test_a_group_whose_worker_is_stuck_is_red(served: ServedHub, hub: sync.Hub, clock: FakeClock) -> None:
    link = hub.link
    link.call(DefineGroup("stuck", actions=("note",)))
    assert looked(served).checks == {}, "a group without members is not checked"
    link.call(JoinGroup("stuck", "worker-1"))
    looked(served)
    clock.advance(LATE_SECONDS)
    found = leaf(served, "stuck")
    assert found.state.value == "red"
    assert any("waits for a worker" in str(measure.reason) for measure in found.measures)


def test_a_group_that_ends_is_forgotten(served: ServedHub, hub: sync.Hub) -> None:
    hub.link.call(DefineGroup("gone", actions=("note",)))
    hub.link.call(JoinGroup("gone", "worker-1"))
    assert set(looked(served).checks) == {"gone"}
    hub.group("gone").delete()
    assert looked(served).checks == {}
