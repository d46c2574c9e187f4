"""Actions on the surface: the same in process and over the network, waiting and asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import restante
import restante.aio
from restante.calls.actions import ReportOutcomes, SendAction
from restante.calls.groups import DefineGroup, JoinGroup, ReadNext
from restante.client.surface import sync
from restante.errors import ActionUnknown, InvalidRequest, MessageConflict
from restante.model.actions.action_row import ActionState
from restante.model.batches.batch_answers import BatchState
from restante.model.groups.group_answers import Joined, ReadAfter
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem
from restante.server.serve import ServedHub, start
from restante.settings import GroupSettings, Settings
from tests.work.workers import ended

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, groups=GroupSettings(heartbeat_seconds=600))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    folder: Path = tmp_path_factory.mktemp("acting") / "data"
    with start(folder, SETTINGS) as running:
        yield running


@pytest.fixture(params=["in process", "over http"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Hub]:
    if request.param == "in process":
        with restante.open(tmp_path / "data", settings=SETTINGS) as opened:
            yield opened
    else:
        served: ServedHub = request.getfixturevalue("served")
        with restante.connect(served.url) as connected:
            yield connected


class Doer:
    """A worker by hand, over the link of the surface."""

    def __init__(self, hub: sync.Hub, group: str, *actions: str) -> None:
        self._link: Any = hub._link
        self.group = group
        self._link.call(DefineGroup(group, actions=actions))
        self._joined: Joined = self._link.call(JoinGroup(group, "w"))

    def do(self, state: OutcomeState = OutcomeState.DONE, **said: Any) -> int:
        """Report all that is handed out; gives how many that were."""
        after = tuple(
            ReadAfter(partition=own.partition, generation=own.generation, position=own.position)
            for own in self._joined.partitions
        )
        count = 0
        for page in self._link.call(ReadNext(self.group, self._joined.member_id, after, wait=5)).pages:
            outcomes = [
                WorkOutcome(sequence_number=number, state=state, attempts=1, **said)
                for number in page.table["sequence_number"].to_pylist()
            ]
            self._link.call(ReportOutcomes(self.group, page.partition, page.generation, outcomes))
            count += len(outcomes)
        return count


def test_something_is_done_and_its_outcome_waited_for(hub: sync.Hub) -> None:
    doer = Doer(hub, "acting", "greet")
    accepted = hub.act("greet", concerns="ada", data={"name": "Ada"}, id="hello")
    assert (accepted.state, accepted.declared) == (ActionState.ACCEPTED, True)
    doing = threading.Thread(target=lambda: doer.do(result=b'{"said":"hello"}'))
    doing.start()
    found = ended(hub, accepted)
    doing.join()
    assert (found.state, found.value) == (ActionState.DONE, {"said": "hello"})
    again = hub.act("greet", concerns="ada", data={"name": "Ada"}, id="hello", wait=5)
    assert again.state is ActionState.DONE, "it has ended already: there is nothing to wait for"
    with pytest.raises(MessageConflict):
        hub.act("greet", concerns="ada", data={"name": "Ben"}, id="hello")


def test_poison_is_listed_done_again_and_given_up(hub: sync.Hub) -> None:
    doer = Doer(hub, "poisoned", "break_it")
    hub.act_all([restante.WantedAction(action="break_it", concerns=f"p{n}", id=f"p{n}") for n in range(3)])
    assert doer.do(OutcomeState.POISONED, problem=WorkProblem("broken", "It broke.")) == 3
    group = hub.group("poisoned")
    assert {own.id for own in group.poison()} == {"p0", "p1", "p2"}
    assert group.again("p0").state is ActionState.ACCEPTED
    group.give_up("p1", concerns="p1")
    assert [own.id for own in group.poison()] == ["p2"]
    assert hub.outcome("p1").state is ActionState.FAILED
    with pytest.raises(ActionUnknown):
        group.again("p1")
    assert doer.do() == 1
    assert hub.outcome("p0").state is ActionState.DONE


def test_a_batch_of_actions_is_complete_when_they_are_done(hub: sync.Hub) -> None:
    doer = Doer(hub, "batched", "count_it")
    with hub.batches.open() as batch:
        hub.act_all([restante.WantedAction(action="count_it", concerns="x") for _ in range(5)], batch=batch)
        hub._link.call(SendAction(restante.WantedAction(action="count_it", concerns="y"), batch=batch.id))
    assert doer.do() == 6
    assert batch.completed().state is BatchState.COMPLETE


def test_mistakes_are_the_same_on_both_ways(hub: sync.Hub) -> None:
    wrong: list[dict[str, Any]] = [
        {"action": ""},
        {"action": "a\nb"},
        {"action": 7},
        {"concerns": 7},
        {"concerns": "\ud800"},
        {"concerns": ""},
        {"data": object()},
        {"data": {1, 2}.__iter__()},
        {"id": 7},
        {"id": ""},
        {"expires_in": 0},
        {"expires_in": "soon"},
        {"origin": "restante"},
        {"wait": "long"},
    ]
    for given in wrong:
        with pytest.raises(InvalidRequest):
            hub.act(**{"action": "greet", "concerns": "x", **given})
    for several in ("x", [7], restante.WantedAction(action="a", concerns="b"), []):
        with pytest.raises(InvalidRequest):
            hub.act_all(several)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        hub.outcome("a\x00b")


def test_the_asynchronous_twin_does_the_same(served: ServedHub, tmp_path: Path) -> None:
    async def act(opened: Any) -> None:
        async with opened as hub:
            accepted = await hub.act("nobody_does_it", concerns="x", data=[1, 2])
            found = await hub.outcome(accepted.id, wait=0.1)
            assert found.state is ActionState.ACCEPTED
            assert [own.state async for own in hub.group("acting").poison()] == []

    async def both() -> None:
        async with restante.aio.connect(served.url) as hub:
            await hub._link.call(DefineGroup("acting", actions=("greet",)))
        await act(restante.aio.connect(served.url))
        async with restante.aio.open(tmp_path / "data", settings=SETTINGS) as hub:
            await hub._link.call(DefineGroup("acting", actions=("greet",)))
        await act(restante.aio.open(tmp_path / "data", settings=SETTINGS))

    asyncio.run(both())
