"""Buffered producers whose connections are cut: nothing lost, nothing twice, and the callbacks tell the truth."""

from __future__ import annotations

import asyncio

import pytest

import restante
import restante.aio
from restante import errors
from restante.client.surface import sync
from tests.client.proxy import CuttingProxy
from tests.client.tallying import QUICK, SECONDS, Tally, letter, stored


@pytest.fixture
def tally() -> Tally:
    return Tally()


def test_an_answer_that_is_lost_is_asked_for_again(proxy: CuttingProxy, hub: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(proxy.url, retry_total=5, **QUICK, **tally.callbacks) as producer:
        for number in range(10):
            producer.enqueue(letter(number))
            (proxy.cut_after if number % 2 else proxy.cut_before)()
            producer.flush(SECONDS)
    assert proxy.cuts == 10
    assert tally.numbers == stored(hub) == [*range(10)]
    assert tally.failed == []


@pytest.mark.parametrize("numbered", [True, False])
def test_a_parcel_without_an_answer_goes_again_as_often_as_patience_allows(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally, numbered: bool
) -> None:
    with restante.BufferedProducer(
        proxy.url, retry_total=3, enable_idempotent_partitions=numbered, **QUICK, **tally.callbacks
    ) as producer:
        producer.enqueue(letter(1))
        producer.flush(SECONDS)
        proxy.cut_after(3)
        producer.enqueue(letter(2))
        producer.flush(SECONDS)
        assert proxy.cuts == 3
    assert tally.numbers == stored(hub) == [1, 2]
    assert tally.failed == []


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("company", [0, 1], ids=["alone", "in company"])
def test_messages_of_unknown_outcome_may_be_enqueued_again_and_are_stored_once(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally, numbered: bool, company: int
) -> None:
    given = [letter(2), letter(3)]
    with restante.BufferedProducer(
        proxy.url, retry_total=0, enable_idempotent_partitions=numbered, **QUICK, **tally.callbacks
    ) as producer:
        producer.enqueue(letter(1))
        producer.flush(SECONDS)
        proxy.cut_after()
        producer.enqueue(given)
        producer.flush(SECONDS)
        assert tally.errors == [([2, 3], errors.OutcomeUnknown)]
        producer.enqueue([*given, *[letter(4)] * company])
        producer.flush(SECONDS)
        producer.enqueue(given)
    assert tally.numbers == [1, 2, 3, *[4] * company, 2, 3]
    assert len(tally.failed) == 1
    assert stored(hub) == [1, 2, 3, *[4] * company]


def test_other_messages_after_an_unknown_outcome_are_not_taken_for_it(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally
) -> None:
    with restante.BufferedProducer(proxy.url, retry_total=0, **QUICK, **tally.callbacks) as producer:
        producer.enqueue(letter(1))
        producer.flush(SECONDS)
        for cut in (proxy.cut_after, proxy.cut_before):
            cut()
            producer.enqueue(letter(2))
            producer.flush(SECONDS)
            producer.enqueue(letter(3))
            producer.flush(SECONDS)
    assert tally.errors == [([2], errors.OutcomeUnknown)] * 2
    assert tally.numbers == [1, 3, 3]
    assert stored(hub) == [1, 2, 3, 3]


def test_a_failed_parcel_does_not_stop_the_next(proxy: CuttingProxy, hub: sync.Hub, tally: Tally) -> None:
    with restante.BufferedProducer(
        proxy.url, retry_total=0, max_parcel_messages=1, max_concurrent_sends=1, **QUICK, **tally.callbacks
    ) as producer:
        producer.enqueue(letter(0))
        producer.flush(SECONDS)
        proxy.cut_before()
        producer.enqueue([letter(number) for number in range(1, 6)])
        producer.flush(SECONDS)
    assert [numbers for numbers, _ in tally.errors] == [[1]]
    assert stored(hub) == [0, 2, 3, 4, 5]


# Asynchronous programs.


@pytest.mark.parametrize("pipelined", [False, True])
def test_cuts_lose_nothing_and_double_nothing(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally, pipelined: bool
) -> None:
    async def program() -> None:
        async with restante.aio.BufferedProducer(
            proxy.url, retry_total=5, pipelined=pipelined, **QUICK, **tally.callbacks
        ) as producer:
            for number in range(20):
                await producer.enqueue(letter(number))
                (proxy.cut_after if number % 2 else proxy.cut_before)()
                await producer.flush()

    asyncio.run(program())
    assert proxy.cuts >= 20
    assert tally.failed == []
    assert tally.numbers == stored(hub) == [*range(20)]


def test_asynchronous_messages_of_unknown_outcome_may_be_enqueued_again_and_are_stored_once(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally
) -> None:
    given = [letter(2), letter(3)]

    async def program() -> None:
        async with restante.aio.BufferedProducer(proxy.url, retry_total=0, **QUICK, **tally.callbacks) as producer:
            await producer.enqueue(letter(1))
            await producer.flush()
            proxy.cut_after()
            await producer.enqueue(given)
            await producer.flush()
            await producer.enqueue([letter(4), *given])

    asyncio.run(program())
    assert tally.errors == [([2, 3], errors.OutcomeUnknown)]
    assert tally.numbers == [1, 4, 2, 3]
    assert stored(hub) == [1, 2, 3, 4]


def test_an_asynchronous_parcel_without_an_answer_goes_again_as_often_as_patience_allows(
    proxy: CuttingProxy, hub: sync.Hub, tally: Tally
) -> None:
    async def program() -> None:
        async with restante.aio.BufferedProducer(proxy.url, retry_total=3, **QUICK, **tally.callbacks) as producer:
            await producer.enqueue(letter(1))
            await producer.flush()
            proxy.cut_after(3)
            await producer.enqueue(letter(2))

    asyncio.run(program())
    assert (proxy.cuts, tally.failed) == (3, [])
    assert tally.numbers == stored(hub) == [1, 2]
