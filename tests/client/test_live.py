"""Following a mailbox of a real hub, in process and over the network, for programs that wait and asynchronous ones."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
import restante.aio
from restante.client.live.live_states import LiveStage, LiveState
from restante.client.surface import asynchronous, sync
from restante.errors import BundleOpen, InvalidMessage, InvalidOperation, InvalidRequest, RestanteError, Unavailable
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub, start
from restante.settings import LiveSettings, OriginGroupSettings, OriginSettings, Settings
from tests.client.frame_server import SECONDS
from tests.server.live import dropped

SETTINGS = Settings(
    partition_count=2,
    housekeeping_seconds=0,
    filing=False,
    origins={"chat": OriginSettings(group="chat")},
    origin_groups={"chat": OriginGroupSettings(live_collect=True)},
    live=LiveSettings(queue_messages=4),
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS) as running:
        yield running


@pytest.fixture(params=["in process", "wire"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Hub]:
    if request.param == "wire":
        with restante.connect(request.getfixturevalue("served").url) as connected:
            yield connected
    else:
        with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
            yield opened


def letters(*data: object, recipient: str = "ada", origin: str = "chat") -> list[Message]:
    return [Message(recipient=recipient, data=value, origin=origin) for value in data]


def test_following_shows_what_was_there_and_what_comes(hub: sync.Hub) -> None:
    hub.producer.send(letters(1, 2))
    got: list[object] = []
    for message in hub.recipient("ada").live(after=0):
        got.append(message.data)
        if message.data == 2:
            hub.producer.send(letters(3) + letters(9, recipient="bob"))
        if message.data == 3:
            break
    assert got == [1, 2, 3]


def test_without_a_beginning_only_what_comes_is_shown(hub: sync.Hub) -> None:
    hub.producer.send(letters(1, 2))
    states: queue.Queue[LiveState] = queue.Queue()
    with hub.recipient("ada").live(on_state=states.put) as live:
        while states.get(timeout=SECONDS).stage is not LiveStage.CONNECTED:
            pass
        before = live.position
        hub.producer.send(letters(3))
        message = next(live)
    assert message.data == 3
    assert before is not None
    assert live.position == message.sequence_number
    assert before < (message.sequence_number or 0)


def test_it_goes_on_where_it_was(hub: sync.Hub) -> None:
    hub.producer.send(letters(*range(6)))
    with hub.recipient("ada").live(after=0) as live:
        assert [next(live).data for _ in range(3)] == [0, 1, 2]
        position = live.position
    with hub.recipient("ada").live(after=position) as live:
        assert [next(live).data for _ in range(3)] == [3, 4, 5]


def test_a_number_that_the_hub_has_not_reached_is_not_waited_for(hub: sync.Hub) -> None:
    hub.producer.send(letters(1))
    states: queue.Queue[LiveState] = queue.Queue()
    with hub.recipient("ada").live(after=10**12, on_state=states.put) as live:
        while (state := states.get(timeout=SECONDS)).stage is not LiveStage.CONNECTED:
            pass
        assert "begins now" in (state.reason or "")
        last = hub.recipient("ada").history().messages[-1].sequence_number or 0
        assert last <= (live.position or 0) < 10**12
        hub.producer.send(letters(2))
        assert next(live).data == 2


def test_messages_look_as_history_shows_them(hub: sync.Hub) -> None:
    sent = Message(recipient="ada", data=b"\x00\xff", media_type="image/png", properties={"a": "ü"}, kind="picture")
    hub.producer.send([sent, *letters({"text": "hello"}, None)])
    with hub.recipient("ada").live(after=0) as live:
        got = tuple(next(live) for _ in range(3))
    assert got == hub.recipient("ada").history().messages


def test_what_was_withdrawn_is_not_shown(hub: sync.Hub) -> None:
    hub.producer.send(letters(1, 2, 3))
    first, second, _ = hub.recipient("ada").history().messages
    hub.recipient("ada").withdraw(second.id or "")
    with hub.recipient("ada").live(after=first.sequence_number) as live:
        assert next(live).data == 3


def test_sending_gives_an_id_and_then_says_that_it_is_durable(hub: sync.Hub) -> None:
    with hub.recipient("ada").live() as live:
        sent = [live.send(message) for message in letters(*range(20), recipient="bob")]
        for each in sent:
            each.processed()
    stored = hub.recipient("bob").history().messages
    assert [(message.id, message.data) for message in stored] == [(each.id, data) for data, each in enumerate(sent)]


def test_a_message_that_is_refused_says_why(hub: sync.Hub) -> None:
    with hub.recipient("ada").live() as live:
        with pytest.raises(InvalidMessage):
            live.send(Message(recipient=" ", data=1))
        refused = live.send(Message(recipient="bob", origin="nobody delivers"))
        with pytest.raises(RestanteError, match="nobody delivers"):
            refused.processed()


def test_what_was_taken_is_collected_up_to_a_number(hub: sync.Hub) -> None:
    hub.producer.send(letters(1, 2, 3))
    with hub.recipient("ada").live(after=0) as live:
        next(live)
        assert live.collected(next(live)) == 2
        assert live.collected(live.position or 0) == 0
        assert next(live).data == 3
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    assert [message.data for message in bundle.messages] == [3]


def test_nothing_is_collected_while_a_bundle_is_open(hub: sync.Hub) -> None:
    hub.producer.send(letters(1))
    bundle = hub.recipient("ada").peek()
    assert bundle is not None
    with hub.recipient("ada").live(after=0) as live:
        message = next(live)
        with pytest.raises(BundleOpen) as caught:
            live.collected(message)
        assert caught.value.details["bundle_id"] == bundle.bundle_id
        bundle.dequeue()
        assert live.collected(message) == 0


def test_a_group_that_is_not_collected_so_says_so(hub: sync.Hub) -> None:
    hub.producer.send(letters(1, origin="default"))
    with hub.recipient("ada").live(after=0) as live, pytest.raises(InvalidRequest, match="live_collect"):
        live.collected(next(live))


def test_any_number_follow_one_mailbox(hub: sync.Hub) -> None:
    hub.producer.send(letters(1))
    with hub.recipient("ada").live(after=0) as one, hub.recipient("ada").live(after=0) as two:
        assert [next(one).data, next(two).data] == [1, 1]
        hub.producer.send(letters(2))
        assert [next(one).data, next(two).data] == [2, 2]


def test_another_thread_ends_it(hub: sync.Hub) -> None:
    live = hub.recipient("ada").live(after=0)
    hub.producer.send(letters(1))
    got: list[object] = []
    seen = threading.Event()

    def follow() -> None:
        for message in live:
            got.append(message.data)
            seen.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen.wait(SECONDS)
    live.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert got == [1]


def test_a_callback_that_fails_ends_it_with_its_error(hub: sync.Hub) -> None:
    def on_state(state: LiveState) -> None:
        if state.stage is LiveStage.CONNECTED:
            raise LookupError("no")

    with hub.recipient("ada").live(on_state=on_state) as live, pytest.raises(LookupError):
        next(live)


@pytest.mark.parametrize("wrong", [{"after": -1}, {"after": "x"}, {"client": ""}, {"client": "x" * 500}, {"client": 5}])
def test_what_makes_no_sense_is_refused_at_once(hub: sync.Hub, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        hub.recipient("ada").live(**wrong)  # type: ignore[arg-type]  # that is the point
    with hub.recipient("ada").live() as live:
        with pytest.raises(InvalidRequest):
            live.send([])
        with pytest.raises(InvalidRequest, match="no sequence number"):
            live.collected(Message(recipient="ada"))


def test_a_hub_in_process_that_closes_ends_it(tmp_path: Path) -> None:
    with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
        opened.producer.send(letters(1))
        live = opened.recipient("ada").live(after=0)
        assert next(live).data == 1
    with pytest.raises(Unavailable, match="is closed"):
        next(live)
    live.close()


def test_the_other_clients_of_the_sender_get_an_echo(served: ServedHub) -> None:
    echoes: queue.Queue[Message] = queue.Queue()
    own: queue.Queue[Message] = queue.Queue()
    states: queue.Queue[LiveState] = queue.Queue()
    with restante.connect(served.url) as hub:
        ada = hub.recipient("ada")
        with (
            ada.live(client="phone", on_echo=own.put) as phone,
            ada.live(client="desk", on_echo=echoes.put, on_state=states.put),
        ):
            while states.get(timeout=SECONDS).stage is not LiveStage.CONNECTED:
                pass
            sent = phone.send(letters("hello", recipient="bob")[0])
            sent.processed()
            echo = echoes.get(timeout=SECONDS)
        assert (echo.id, echo.recipient, echo.data) == (sent.id, "bob", "hello")
        assert own.empty()


def test_a_hub_that_drops_messages_for_a_slow_reader_loses_none_of_them(served: ServedHub) -> None:
    text, total = "x" * 10_000, 0
    connected = threading.Event()

    def on_state(state: LiveState) -> None:
        if state.stage is LiveStage.CONNECTED:
            connected.set()

    # What is replayed is never dropped: so without a beginning, and with small publishes, for large ones are replayed.
    with restante.connect(served.url) as hub, hub.recipient("ada").live(on_state=on_state) as live:
        assert connected.wait(SECONDS)
        while not dropped(served):
            hub.producer.send(letters(*(f"{number} {text}" for number in range(total, total + 20))))
            total += 20
        got = [int(next(live).data.split()[0]) for _ in range(total)]
        assert got == list(range(total))
        assert live.gaps_recovered >= 1
        assert live.reconnects == 0


def test_a_hub_that_is_served_anew_is_found_again(tmp_path: Path) -> None:
    reasons: list[str | None] = []
    with start(tmp_path / "data", SETTINGS) as first:
        port = int(first.url.rpartition(":")[2])
        hub = restante.connect(first.url)
        live = hub.recipient("ada").live(after=0, on_state=lambda state: reasons.append(state.reason))
        hub.producer.send(letters(1))
        assert next(live).data == 1
    with start(tmp_path / "data", SETTINGS, port=port):
        hub.producer.send(letters(2))
        assert next(live).data == 2
        assert live.reconnects == 1
        live.close()
    hub.close()
    assert "draining" in reasons


# For asynchronous programs


async def follow_asynchronously(hub: asynchronous.Hub) -> None:
    states: list[LiveStage] = []
    await hub.producer.send(letters(1, 2))
    live = hub.recipient("ada").live(after=0, on_state=lambda state: states.append(state.stage))
    got: list[object] = []
    async for message in live:
        got.append(message.data)
        if message.data == 2:
            sent = await live.send(letters(3)[0])
            await sent.processed()
            assert (await hub.recipient("ada").find(sent.id)).data == 3
        if message.data == 3:
            assert await live.collected(message) == 3
            break
    assert got == [1, 2, 3]
    await live.close()
    assert states == [LiveStage.CONNECTING, LiveStage.CONNECTED, LiveStage.CLOSED]
    async with hub.recipient("ada").live(after=2) as again:
        assert (await anext(again)).data == 3
        waiting = asyncio.create_task(anext(again, None))
        await asyncio.sleep(0)
        with pytest.raises(InvalidOperation):
            await anext(again)
        await again.close()
        assert await waiting is None


def test_asynchronous_programs_follow_a_hub_over_the_network(served: ServedHub) -> None:
    async def program() -> None:
        async with restante.aio.connect(served.url) as hub:
            await follow_asynchronously(hub)

    asyncio.run(program())


def test_asynchronous_programs_follow_a_hub_in_process(tmp_path: Path) -> None:
    async def program() -> None:
        async with restante.aio.open(tmp_path / "here", settings=SETTINGS) as hub:
            await follow_asynchronously(hub)

    asyncio.run(program())


def test_a_task_that_is_cancelled_misses_nothing(served: ServedHub) -> None:
    async def program() -> list[object]:
        connected = asyncio.Event()

        def on_state(state: LiveState) -> None:
            if state.stage is LiveStage.CONNECTED:
                connected.set()

        async with (
            restante.aio.connect(served.url) as hub,
            hub.recipient("ada").live(after=0, on_state=on_state) as live,
        ):
            waiting = asyncio.create_task(anext(live))
            await connected.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
            await hub.producer.send(letters(1, 2))
            return [(await anext(live)).data, (await anext(live)).data]

    assert asyncio.run(program()) == [1, 2]
