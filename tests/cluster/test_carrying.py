"""Calls carried between processes: as values, many at once, over a socket that is its owner's alone."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.assembly import open_hub
from restante.calls.batches import OpenBatch, ReadBatch
from restante.calls.call import Call
from restante.calls.mailboxes import Dequeue, Explain, ListRecipients, PartitionOf
from restante.calls.producers import OpenLink
from restante.calls.publishing import Publish
from restante.calls.removal import Purge
from restante.cluster.call_frames import FrameKind, FrameReader, frame
from restante.cluster.call_line import CallLine
from restante.cluster.call_server import CallServer
from restante.cluster.call_values import PublishLetters, answer_type, decode_call, encode_call, kinds
from restante.cluster.places import SocketPlace
from restante.cluster.shard_lines import LineCarrier
from restante.errors import BundleUnknown, InvalidRequest, MessageConflict, OutcomeUnknown, Unavailable
from restante.hub.door.in_process import InProcess
from restante.limits import CARRIED_BYTES_MAX
from restante.model.access.access import EVERYTHING, Grant, Role
from restante.model.mailboxes.answers import Reason
from restante.model.publishing.message import Message
from restante.ports.carrier import Silent
from restante.wire.incoming.plain_json import plain_letters


@asynccontextmanager
async def carried(folder: Path) -> AsyncIterator[CallLine]:
    link = InProcess(open_hub(folder / "data"))
    server = CallServer(link, folder / "calls.sock")
    await server.start()
    line = CallLine(SocketPlace(str(folder / "calls.sock")), "shard 0")
    try:
        yield line
    finally:
        line.close()
        server.close()
        await link.close()


def letters(text: str) -> PublishLetters:
    found = plain_letters(text.encode())
    assert found is not None
    return PublishLetters(tuple(msgspec.structs.astuple(letter) for letter in found))


def test_calls_are_answered_as_in_process(tmp_path: Path) -> None:
    async def run() -> None:
        async with carried(tmp_path) as line:
            receipt = await line.call(letters('[{"recipient": "ann", "data": 1, "id": "first"}]'))
            assert (receipt.accepted, receipt.duplicates) == (1, 0)
            message = Message(recipient="ann", text="two", properties={"a": "b"})
            assert (await line.call(Publish.of(message))).accepted == 1
            explained = await line.call(Explain("ann"))
            assert (explained.reason, explained.waiting[0].messages) == (Reason.READY, 2)
            listed = await line.call(ListRecipients())
            assert [one.recipient for one in listed.recipients] == ["ann"]
            assert await line.call(Purge("ann", all=True)) == 2
            batch = await line.call(OpenBatch(key="night"))
            assert (await line.call(ReadBatch(batch.id))).key == "night"
            assert (await line.call(OpenLink(0))).partition == 0

    asyncio.run(run())


def test_an_error_is_the_same_on_the_other_side(tmp_path: Path) -> None:
    async def run() -> None:
        async with carried(tmp_path) as line:
            with pytest.raises(BundleUnknown):
                await line.call(Dequeue("ann", "00000000-0000-4000-8000-000000000000"))
            await line.call(letters('[{"recipient": "ann", "data": 1, "id": "first"}]'))
            assert (await line.call(letters('[{"recipient": "ann", "data": 1, "id": "first"}]'))).duplicates == 1
            with pytest.raises(MessageConflict) as refused:
                await line.call(letters('[{"recipient": "ann", "data": 2, "id": "first"}]'))
            assert [(fault.index, fault.id) for fault in refused.value.faults] == [(0, "first")]

    asyncio.run(run())


def test_many_calls_are_under_way_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with carried(tmp_path) as line:
            sends = [line.call(letters(f'[{{"recipient": "r{number}", "data": 1}}]')) for number in range(300)]
            receipts = await asyncio.gather(*sends)
            assert sum(receipt.accepted for receipt in receipts) == 300
            assert (await line.call(ListRecipients(limit=1_000))).next is None

    asyncio.run(run())


def test_a_thread_may_ask_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with carried(tmp_path):
            carrier = LineCarrier((range(16),), [tmp_path])
            assert await asyncio.to_thread(carrier.carry, 3, PartitionOf("ann")) in range(16)
            await asyncio.to_thread(carrier.close)

    asyncio.run(run())


def test_a_shard_that_does_not_answer_another_is_silent(tmp_path: Path) -> None:
    carrier = LineCarrier((range(16),), [tmp_path])
    with pytest.raises(Silent, match="does not answer"):
        carrier.carry(3, PartitionOf("ann"))
    carrier.close()


def test_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with carried(tmp_path):
            assert stat.S_IMODE((tmp_path / "calls.sock").stat().st_mode) == 0o600

    asyncio.run(run())


def test_a_shard_that_is_not_there_is_unavailable_and_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        line = CallLine(SocketPlace(str(tmp_path / "calls.sock")), "shard 0")
        with pytest.raises(Unavailable, match="shard 0 does not answer"):
            await line.call(PartitionOf("ann"))
        async with carried(tmp_path):
            assert await line.call(PartitionOf("ann")) in range(16)
        with pytest.raises(Unavailable):
            await line.call(PartitionOf("ann"))

    asyncio.run(run())


def test_a_shard_that_ends_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async def run() -> None:
        silent = await asyncio.start_unix_server(lambda _, writer: writer.close(), tmp_path / "calls.sock")
        line = CallLine(SocketPlace(str(tmp_path / "calls.sock")), "shard 0")
        with pytest.raises(OutcomeUnknown, match="may have been carried out"):
            await line.call(PartitionOf("ann"))
        silent.close()

    asyncio.run(run())


def test_what_a_caller_may_do_goes_with_the_call() -> None:
    bound = Grant("t1", frozenset({Role.PUBLISHER}), origins=frozenset({"orders"}), expires_at=3.5)
    for caller in (EVERYTHING, bound):
        assert decode_call(encode_call(PartitionOf("ann"), caller)) == (PartitionOf("ann"), caller)


def test_an_unknown_call_is_refused() -> None:
    class Unheard(Call[int], frozen=True):
        pass

    content = encode_call(Unheard(), EVERYTHING)
    kinds()
    with pytest.raises(InvalidRequest, match="no call"):
        decode_call(content.replace(b"Unheard", b"Unknown"))


@pytest.mark.parametrize(
    "name", ["OpenBatch", "AcknowledgeItems", "ListGroups", "ReadJob", "ListConsignments", "Erase"]
)
def test_answers_have_a_type(name: str) -> None:
    assert answer_type(kinds()[name]) is not None


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(contents: list[bytes], step: int) -> None:
    sent = b"".join(frame(number, FrameKind.CALL, content) for number, content in enumerate(contents))
    reader, came = FrameReader(), []
    for start in range(0, len(sent), step):
        came += list(reader.take(sent[start : start + step]))
    assert came == [(number, FrameKind.CALL, content) for number, content in enumerate(contents)]


def test_a_frame_that_is_too_long_is_none() -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        list(FrameReader().take((CARRIED_BYTES_MAX + 1).to_bytes(4, "big") + bytes(9)))
