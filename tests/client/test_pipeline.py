"""The pipeline through a real socket and in process: order, errors, reconnects, room."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

import restante
import restante.aio
from restante import errors
from restante.calls.publishing import Publish
from restante.client.publishing.pipeline_sync import CallCarrier, Pipeline
from restante.client.surface import sync
from restante.model.access.access import Role
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few
from restante.model.publishing.message import Message
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from tests.client.conftest import QUICK, SETTINGS
from tests.client.proxy import CuttingProxy

SECONDS = 20.0
MANY = 3_000
SOME_ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def letter(number: int, **other: object) -> Message:
    return Message(recipient="ada", data=number, **other)  # type: ignore[arg-type]


def stored(hub: sync.Hub) -> list[object]:
    """The data of all messages, in the order in which they are delivered."""
    got: list[object] = []
    for bundle in hub.recipient("ada").bundles(idle=0):
        got += [message.data for message in bundle.messages]
        bundle.dequeue()
    return got


def test_messages_are_stored_in_the_order_sent(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        futures = [pipeline.send(letter(number)) for number in range(MANY)]
    assert all(future.result(0).accepted == 1 for future in futures)
    assert stored(either) == list(range(MANY))


def test_a_future_is_kept_while_the_pipeline_is_open(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        receipt = pipeline.send(letter(1)).result(SECONDS)
        assert (receipt.accepted, receipt.duplicates) == (1, 0)
        assert pipeline.send([letter(2), letter(3)]).result(SECONDS).accepted == 2


def test_flush_waits_for_all_that_was_sent(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        futures = [pipeline.send(letter(number)) for number in range(500)]
        pipeline.flush()
        assert all(future.done() for future in futures)
        pipeline.flush()


def test_a_repeated_id_is_a_duplicate(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        first = pipeline.send(letter(1, id=SOME_ID)).result(SECONDS)
        second = pipeline.send(letter(1, id=SOME_ID)).result(SECONDS)
    assert [(r.accepted, r.duplicates) for r in (first, second)] == [(1, 0), (0, 1)]


def test_only_the_faulty_ones_are_refused(either: sync.Hub) -> None:
    either.producer.send(letter(-1, id=SOME_ID))
    wrong = {
        10: (letter(10, id=SOME_ID), errors.MessageConflict),
        20: (letter(20, id="an end of line\n"), errors.InvalidMessage),
        30: (Message(recipient=" ", data=30), errors.InvalidMessage),
        40: (Message(recipient="ada", origin="nobody"), errors.InvalidMessage),
        50: (letter(50, sequence_number=5), errors.InvalidMessage),
    }
    with either.producer.pipeline() as pipeline:
        futures = [pipeline.send(wrong[n][0] if n in wrong else letter(n)) for n in range(300)]
    for number, future in enumerate(futures):
        if number in wrong:
            error = future.exception(0)
            assert isinstance(error, wrong[number][1])
            assert [fault.index for fault in error.faults] == [0]
        else:
            assert future.result(0).accepted == 1
    assert stored(either) == [-1, *(number for number in range(300) if number not in wrong)]


def test_what_is_no_message_is_refused_at_once(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline, pytest.raises(errors.InvalidRequest, match="Message"):
        pipeline.send("text")


def test_a_closed_pipeline_takes_nothing(either: sync.Hub) -> None:
    pipeline = either.producer.pipeline()
    pipeline.close()
    pipeline.close()
    with pytest.raises(errors.Unavailable, match="closed"):
        pipeline.send(letter(1))


def test_threads_share_a_pipeline(either: sync.Hub) -> None:
    with either.producer.pipeline() as pipeline:
        threads = [
            threading.Thread(target=lambda: [pipeline.send(letter(number)) for number in range(200)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(stored(either)) == sorted([*range(200)] * 4)  # type: ignore[type-var]


def test_what_hangs_on_a_future_may_send_again(either: sync.Hub) -> None:
    done = threading.Event()
    with either.producer.pipeline() as pipeline:

        def again(future: Future[Receipt]) -> None:
            pipeline.send(letter(2)).add_done_callback(lambda _: done.set())

        pipeline.send(letter(1)).add_done_callback(again)
        assert done.wait(SECONDS)
    assert stored(either) == [1, 2]


# Room.


def test_a_full_pipeline_makes_its_sender_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.PIPELINE_MESSAGES_MAX", 3)
    let_go, taken = threading.Event(), threading.Event()

    def publish(call: Publish) -> Receipt:
        assert isinstance(call.sent, Few)
        taken.set()
        assert let_go.wait(SECONDS)
        return Receipt(accepted=len(call.sent.messages), duplicates=0, partitions=())

    with Pipeline(CallCarrier(publish)) as pipeline:
        for number in range(3):
            pipeline.send(letter(number))
        sent = threading.Event()

        def send() -> None:
            pipeline.send(letter(3))
            sent.set()

        sender = threading.Thread(target=send)
        sender.start()
        assert taken.wait(SECONDS)
        assert not sent.is_set()
        let_go.set()
        assert sent.wait(SECONDS)
        pipeline.room()
        sender.join()


def test_an_asynchronous_sender_is_told_to_wait_for_room(
    running: ServedHub, hub: sync.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.limits.PIPELINE_MESSAGES_MAX", 3)

    async def program() -> None:
        async with restante.aio.connect(running.url) as far, far.producer.pipeline() as pipeline:
            for number in range(3):
                pipeline.send(letter(number))
            with pytest.raises(errors.Overloaded, match="room"):
                pipeline.send(letter(3))
            await pipeline.room()
            await pipeline.send(letter(3))

    asyncio.run(program())
    assert stored(hub) == [0, 1, 2, 3]


# Cuts.


def test_a_lost_connection_is_opened_again_and_nothing_is_lost_or_twice(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy
) -> None:
    with behind.producer.pipeline() as pipeline:
        pipeline.send(letter(0)).result(SECONDS)
        for cut, first in ((proxy.cut_before, 1), (proxy.cut_after, 101), (proxy.cut_after, 201)):
            cut()
            futures = [pipeline.send(letter(number)) for number in range(first, first + 100)]
            pipeline.flush()
            assert all(future.result(0).accepted + future.result(0).duplicates >= 1 for future in futures)
    assert proxy.cuts == 3
    assert stored(hub) == list(range(301))


def test_a_frame_whose_answer_was_lost_is_told_as_duplicates(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy
) -> None:
    with behind.producer.pipeline() as pipeline:
        pipeline.send(letter(0)).result(SECONDS)
        proxy.cut_after()
        receipt = pipeline.send(letter(1)).result(SECONDS)
    assert (receipt.accepted, receipt.duplicates) == (0, 1)
    assert stored(hub) == [0, 1]


def test_when_patience_ends_everything_behind_fails_too(proxy: CuttingProxy, hub: sync.Hub) -> None:
    with restante.connect(proxy.url, retries=1) as behind, behind.producer.pipeline() as pipeline:
        pipeline.send(letter(0)).result(SECONDS)
        proxy.cut_before(1_000)
        futures = [pipeline.send(letter(number)) for number in range(1, 50)]
        pipeline.flush()
        assert all(isinstance(future.exception(0), errors.Unavailable) for future in futures)
        proxy.cut_before(0)
        assert pipeline.send(letter(99)).result(SECONDS).accepted == 1
    assert stored(hub) == [0, 99]


def test_letting_go_fails_what_was_not_answered(proxy: CuttingProxy) -> None:
    with restante.connect(proxy.url, retries=restante.Retrying(first_pause=60, longest_pause=60)) as behind:
        pipeline = behind.producer.pipeline()
        proxy.cut_before(1_000)
        future = pipeline.send(letter(1))
        pipeline.abort()
        assert isinstance(future.exception(SECONDS), errors.Unavailable)


# Asynchronous programs.


def test_asynchronous_sends_are_stored_in_their_order(running: ServedHub, hub: sync.Hub, proxy: CuttingProxy) -> None:
    async def program() -> list[Receipt]:
        async with restante.aio.connect(proxy.url, retries=QUICK) as far, far.producer.pipeline() as pipeline:
            await pipeline.send(letter(0))
            proxy.cut_after()
            futures = [pipeline.send(letter(number)) for number in range(1, MANY)]
            await pipeline.flush()
            assert all(future.done() for future in futures)
            bad = pipeline.send(letter(1, id="an end of line\n"))
            with pytest.raises(errors.InvalidMessage):
                await bad
            return [future.result() for future in futures]

    receipts = asyncio.run(program())
    assert len(receipts) == MANY - 1
    assert proxy.cuts == 1
    assert stored(hub) == list(range(MANY))


def test_asynchronous_sends_in_process_are_the_same(tmp_path: Path) -> None:
    async def program() -> list[object]:
        async with restante.aio.open(tmp_path / "here", settings=SETTINGS) as hub:
            async with hub.producer.pipeline() as pipeline:
                for number in range(500):
                    pipeline.send(letter(number))
            bundle = await hub.recipient("ada").peek()
            assert bundle is not None
            return [message.data for message in bundle.messages]

    assert asyncio.run(program()) == list(range(500))


@pytest.mark.parametrize("count", [1, 100])
def test_what_cannot_be_encoded_is_told_to_its_sender_alone(either: sync.Hub, count: int) -> None:
    with either.producer.pipeline() as pipeline:
        good = [pipeline.send(letter(number)) for number in range(count)]
        bad = pipeline.send(Message(recipient="ada", data=object()))
        good += [pipeline.send(letter(number)) for number in range(count)]
    assert isinstance(bad.exception(0), errors.RestanteError)
    assert [future.result(0).accepted for future in good] == [1] * 2 * count


def test_a_cancelled_program_lets_go_at_once(proxy: CuttingProxy) -> None:
    async def program() -> None:
        patience = restante.Retrying(first_pause=60, longest_pause=60)
        async with restante.aio.connect(proxy.url, retries=patience) as far:
            proxy.cut_before(1_000)
            async with asyncio.timeout(0.1), far.producer.pipeline() as pipeline:
                await pipeline.send(letter(1))

    with pytest.raises(TimeoutError):
        asyncio.run(program())


@pytest.mark.parametrize("token", [None, "rst_nobody"])
def test_a_token_that_is_not_let_in_is_told_to_each_send(tmp_path: Path, token: str | None) -> None:
    folder = tmp_path / "data"
    TokenFile(folder / "tokens.json").create(roles=[Role.OPERATOR])
    with start(folder, SETTINGS) as running, restante.connect(running.url, token=token) as hub:
        with pytest.raises(errors.Unauthenticated):
            hub.partitions()
        with hub.producer.pipeline() as pipeline:
            futures = [pipeline.send(letter(number)) for number in range(3)]
    assert [type(future.exception(0)) for future in futures] == [errors.Unauthenticated] * 3


def test_an_address_without_a_hub_is_told_to_each_send(running: ServedHub) -> None:
    with restante.connect(running.url + "/elsewhere") as hub, hub.producer.pipeline() as pipeline:
        error = pipeline.send(letter(1)).exception(SECONDS)
    assert isinstance(error, errors.InvalidRequest)
