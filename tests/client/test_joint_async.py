"""Small acknowledgements of many tasks share requests, and no task notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

import restante.aio
from restante import errors, limits
from restante.client.batches.joint_async import AsyncJointCalls
from restante.client.batches.joint_calls import ACKNOWLEDGEMENTS, JointCall
from restante.client.surface import asynchronous
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch
from restante.server.serve import ServedHub
from tests.client.conftest import QUICK
from tests.client.scripted import Canned, ScriptedServer, answer, problem

SECONDS = 20.0
Requests = list[list[int]]


def told(number: int) -> Acknowledged:
    return Acknowledged(acknowledged=number, complete=(), unknown=())


class Desk:
    """Answers each call with the number that it says, when it is let; notes what came together."""

    def __init__(self, *, held: bool = False) -> None:
        self.requests: Requests = []
        self.arrived = asyncio.Event()
        self.let = asyncio.Event()
        self.guilty: dict[int, Exception] = {}
        self.given_up = 0
        if not held:
            self.let.set()

    async def send(self, texts: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        numbers = [int(text) for text in texts]
        self.requests.append(numbers)
        self.arrived.set()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        for number in numbers:
            if number in self.guilty:
                raise self.guilty[number]
        return tuple(map(told, numbers))


def run(story: Callable[[Desk, AsyncJointCalls[Acknowledged]], Awaitable[None]], *, held: bool = False) -> None:
    async def whole() -> None:
        async with asyncio.timeout(SECONDS):
            desk = Desk(held=held)
            await story(desk, AsyncJointCalls(desk.send, ACKNOWLEDGEMENTS))

    asyncio.run(whole())


def call(number: int, weight: int = 1) -> JointCall:
    return JointCall(str(number).encode(), weight)


def numbers_of(answers: Sequence[Acknowledged]) -> list[int]:
    return [each.acknowledged for each in answers]


def test_calls_of_one_turn_go_out_together_and_each_has_its_own_answer() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        answers = await asyncio.gather(*(joint.carry_out(call(number)) for number in range(5)))
        assert numbers_of(answers) == [0, 1, 2, 3, 4]
        assert desk.requests == [[0, 1, 2, 3, 4]]

    run(story)


def test_a_lone_call_goes_out_alone() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        for number in range(3):
            assert await joint.carry_out(call(number)) == told(number)
        assert desk.requests == [[0], [1], [2]]

    run(story)


async def under_way(desk: Desk, joint: AsyncJointCalls[Acknowledged], number: int) -> asyncio.Task[Acknowledged]:
    """A call that has gone out, and has no answer yet."""
    desk.arrived.clear()
    task = asyncio.create_task(joint.carry_out(call(number)))
    await desk.arrived.wait()
    return task


async def waiting(joint: AsyncJointCalls[Acknowledged], *numbers: int) -> list[asyncio.Task[Acknowledged]]:
    """Calls that have been made."""
    tasks = [asyncio.create_task(joint.carry_out(call(number))) for number in numbers]
    await asyncio.sleep(0)
    return tasks


def test_while_as_many_requests_are_under_way_as_may_be_calls_wait_for_the_next() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        tasks = [await under_way(desk, joint, number) for number in range(limits.ACKNOWLEDGE_REQUESTS_MAX)]
        for number in (7, 8, 9):
            tasks += await waiting(joint, number)
        assert desk.requests == [[0], [1]]
        desk.let.set()
        assert numbers_of(await asyncio.gather(*tasks)) == [0, 1, 7, 8, 9]
        assert desk.requests == [[0], [1], [7, 8, 9]]

    run(story, held=True)


def test_a_request_is_bounded() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        heavy = limits.ACKNOWLEDGE_ITEMS_TARGET // 2
        await asyncio.gather(*(joint.carry_out(call(number, heavy)) for number in range(5)))
        assert desk.requests == [[0, 1], [2, 3], [4]]
        desk.requests.clear()
        most = limits.ACKNOWLEDGED_CALLS_MAX
        answers = await asyncio.gather(*(joint.carry_out(call(number)) for number in range(most + 1)))
        assert numbers_of(answers) == list(range(most + 1))
        assert [len(request) for request in desk.requests] == [most, 1]

    run(story)


def test_only_the_guilty_call_hears_of_a_refusal() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        desk.guilty[1] = errors.InvalidItem("It is no item.", item="junk")
        outcomes = await asyncio.gather(*(joint.carry_out(call(number)) for number in range(3)), return_exceptions=True)
        assert (outcomes[0], outcomes[2]) == (told(0), told(2))
        assert isinstance(outcomes[1], errors.InvalidItem)
        assert outcomes[1].details == {"item": "junk"}
        assert desk.requests == [[0, 1, 2], [0], [1], [2]]

    run(story)


@pytest.mark.parametrize("error", [errors.OutcomeUnknown("No answer."), errors.Forbidden("No."), ValueError("defect")])
def test_when_the_request_fails_each_of_its_callers_hears_of_it(error: Exception) -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        desk.guilty[1] = error
        outcomes = await asyncio.gather(*(joint.carry_out(call(number)) for number in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(error)] * 3
        assert desk.requests == [[0, 1, 2]]
        desk.guilty.clear()
        assert await joint.carry_out(call(4)) == told(4)

    run(story)


def test_one_that_is_cancelled_does_not_harm_the_others() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        first, second, third = await waiting(joint, 0, 1, 2)
        await desk.arrived.wait()
        second.cancel()
        desk.let.set()
        assert numbers_of(await asyncio.gather(first, third)) == [0, 2]
        assert second.cancelled()
        assert desk.requests == [[0, 1, 2]]

    run(story, held=True)


def test_one_that_is_cancelled_while_it_waits_is_not_sent() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        tasks = [await under_way(desk, joint, number) for number in range(limits.ACKNOWLEDGE_REQUESTS_MAX)]
        gone, stays = await waiting(joint, 7, 8)
        gone.cancel()
        await asyncio.wait([gone])
        desk.let.set()
        assert numbers_of(await asyncio.gather(*tasks, stays)) == [0, 1, 8]
        assert desk.requests == [[0], [1], [8]]

    run(story, held=True)


def test_a_request_that_nobody_waits_for_any_more_is_given_up() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        tasks = await waiting(joint, 0, 1)
        await desk.arrived.wait()
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert desk.given_up == 0
        tasks[1].cancel()
        await asyncio.wait(tasks)
        desk.let.set()
        assert await joint.carry_out(call(5)) == told(5)
        assert desk.given_up == 1

    run(story, held=True)


def test_when_the_requests_are_cancelled_from_outside_so_are_their_callers() -> None:
    async def story(desk: Desk, joint: AsyncJointCalls[Acknowledged]) -> None:
        tasks = [await under_way(desk, joint, number) for number in range(limits.ACKNOWLEDGE_REQUESTS_MAX)]
        (later,) = await waiting(joint, 7)
        for task in asyncio.all_tasks():
            if task.get_name() == "restante-joint-calls":
                task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        desk.let.set()
        assert await later == told(7)

    run(story, held=True)


def test_tasks_of_a_served_hub_share_requests_and_a_wrong_one_is_told_alone(running: ServedHub) -> None:
    async def whole() -> None:
        async with asyncio.timeout(SECONDS), restante.aio.connect(running.url) as hub:
            async with hub.batches.open("night") as batch:
                items = list(await batch.add(200))
            calls = [items[first : first + 10] for first in range(0, 200, 10)]
            calls[5] = ["junk", items[50]]
            calls[6] = [f"{batch.id}:77:1", *calls[6]]
            outcomes = await asyncio.gather(*map(batch.acknowledge, calls), return_exceptions=True)
            assert isinstance(outcomes[5], errors.InvalidItem)
            found = [each for each in outcomes if isinstance(each, Acknowledged)]
            assert numbers_of(found) == [10] * 19
            assert [each.unknown for each in found if each.unknown] == [(f"{batch.id}:77:1",)]
            last = await asyncio.gather(*map(batch.acknowledge, items[50:60]))
            assert sorted(numbers_of(last)) == [1] * 10
            assert last[-1].complete == (CompleteBatch(id=batch.id, key="night"),)

    asyncio.run(whole())


def test_a_hub_may_be_used_from_one_event_loop_after_another(running: ServedHub) -> None:
    async def connected() -> asynchronous.Hub:
        return await restante.aio.connect(running.url)

    async def begin() -> None:
        # Made, and never sent: the loop ends first.
        asyncio.get_running_loop().create_task(far.batches.acknowledge(ids[:1]))
        await asyncio.sleep(0)

    async def go_on() -> int:
        async with asyncio.timeout(SECONDS):
            return (await far.batches.acknowledge(ids)).acknowledged

    with restante.connect(running.url) as hub:
        ids = list(hub.batches.open().add(5))
    far = asyncio.run(connected())
    asyncio.run(begin())
    assert asyncio.run(go_on()) in (4, 5)
    asyncio.run(far.close())


NOTHING = {"acknowledged": 0, "complete": [], "unknown": []}


def test_what_waits_when_the_hub_is_closed_is_told_so() -> None:
    async def whole(url: str) -> None:
        hub = await restante.aio.connect(url, retries=QUICK)
        tasks = []
        for _ in range(limits.ACKNOWLEDGE_REQUESTS_MAX):
            server.arrived.clear()
            tasks.append(asyncio.create_task(hub.batches.acknowledge(["a"])))
            assert await asyncio.to_thread(server.arrived.wait, SECONDS)
        tasks.append(asyncio.create_task(hub.batches.acknowledge(["b"])))
        await asyncio.sleep(0)
        await hub.close()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
        assert all(isinstance(outcome, errors.Unavailable) for outcome in outcomes)

    held = threading.Event()
    with ScriptedServer(Canned(200, b"{}", held=held)) as server:
        try:
            asyncio.run(whole(server.url))
        finally:
            held.set()


def test_on_the_wire_several_calls_are_one_request() -> None:
    async def whole(url: str) -> None:
        async with asyncio.timeout(SECONDS), restante.aio.connect(url, retries=QUICK) as hub:
            answers = await asyncio.gather(hub.batches.acknowledge(["a"]), hub.batches.acknowledge(["b"]))
            assert numbers_of(answers) == [0, 4]
            with pytest.raises(errors.InvalidItem):
                await hub.batches.acknowledge(["c"])

    several = answer({"answers": [NOTHING, {**NOTHING, "acknowledged": 4}]})
    with ScriptedServer(several, problem(400, "invalid_item")) as server:
        asyncio.run(whole(server.url))
        assert [seen.body for seen in server.seen] == [
            b'{"calls":[{"items":["a"]},{"items":["b"]}]}',
            b'{"items":["c"]}',
        ]
