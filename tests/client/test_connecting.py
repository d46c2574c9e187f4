"""Every call of the surface through a real socket, and what happens when there is no hub."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import restante
import restante.aio
from restante import errors
from restante.client.surface import sync
from restante.client.surface.surface import Reason
from restante.limits import FEW_MESSAGES_MAX
from restante.model.publishing.message import Message, State
from restante.server.serve import ServedHub, start
from tests.client.conftest import SETTINGS
from tests.client.scripted import Canned, ScriptedServer, answer, problem

SECONDS = 20.0
TOKEN = "rst_very-secret-indeed"
SOME_ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def letter(text: str = "hello", recipient: str = "ada", **other: object) -> Message:
    return Message(recipient=recipient, data=text, **other)  # type: ignore[arg-type]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# Every call.


def test_a_message_goes_there_and_comes_back(hub: sync.Hub) -> None:
    expires = datetime(2040, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    sent = letter(
        "é \x00",
        "a/b ?%é",
        kind="k",
        origin="o",
        document_type="d",
        weight=3,
        properties={"a": "b"},
        expires_at=expires,
    )
    receipt = hub.producer.send(sent)
    bundle = hub.recipient("a/b ?%é").peek()
    assert bundle is not None
    (got,) = bundle.messages
    assert (got.data, got.kind, got.origin, got.document_type, got.weight) == ("é \x00", "k", "o", "d", 3)
    assert (got.properties, got.expires_at, got.state) == ({"a": "b"}, expires, State.WAITING)
    assert (receipt.accepted, receipt.partitions[0].partition) == (1, hub.partition_of("a/b ?%é"))
    assert bundle.dequeue().messages == 1
    assert hub.recipient("a/b ?%é").peek() is None


@pytest.mark.parametrize("count", [0, 1, FEW_MESSAGES_MAX, FEW_MESSAGES_MAX + 1, 5_000])
def test_few_and_many_messages_are_sent_alike(hub: sync.Hub, count: int) -> None:
    assert hub.producer.send([letter(str(number)) for number in range(count)]).accepted == count
    got: list[object] = []
    for bundle in hub.recipient("ada").bundles(idle=0):
        got += [message.data for message in bundle.messages]
        bundle.dequeue()
    assert got == [str(number) for number in range(count)]


def test_columns_are_sent_and_come_back(hub: sync.Hub) -> None:
    table = pa.table({"recipient": ["ada", "ada"], "data": pa.array([b"1", b"2"])})
    assert hub.producer.send(table).accepted == 2
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    assert bundle.table.column("data").to_pylist() == [b"1", b"2"]


def test_a_parcel_for_another_partition_is_refused(hub: sync.Hub) -> None:
    own = hub.partition_of("ada")
    assert hub.producer.send(letter(), partition=own).accepted == 1
    with pytest.raises(errors.PartitionMismatch) as caught:
        hub.producer.send([letter(), letter()], partition=1 - own)
    assert [fault.index for fault in caught.value.faults] == [0, 1]
    with pytest.raises(errors.PartitionUnknown):
        hub.producer.send(letter(), partition=2)


def test_content_of_an_origin_comes_as_it_is(hub: sync.Hub) -> None:
    hub.producer.send(Message(recipient="ada", origin="series", document_type="Series"))
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    assert (bundle.content, bundle.media_type, bundle.message_count) == (b"a,b\n", "text/csv", 1)
    assert bundle.document_types == ("Series",)


def test_explain_and_the_lists_say_what_there_is(hub: sync.Hub) -> None:
    assert hub.recipient("ada").explain().reason is Reason.RECIPIENT_UNKNOWN
    hub.producer.send([letter("1"), letter("2", "ben")])
    began = datetime.now(UTC)
    explanation = hub.recipient("ada").explain(origins=["default"])
    assert (explanation.reason, explanation.waiting[0].messages) == (Reason.READY, 1)
    page = hub.recipients(order="oldest", limit=1)
    assert len(page.recipients) == 1
    assert page.next is not None
    others = hub.recipients(order="oldest", limit=1, after=page.next)
    assert {page.recipients[0].recipient, others.recipients[0].recipient} == {"ada", "ben"}
    assert began <= page.as_of <= datetime.now(UTC)
    assert sum(status.waiting for status in hub.partitions()) == 2


def test_history_goes_on_where_it_ended(hub: sync.Hub) -> None:
    hub.producer.send([letter(str(number)) for number in range(5)])
    mailbox, after, got = hub.recipient("ada"), 0, []
    while True:
        page = mailbox.history(after=after, limit=2)
        got += [message.data for message in page.messages]
        if page.next is None:
            break
        after = page.next
    assert got == ["0", "1", "2", "3", "4"]
    assert mailbox.history(state=State.COLLECTED).messages == ()


def test_single_messages_are_found_set_aside_released_and_withdrawn(hub: sync.Hub) -> None:
    mailbox = hub.recipient("ada")
    hub.producer.send(letter(id=SOME_ID))
    mailbox.set_aside(SOME_ID)
    mailbox.set_aside(SOME_ID)
    assert mailbox.find(SOME_ID).state is State.SET_ASIDE
    mailbox.release(SOME_ID)
    mailbox.release(SOME_ID)
    assert mailbox.find(SOME_ID).state is State.WAITING
    mailbox.withdraw(SOME_ID)
    mailbox.withdraw(SOME_ID)
    assert mailbox.find(SOME_ID).state is State.WITHDRAWN
    with pytest.raises(errors.MessageUnknown):
        mailbox.find("0198c5a2-6f1e-7c3b-9d4a-000000000000")
    with pytest.raises(errors.InvalidRequest):
        mailbox.find("an end of line\n")


def test_purging_and_erasing_say_how_many(hub: sync.Hub) -> None:
    mailbox = hub.recipient("ada")
    hub.producer.send([letter("1"), letter("2", kind="k"), letter("3", kind="k", id=SOME_ID)])
    assert mailbox.purge(kind="k", dry_run=True) == 2
    assert mailbox.purge(kind="k", before=datetime.now(UTC) + timedelta(hours=1)) == 2
    assert mailbox.erase(dry_run=True) == 3
    assert mailbox.erase() == 3
    with pytest.raises(errors.MessageErased):
        mailbox.find(SOME_ID)


def test_maintenance_can_be_asked_for(hub: sync.Hub) -> None:
    hub.producer.send(letter(expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert hub.expire() == 1
    assert hub.file() >= 0
    assert hub.retain() == 0


def test_a_peek_waits_at_the_hub(hub: sync.Hub) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hub.recipient("ada").peek, wait=SECONDS)
        hub.producer.send(letter())
        bundle = waiting.result(SECONDS)
    assert bundle is not None


def test_asynchronous_programs_do_the_same(running: ServedHub) -> None:
    async def program() -> None:
        async with restante.aio.connect(running.url) as hub:
            assert (await hub.producer.send([letter("1"), letter("2")])).accepted == 2
            mailbox, got = hub.recipient("ada"), []
            async for bundle in mailbox.bundles(idle=0):
                got += [message.data for message in bundle.messages]
                await bundle.dequeue()
            assert got == ["1", "2"]
            assert await hub.partition_of("ada") == (await hub.partitions())[await hub.partition_of("ada")].partition
            assert (await mailbox.explain()).reason is Reason.NOTHING_WAITING
            assert len((await mailbox.history()).messages) == 2
            await hub.producer.send(letter(id=SOME_ID))
            await mailbox.set_aside(SOME_ID)
            await mailbox.release(SOME_ID)
            assert (await mailbox.find(SOME_ID)).state is State.WAITING
            await mailbox.withdraw(SOME_ID)
            assert await mailbox.purge(all=True) == 0
            assert await mailbox.erase() == 3
            assert (await hub.recipients()).recipients == ()
            assert (await hub.file(), await hub.expire(), await hub.retain()) == (0, 0, 0)
            assert (await hub.producer.send([letter(str(number)) for number in range(1_000)])).accepted == 1_000
            with pytest.raises(errors.BundleUnknown):
                await mailbox.dequeue(SOME_ID)

    asyncio.run(program())


def test_an_asynchronous_hub_may_be_awaited_and_closed(running: ServedHub) -> None:
    async def program() -> int:
        hub = await restante.aio.connect(running.url)
        try:
            return (await hub.producer.send(letter())).accepted
        finally:
            await hub.close()

    assert asyncio.run(program()) == 1


def test_a_cancelled_peek_leaves_the_client_usable(running: ServedHub) -> None:
    async def program() -> None:
        async with restante.aio.connect(running.url) as hub:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await hub.recipient("ada").peek(wait=SECONDS)
            assert (await hub.producer.send(letter())).accepted == 1

    asyncio.run(program())


def test_a_call_that_is_cancelled_as_its_answer_comes_is_cancelled(running: ServedHub, hub: sync.Hub) -> None:
    async def main() -> None:
        async with restante.aio.connect(running.url) as connected:
            cancelled = 0
            while cancelled < 20:
                asking = asyncio.create_task(connected.recipient("ada").explain())
                await asyncio.sleep(0)
                hub.recipient("ada").explain()  # The event loop stands still meanwhile, and the answer comes.
                if asking.cancel():  # It may have been answered in its first step.
                    cancelled += 1
                    await asyncio.wait((asking,))
                    assert asking.cancelled()
            assert (await connected.recipient("ada").explain()).reason is Reason.RECIPIENT_UNKNOWN

    asyncio.run(main())


def test_a_call_that_is_cancelled_as_it_fails_is_cancelled() -> None:
    async def main() -> None:
        async with restante.aio.connect(f"http://127.0.0.1:{closed_port()}") as connected:
            for _ in range(10):
                asking = asyncio.create_task(connected.recipient("ada").explain())
                await asyncio.sleep(0)
                time.sleep(0.02)  # noqa: ASYNC251 - the event loop stands still meanwhile, and the failure comes
                assert asking.cancel()
                await asyncio.wait((asking,))
                assert asking.cancelled()

    asyncio.run(main())


def test_threads_share_a_client(hub: sync.Hub) -> None:
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda number: hub.producer.send(letter(str(number))), range(64)))
    assert sum(receipt.accepted for receipt in receipts) == 64
    assert hub.recipient("ada").explain().waiting[0].messages == 64


# No hub, or none that lets us in.


def test_an_unreachable_hub_is_named(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with restante.connect(url, retries=0) as hub, pytest.raises(errors.Unavailable, match="restante serve") as caught:
        hub.producer.send(letter())
    assert url in caught.value.message
    assert caught.value.retriable


def test_an_unreachable_hub_is_named_to_asynchronous_programs() -> None:
    async def program() -> None:
        async with restante.aio.connect(f"http://127.0.0.1:{closed_port()}", retries=0) as hub:
            with pytest.raises(errors.Unavailable, match="Nothing answers at"):
                await hub.partitions()

    asyncio.run(program())


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    url = "http://nowhere.invalid:8470"
    with restante.connect(url, retries=0) as hub, pytest.raises(errors.Unavailable, match=re.escape(url)):
        hub.partitions()


def test_a_hub_that_comes_back_is_found_again(tmp_path: Path) -> None:
    with start(tmp_path / "data", SETTINGS) as running:
        url = running.url
        hub = restante.connect(
            url, retries=restante.Retrying(times=1_000, seconds=SECONDS, first_pause=0.01, longest_pause=0.01)
        )
        hub.producer.send(letter("1"))
    with ThreadPoolExecutor(1) as pool, hub:
        sending = pool.submit(hub.producer.send, letter("2"))
        with start(tmp_path / "data", SETTINGS, port=int(url.rpartition(":")[2])):
            assert sending.result(SECONDS).accepted == 1
            bundle = hub.recipient("ada").peek()
            assert bundle is not None
            assert [message.data for message in bundle.messages] == ["1", "2"]


def test_a_slow_hub_is_not_waited_for_longer_than_told() -> None:
    held = threading.Event()
    with (
        ScriptedServer(Canned(200, b"{}", {}, held)) as server,
        restante.connect(server.url, timeout=1, retries=1) as hub,
    ):
        with pytest.raises(errors.Unavailable, match=r"longer than 1 s.*tried 2 times"):
            hub.partitions()
        held.set()
    assert len(server.seen) == 2


def test_a_busy_hub_is_asked_again() -> None:
    receipt = {"accepted": 1, "duplicates": 0, "partitions": []}
    script = (problem(429, "overloaded", retry_after=0), problem(503, "unavailable"), answer(receipt, 201))
    with ScriptedServer(*script) as server, restante.connect(server.url) as hub:
        assert hub.producer.send(letter()).accepted == 1
    assert len({seen.body for seen in server.seen}) == 1
    assert len(server.seen) == 3


def test_a_page_of_another_server_is_not_mistaken_for_a_hub() -> None:
    elsewhere = Canned(302, b"", {"Location": "http://127.0.0.1:1/"})
    with ScriptedServer(elsewhere) as server, restante.connect(server.url) as hub:
        with pytest.raises(errors.InvalidRequest) as told:
            hub.partitions()
        assert "no hub" in told.value.message
        assert len(server.seen) == 1


def test_the_token_is_sent_and_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(problem(401, "unauthenticated")) as server, restante.connect(server.url, token=TOKEN) as hub:
        with pytest.raises(errors.Unauthenticated) as caught:
            hub.partitions()
        assert server.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    told = [str(caught.value), repr(caught.value), repr(caught.value.details), caplog.text]
    assert not any(TOKEN in text for text in told)


def test_a_failed_request_tells_nobody_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with restante.connect(f"http://127.0.0.1:{closed_port()}", token=TOKEN, retries=0) as hub:
        with pytest.raises(errors.Unavailable) as caught:
            hub.partitions()
        with pytest.raises(errors.Unavailable) as caught_too, hub.producer.pipeline() as pipeline:
            pipeline.send(letter()).result(SECONDS)
    chain: list[BaseException | None] = [
        caught.value,
        caught.value.__cause__,
        caught.value.__context__,
        caught_too.value,
    ]
    assert not any(TOKEN in repr(error) or TOKEN in str(error) for error in chain)
    assert TOKEN not in caplog.text


def test_a_closed_client_says_so(running: ServedHub) -> None:
    hub = restante.connect(running.url)
    hub.close()
    hub.close()
    with pytest.raises(errors.Unavailable, match="closed"):
        hub.partitions()


def test_closing_ends_the_pause_between_attempts() -> None:
    with ScriptedServer(problem(503, "unavailable", retry_after=30)) as server, ThreadPoolExecutor(1) as pool:
        hub = restante.connect(server.url)
        asking = pool.submit(hub.partitions)
        assert server.arrived.wait(SECONDS)
        hub.close()
        with pytest.raises(errors.Unavailable, match="closed"):
            asking.result(SECONDS)


def test_a_closed_hub_lets_go_of_its_connections() -> None:
    body = b'{"partitions": [], "next": null}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub = restante.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(hub.partitions)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                connection.recv(65_536)
                connection.sendall(answer)
                assert asking.result(60) == ()
                hub.close()
                assert connection.recv(1) == b""
