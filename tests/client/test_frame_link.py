"""Many frames under way over one web socket: answers find their callers, and a loss is told to all of them."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from restante import errors
from restante.calls.publishing import Publish
from restante.client.sockets.publish_socket_async import AsyncPublishSocket
from restante.client.sockets.publish_socket_sync import PublishSocket
from restante.client.surface import sync
from restante.client.transport.link import Link
from restante.client.transport.options import terms_of
from restante.limits import LINK_FRAMES_MAX, MIB, SEND_BYTES_MAX
from restante.model.access.access import Role
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.message import Message
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.wire.media import ARROW
from restante.wire.publish import EncodedPublish, encode_publish
from tests.client.conftest import SETTINGS
from tests.client.frame_server import SECONDS, FrameServer, StalledServer
from tests.client.from_loop import FromLoop
from tests.client.proxy import CuttingProxy
from tests.client.scripted import ScriptedServer, problem

CALLS = ("__init__", "call", "close")
SHORT = 0.2
"""Seconds, where nothing is to be answered."""
LONG_ENOUGH = 1.5
"""Seconds, where one frame gets no answer in time and others do."""


Links = Callable[..., PublishSocket | FromLoop]


@pytest.fixture(params=["threads", "tasks"])
def links(request: pytest.FixtureRequest) -> Iterator[Links]:
    """Makes links of both kinds, and closes them."""
    with ExitStack() as stack:

        def made(
            url: str, *, timeout: float = SECONDS, token: str | None = None, window: int = LINK_FRAMES_MAX
        ) -> PublishSocket | FromLoop:
            terms = terms_of(url, token=token, timeout=timeout)
            if request.param == "threads":
                link = PublishSocket(terms, window)
                stack.callback(link.close)
                return link
            from_loop = FromLoop(terms, window)
            stack.callback(from_loop.end)
            return from_loop

        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as callers:
        yield callers


@pytest.fixture
def server() -> Iterator[FrameServer]:
    with FrameServer() as scripted:
        yield scripted


def letter(recipient: str = "ada", data: object = 1) -> Message:
    return Message(recipient=recipient, id=str(uuid4()), data=data)


def failed(promise: Future[Receipt]) -> BaseException | None:
    return promise.exception(SECONDS)


# --- With a hub -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_frame_is_stored_and_answered(links: Links, running: ServedHub, hub: sync.Hub, count: int) -> None:
    sent = [letter(data=number) for number in range(count)]
    receipt = links(running.url).call(Publish.of(sent, partition=hub.partition_of("ada")))
    assert (receipt.accepted, receipt.duplicates) == (count, 0)
    (stored,) = receipt.partitions
    assert (stored.partition, stored.last_sequence_number) == (hub.partition_of("ada"), count)


def test_messages_without_ids_get_some(links: Links, running: ServedHub, hub: sync.Hub) -> None:
    assert links(running.url).call(Publish.of(Message(recipient="ada", data=1))).accepted == 1
    (stored,) = hub.recipient("ada").history().messages
    assert stored.id is not None


def test_what_is_encoded_already_is_sent_as_it_is(links: Links, running: ServedHub) -> None:
    link = links(running.url)
    terms = terms_of(running.url)
    encoded = encode_publish(few_or_many(Message(recipient="ada", data=1)), random=terms.random, now_ms=terms.now_ms())
    assert link.call(Publish(encoded)).accepted == 1
    assert link.call(Publish(encoded)).duplicates == 1


def test_all_callers_share_one_connection(
    links: Links, proxy: CuttingProxy, hub: sync.Hub, pool: ThreadPoolExecutor
) -> None:
    link = links(proxy.url)
    names = [f"reader-{number}" for number in range(200)]
    receipts = list(pool.map(lambda name: link.call(Publish.of(letter(name))), names))
    assert [receipt.accepted for receipt in receipts] == [1] * 200
    assert sum(status.waiting for status in hub.partitions()) == 200
    assert proxy.connections == 1


def test_a_numbered_parcel_is_stored_once_and_its_repetition_says_so(
    links: Links, running: ServedHub, hub: sync.Hub
) -> None:
    link = links(running.url)
    partition = hub.partition_of("ada")
    numbers = ProducerNumbers(group=7, owner_level=0, published_sequence=0)
    sent = [letter(), letter()]
    first = link.call(Publish.of(sent, partition=partition, producer=numbers))
    again = link.call(Publish.of(sent, partition=partition, producer=numbers))
    assert (first.accepted, first.replayed) == (2, False)
    assert (again.accepted, again.replayed, again.partitions) == (2, True, first.partitions)
    following = msgspec.structs.replace(numbers, published_sequence=2)
    assert link.call(Publish.of(letter(), partition=partition, producer=following)).accepted == 1


def test_numbers_that_do_not_follow_are_refused_with_the_one_that_would(
    links: Links, running: ServedHub, hub: sync.Hub
) -> None:
    numbers = ProducerNumbers(group=7, owner_level=0, published_sequence=5)
    with pytest.raises(errors.InvalidClientState) as caught:
        links(running.url).call(Publish.of(letter(), partition=hub.partition_of("ada"), producer=numbers))
    assert caught.value.details["expected"] == 0


def test_a_refused_frame_is_its_callers_error_and_the_link_goes_on(
    links: Links, proxy: CuttingProxy, hub: sync.Hub
) -> None:
    link = links(proxy.url)
    elsewhere = 1 - hub.partition_of("ada")
    with pytest.raises(errors.PartitionMismatch) as caught:
        link.call(Publish.of(letter(), partition=elsewhere))
    assert [fault.index for fault in caught.value.faults] == [0]
    assert link.call(Publish.of(letter())).accepted == 1
    assert proxy.connections == 1


def test_an_answer_that_was_lost_leaves_the_outcome_unknown_and_the_next_publish_connects_anew(
    links: Links, proxy: CuttingProxy
) -> None:
    link = links(proxy.url)
    assert link.call(Publish.of(letter())).accepted == 1
    sent = letter()
    proxy.cut_after()
    with pytest.raises(errors.OutcomeUnknown, match="connection was lost"):
        link.call(Publish.of(sent))
    assert link.call(Publish.of(sent)).duplicates == 1
    assert proxy.connections == 2


def test_a_frame_that_was_cut_off_leaves_the_outcome_unknown(links: Links, proxy: CuttingProxy) -> None:
    link = links(proxy.url)
    assert link.call(Publish.of(letter())).accepted == 1
    sent = letter()
    proxy.cut_before()
    with pytest.raises(errors.OutcomeUnknown):
        link.call(Publish.of(sent))
    assert link.call(Publish.of(sent)).accepted == 1


def test_a_hub_that_is_gone_and_comes_back_is_connected_to_again(links: Links, tmp_path: Path) -> None:
    with start(tmp_path / "data", SETTINGS) as first:
        link = links(first.url)
        assert link.call(Publish.of(letter())).accepted == 1
        port = int(first.url.rsplit(":", 1)[1])
    with pytest.raises(errors.Unavailable):
        link.call(Publish.of(letter()))
    with start(tmp_path / "data", SETTINGS, port=port):
        assert link.call(Publish.of(letter())).accepted == 1


@pytest.mark.parametrize("error", [errors.Unauthenticated, errors.Forbidden])
def test_a_link_that_is_not_let_in_says_why(links: Links, tmp_path: Path, error: type[errors.RestanteError]) -> None:
    folder = tmp_path / "data"
    token = TokenFile(folder / "tokens.json").create(roles=[Role.RECIPIENT], recipients=["ada"])
    with start(folder, SETTINGS) as running, pytest.raises(error):
        links(running.url, token=token if error is errors.Forbidden else None).call(Publish.of(letter()))


# --- With a server that does as it is told ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(429, "overloaded", errors.Overloaded), (503, "unavailable", errors.Unavailable)],
)
def test_a_handshake_that_is_denied_is_the_error_of_its_problem(
    links: Links, status: int, code: str, error: type[errors.RestanteError]
) -> None:
    with ScriptedServer(problem(status, code, retry_after=3)) as denying, pytest.raises(error) as caught:
        links(denying.url).call(Publish.of(letter()))
    assert type(caught.value) is error
    assert caught.value.message == f"It is {code}."


def test_a_hub_out_of_reach_cannot_have_stored_anything(links: Links) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(errors.Unavailable, match="Nothing answers at") as caught:
        links(url).call(Publish.of(letter()))
    assert type(caught.value) is errors.Unavailable


def test_a_hub_that_does_not_answer_the_handshake_cannot_have_stored_anything(links: Links) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(errors.Unavailable, match=f"longer than {SHORT} s") as caught:
            links(url, timeout=SHORT).call(Publish.of(letter()))
    assert type(caught.value) is errors.Unavailable


def test_answers_find_their_callers_in_any_order(links: Links, server: FrameServer, pool: ThreadPoolExecutor) -> None:
    link = links(server.url)
    promises = {name: pool.submit(link.call, Publish.of(letter(name))) for name in ("ada", "bob", "eve")}
    taken = {frame.header["messages"][0]["recipient"]: frame for frame in server.take_all(3)}
    for accepted, name in enumerate(("eve", "ada", "bob")):
        taken[name].answer(accepted)
    assert [promises[name].result(SECONDS).accepted for name in ("eve", "ada", "bob")] == [0, 1, 2]
    assert len(server.connections) == 1


def test_a_loss_fails_all_that_is_under_way(links: Links, server: FrameServer, pool: ThreadPoolExecutor) -> None:
    link = links(server.url)
    promises = [pool.submit(link.call, Publish.of(letter())) for _ in range(5)]
    server.take_all(5)[2].cut()
    assert [type(failed(promise)) for promise in promises] == [errors.OutcomeUnknown] * 5
    following = pool.submit(link.call, Publish.of(letter()))
    server.take().answer()
    assert following.result(SECONDS).accepted == 1
    assert len(server.connections) == 2


def test_a_problem_is_the_error_of_its_own_frame_alone(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url)
    refused = pool.submit(link.call, Publish.of(letter()))
    frame = server.take()
    other = pool.submit(link.call, Publish.of(letter()))
    server.take().answer()
    frame.refuse(429, "overloaded", retry_after=2)
    error = failed(refused)
    assert isinstance(error, errors.Overloaded)
    assert error.details["retry_after"] == 2
    assert other.result(SECONDS).accepted == 1


def test_a_late_answer_is_ignored_and_only_its_own_frame_has_failed(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url, timeout=LONG_ENOUGH)
    late = pool.submit(link.call, Publish.of(letter()))
    held = server.take()
    others = [pool.submit(link.call, Publish.of(letter())) for _ in range(3)]
    for frame in server.take_all(3):
        frame.answer()
    assert [promise.result(SECONDS).accepted for promise in others] == [1] * 3
    error = failed(late)
    assert isinstance(error, errors.OutcomeUnknown)
    assert f"longer than {LONG_ENOUGH} s" in error.message
    following = pool.submit(link.call, Publish.of(letter()))
    frame = server.take()
    held.answer(accepted=99)
    frame.answer(accepted=7)
    assert following.result(SECONDS).accepted == 7
    assert frame.header["number"] > held.header["number"]
    assert len(server.connections) == 1


def test_a_connection_over_which_nothing_came_is_replaced(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url, timeout=LONG_ENOUGH)
    with pytest.raises(errors.OutcomeUnknown):
        link.call(Publish.of(letter()))
    server.take()
    following = pool.submit(link.call, Publish.of(letter()))
    server.take().answer()
    assert following.result(SECONDS).accepted == 1
    assert len(server.connections) == 2


@pytest.mark.parametrize("said", ["hello", "[]", '{"number": 1}', '{"problem": {"status": 400, "code": "x"}}'])
def test_an_answer_that_cannot_be_read_ends_the_connection(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor, said: str
) -> None:
    link = links(server.url)
    promise = pool.submit(link.call, Publish.of(letter()))
    server.take().say(said)
    assert type(failed(promise)) is errors.OutcomeUnknown
    following = pool.submit(link.call, Publish.of(letter()))
    server.take().answer()
    assert following.result(SECONDS).accepted == 1


def test_no_more_is_under_way_than_the_hub_reads(links: Links, server: FrameServer, pool: ThreadPoolExecutor) -> None:
    link = links(server.url, window=2)
    promises = [pool.submit(link.call, Publish.of(letter())) for _ in range(6)]
    for _ in range(3):
        frames = server.take_all(2)
        assert not server.has_more
        for frame in frames:
            frame.answer()
    assert sum(promise.result(SECONDS).accepted for promise in promises) == 6
    assert len(server.connections) == 1


def test_a_frame_that_nobody_waits_for_takes_room_at_the_hub_until_it_is_answered(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url, timeout=LONG_ENOUGH, window=2)
    promises = [pool.submit(link.call, Publish.of(letter())) for _ in range(2)]
    held, _ = server.take_all(2)
    held.answer(number=999)  # to some other frame, so that the connection is not silent
    assert [type(failed(promise)) for promise in promises] == [errors.OutcomeUnknown] * 2
    with pytest.raises(errors.Unavailable, match="no room in time") as caught:
        link.call(Publish.of(letter()))
    assert type(caught.value) is errors.Unavailable
    assert not server.has_more
    following = pool.submit(link.call, Publish.of(letter()))
    held.answer()
    server.take().answer(3)
    assert following.result(SECONDS).accepted == 3
    assert len(server.connections) == 1


def test_a_window_of_one_sends_one_frame_after_another_and_connects_again_after_a_silence(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url, timeout=LONG_ENOUGH, window=1)
    promises = [pool.submit(link.call, Publish.of(letter())) for _ in range(3)]
    for _ in promises:
        frame = server.take()
        assert not server.has_more
        frame.answer()
    assert [promise.result(SECONDS).accepted for promise in promises] == [1] * 3
    assert len(server.connections) == 1
    with pytest.raises(errors.OutcomeUnknown, match=f"longer than {LONG_ENOUGH} s"):
        link.call(Publish.of(letter()))
    server.take()
    following = pool.submit(link.call, Publish.of(letter()))
    server.take().answer()
    assert following.result(SECONDS).accepted == 1
    assert len(server.connections) == 2


@pytest.mark.parametrize("window", [1, 5])
def test_a_connection_that_is_lost_while_nothing_is_under_way_is_replaced(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor, window: int
) -> None:
    link = links(server.url, window=window)
    for lost in range(1, 3):
        promise = pool.submit(link.call, Publish.of(letter()))
        frame = server.take()
        frame.answer()
        assert promise.result(SECONDS).accepted == 1
        assert len(server.connections) == lost
        frame.connection.close()


def test_closing_fails_what_is_under_way_and_may_be_repeated(
    links: Links, server: FrameServer, pool: ThreadPoolExecutor
) -> None:
    link = links(server.url)
    promises = [pool.submit(link.call, Publish.of(letter())) for _ in range(3)]
    server.take_all(3)
    link.close()
    found = [failed(promise) for promise in promises]
    assert [type(error) for error in found] == [errors.OutcomeUnknown] * 3
    assert all("this program has closed the link" in str(error) for error in found)
    link.close()
    with pytest.raises(errors.Unavailable, match="closed by this program") as caught:
        link.call(Publish.of(letter()))
    assert type(caught.value) is errors.Unavailable
    assert not server.has_more


def test_a_hub_that_reads_no_more_holds_no_sender(links: Links, pool: ThreadPoolExecutor) -> None:
    """The frames are larger than what the system keeps for a reader who does not read."""
    with StalledServer() as stalled:
        link = links(stalled.url, timeout=1)
        large = EncodedPublish(ARROW, bytes(32 * MIB))
        found = [failed(promise) for promise in [pool.submit(link.call, Publish(large)) for _ in range(3)]]
        link.close()
    assert all(isinstance(error, errors.Unavailable) for error in found)
    assert errors.OutcomeUnknown in {type(error) for error in found}


def test_a_link_that_was_never_used_can_be_closed(links: Links) -> None:
    link = links("http://127.0.0.1:9")
    link.close()
    with pytest.raises(errors.Unavailable):
        link.call(Publish.of(letter()))


@pytest.mark.parametrize("partition", [-1, 2**70, True, "1"])
def test_what_a_hub_could_not_read_is_refused_before(links: Links, server: FrameServer, partition: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="partition"):
        links(server.url).call(Publish.of(letter(), partition=partition))
    assert not server.connections


def test_numbers_out_of_range_are_refused_before(links: Links, server: FrameServer) -> None:
    numbers = ProducerNumbers(group=-1, owner_level=0, published_sequence=0)
    with pytest.raises(errors.InvalidRequest, match="producer group"):
        links(server.url).call(Publish.of(letter(), partition=0, producer=numbers))
    assert not server.connections


def test_a_send_that_is_too_large_is_refused_before(links: Links, server: FrameServer) -> None:
    with pytest.raises(errors.BodyTooLarge):
        links(server.url).call(Publish(EncodedPublish(ARROW, bytes(SEND_BYTES_MAX + 1))))
    assert not server.connections


@asynccontextmanager
async def opened(link: AsyncPublishSocket) -> AsyncIterator[AsyncPublishSocket]:
    try:
        yield link
    finally:
        await link.close()


# --- Each kind of its own ---------------------------------------------------------------------------------------------


def test_both_kinds_have_the_same_calls() -> None:
    kinds: tuple[type, type] = (PublishSocket, AsyncPublishSocket)
    waiting, asynchronous = ({name: inspect.signature(getattr(kind, name)) for name in CALLS} for kind in kinds)
    assert waiting == asynchronous
    assert list(waiting["call"].parameters) == list(inspect.signature(Link.call).parameters)


@pytest.mark.parametrize("window", [1, LINK_FRAMES_MAX])
def test_no_thread_is_left_behind(window: int) -> None:
    before = set(threading.enumerate())
    with FrameServer() as server, ThreadPoolExecutor(1) as pool:
        link = PublishSocket(terms_of(server.url), window)
        for _ in range(2):
            promise = pool.submit(link.call, Publish.of(letter()))
            server.take().cut()
            assert type(failed(promise)) is errors.OutcomeUnknown
        promise = pool.submit(link.call, Publish.of(letter()))
        server.take().answer()
        assert promise.result(SECONDS).accepted == 1
        readers = [thread for thread in threading.enumerate() if thread.name == "restante-frames"]
        assert bool(readers) == (window > 1), "with a window of one, the caller reads"
        link.close()
        assert "restante-frames" not in {thread.name for thread in threading.enumerate()}
    assert set(threading.enumerate()) <= before


def test_no_task_is_left_behind(server: FrameServer) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        link = AsyncPublishSocket(terms_of(server.url))
        for _ in range(2):
            promise = asyncio.create_task(link.call(Publish.of(letter())))
            (await asyncio.to_thread(server.take)).cut()
            with pytest.raises(errors.OutcomeUnknown):
                await promise
        promise = asyncio.create_task(link.call(Publish.of(letter())))
        (await asyncio.to_thread(server.take)).answer()
        assert (await promise).accepted == 1
        assert asyncio.all_tasks() != before
        await link.close()
        assert asyncio.all_tasks() == before

    asyncio.run(main())


def test_cancelled_callers_leave_the_link_usable(server: FrameServer) -> None:
    async def main() -> None:
        async with opened(AsyncPublishSocket(terms_of(server.url))) as link:
            callers = [asyncio.create_task(link.call(Publish.of(letter()))) for _ in range(3)]
            taken = await asyncio.to_thread(server.take_all, 3)
            for caller in callers[:2]:
                caller.cancel()
            await asyncio.wait(callers[:2])
            assert all(caller.cancelled() for caller in callers[:2])
            for frame in taken:
                frame.answer()
            assert (await callers[2]).accepted == 1
            following = asyncio.create_task(link.call(Publish.of(letter())))
            (await asyncio.to_thread(server.take)).answer(5)
            assert (await following).accepted == 5

    asyncio.run(main())
    assert len(server.connections) == 1


def test_a_caller_that_is_cancelled_while_it_connects_leaves_that_to_the_next(server: FrameServer) -> None:
    async def main() -> None:
        async with opened(AsyncPublishSocket(terms_of(server.url))) as link:
            callers = [asyncio.create_task(link.call(Publish.of(letter()))) for _ in range(3)]
            await asyncio.sleep(0)
            callers[0].cancel()
            for frame in await asyncio.to_thread(server.take_all, 2):
                frame.answer()
            assert [(await caller).accepted for caller in callers[1:]] == [1, 1]
            assert callers[0].cancelled()

    asyncio.run(main())


def test_a_large_send_goes_over_the_link_of_an_event_loop(running: ServedHub) -> None:
    async def main() -> int:
        async with opened(AsyncPublishSocket(terms_of(running.url))) as link:
            sent = [letter(data=number) for number in range(5_000)]
            return (await link.call(Publish.of(sent))).accepted

    assert asyncio.run(main()) == 5_000
