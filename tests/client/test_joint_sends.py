"""Small sends that wait at the same time share requests, and no sender notices."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import restante
import restante.aio
from restante import errors
from restante.client.surface import sync
from restante.limits import SENDS_BYTES_TARGET
from restante.model.mailboxes.answers import Receipt
from restante.server.serve import ServedHub
from tests.client.conftest import QUICK
from tests.client.scripted import Canned, ScriptedServer, answer, problem

SECONDS = 20.0
RECEIPT = {"accepted": 1, "duplicates": 0, "partitions": []}


def waiting(hub: sync.Hub, recipient: str) -> int:
    bundle = hub.recipient(recipient).peek()
    return 0 if bundle is None else len(bundle.messages)


async def send_together(url: str, *messages: object) -> list[Receipt | BaseException]:
    async with asyncio.timeout(SECONDS), restante.aio.connect(url, retries=QUICK) as hub:
        return await asyncio.gather(*map(hub.send, messages), return_exceptions=True)


def test_each_of_many_sends_has_its_own_receipt(running: ServedHub, hub: sync.Hub) -> None:
    messages = [{"recipient": f"r{number % 7}", "data": number} for number in range(200)]
    receipts = asyncio.run(send_together(running.url, *messages))
    assert all(isinstance(each, Receipt) and each.accepted == 1 for each in receipts)
    given = [
        (own.partition, own.first_sequence_number)
        for each in receipts
        if isinstance(each, Receipt)
        for own in each.partitions
    ]
    assert len(set(given)) == 200
    assert sum(waiting(hub, f"r{number}") for number in range(7)) == 200


def test_only_the_guilty_send_is_refused(running: ServedHub) -> None:
    messages: list[dict[str, object]] = [{"recipient": "ada", "data": number} for number in range(20)]
    messages[7] = {"recipient": " ", "data": 7}
    messages[9] = {"recipient": "ada", "id": "one", "data": 9}
    asyncio.run(send_together(running.url, {"recipient": "ada", "id": "one", "data": "another"}))
    outcomes = asyncio.run(send_together(running.url, *messages))
    assert isinstance(outcomes[7], errors.InvalidMessage)
    assert isinstance(outcomes[9], errors.MessageConflict)
    assert sum([each.accepted for each in outcomes if isinstance(each, Receipt)]) == 18


def test_a_send_that_is_repeated_among_others_is_stored_once(running: ServedHub) -> None:
    messages = [{"recipient": "ada", "id": f"n{number % 10}", "data": number % 10} for number in range(40)]
    receipts = asyncio.run(send_together(running.url, *messages))
    counted = [(each.accepted, each.duplicates) for each in receipts if isinstance(each, Receipt)]
    assert sorted(counted) == [(0, 1)] * 30 + [(1, 0)] * 10


def test_threads_share_requests_as_well(running: ServedHub, hub: sync.Hub) -> None:
    with ThreadPoolExecutor(16) as pool:
        receipts = list(pool.map(lambda number: hub.send(recipient="ada", data=number), range(300)))
    assert sum(each.accepted for each in receipts) == 300
    assert waiting(hub, "ada") == 300


def sent_behind_a_first(*script: Canned) -> tuple[list[str], list[str]]:
    """Two sends while a first one is under way: what became of them, by type, and where their requests went."""
    held = threading.Event()

    async def whole(server: ScriptedServer) -> list[Receipt | BaseException]:
        async with asyncio.timeout(SECONDS), restante.aio.connect(server.url, retries=QUICK) as hub:
            first = asyncio.create_task(hub.send(recipient="ada", data=0))
            assert await asyncio.to_thread(server.arrived.wait, SECONDS)
            sends = (hub.send(recipient="ada", data=number) for number in (1, 2))
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            held.set()
            assert (await first).accepted == 1
            return outcomes

    with ScriptedServer(answer(RECEIPT, 201)._replace(held=held), *script) as server:
        try:
            outcomes = asyncio.run(whole(server))
        finally:
            held.set()
    assert server.seen[0].path == "/v1/messages"
    return [type(each).__name__ for each in outcomes], [seen.path for seen in server.seen[1:]]


def test_the_first_goes_alone_and_those_that_come_meanwhile_go_together() -> None:
    both = answer({"answers": [{"receipt": RECEIPT}] * 2})
    assert sent_behind_a_first(both) == (["Receipt"] * 2, ["/v1/sends"])


def test_what_was_refused_for_now_among_others_is_sent_again_alone() -> None:
    later = {"problem": {"code": "overloaded", "status": 429, "detail": "later"}}
    script = (answer({"answers": [{"receipt": RECEIPT}, later]}), answer(RECEIPT, 201))
    assert sent_behind_a_first(*script) == (["Receipt"] * 2, ["/v1/sends", "/v1/messages"])


def test_a_hub_that_does_not_know_of_it_gets_each_by_itself() -> None:
    script = (problem(404, "not_found"), answer(RECEIPT, 201), answer(RECEIPT, 201))
    assert sent_behind_a_first(*script) == (["Receipt"] * 2, ["/v1/sends", "/v1/messages", "/v1/messages"])


def test_too_few_answers_leave_the_outcome_unknown() -> None:
    one = answer({"answers": [{"receipt": RECEIPT}]})
    assert sent_behind_a_first(one) == (["OutcomeUnknown"] * 2, ["/v1/sends"])


@pytest.mark.parametrize("size", [10, SENDS_BYTES_TARGET])
def test_a_large_send_goes_alone(running: ServedHub, size: int) -> None:
    messages = [{"recipient": "ada", "text": "x" * size} for _ in range(5)]
    receipts = asyncio.run(send_together(running.url, *messages))
    assert [each.accepted for each in receipts if isinstance(each, Receipt)] == [1] * 5
