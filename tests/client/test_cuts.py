"""Connections that are cut, before the hub has seen a request or after it has done it: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio

import pytest

import restante
import restante.aio
from restante import errors
from restante.calls.groups import DefineGroup, DeleteGroup, DropAction, JoinGroup, LeaveGroup, ReadGroup
from restante.client.surface import sync
from restante.model.publishing.message import Message
from tests.client.conftest import QUICK
from tests.client.proxy import CuttingProxy


def letters(count: int) -> list[Message]:
    return [Message(recipient="ada", data=number) for number in range(count)]


def collected(hub: sync.Hub) -> list[object]:
    got: list[object] = []
    for bundle in hub.recipient("ada").bundles(idle=0):
        got += [message.data for message in bundle.messages]
        bundle.dequeue()
    return got


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_send_that_did_not_get_through_is_repeated(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy, count: int
) -> None:
    proxy.cut_before(2)
    assert behind.producer.send(letters(count)).accepted == count
    assert proxy.cuts == 2
    assert collected(hub) == list(range(count))


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_send_whose_answer_was_lost_is_stored_once_and_says_so(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy, count: int
) -> None:
    proxy.cut_after()
    receipt = behind.producer.send(letters(count))
    assert (receipt.accepted, receipt.duplicates, receipt.partitions) == (0, count, ())
    assert collected(hub) == list(range(count))


def test_a_dequeue_that_was_done_counts_as_done(behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy) -> None:
    hub.producer.send(letters(3))
    bundle = behind.recipient("ada").peek()
    assert bundle is not None
    proxy.cut_after()
    assert bundle.dequeue().messages == 3
    assert proxy.cuts == 1
    with pytest.raises(errors.BundleUnknown):
        bundle.dequeue()


def test_a_peek_whose_answer_was_lost_gives_the_same_bundle(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy
) -> None:
    hub.producer.send(letters(3))
    proxy.cut_after()
    bundle = behind.recipient("ada").peek(max_messages=2)
    assert bundle is not None
    assert [message.data for message in bundle.messages] == [0, 1]
    assert [open_one.bundle_id for open_one in hub.recipient("ada").explain().open_bundles] == [bundle.bundle_id]


def test_withdrawing_is_done_though_its_answer_was_lost(behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy) -> None:
    message_id = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
    hub.producer.send(Message(recipient="ada", data=1, id=message_id))
    for act in (behind.recipient("ada").set_aside, behind.recipient("ada").release, behind.recipient("ada").withdraw):
        proxy.cut_after()
        act(message_id)
    assert proxy.cuts == 3
    assert hub.recipient("ada").peek() is None


def test_what_is_taken_from_a_group_is_gone_though_the_answer_was_lost(
    behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy
) -> None:
    behind.link.call(DefineGroup("shop", actions=("pay", "keep")))
    proxy.cut_after()
    behind.link.call(DropAction("shop", "pay"))
    assert hub.link.call(ReadGroup("shop")).actions == ("keep",)
    member = behind.link.call(JoinGroup("shop", "worker")).member_id
    proxy.cut_after()
    behind.link.call(LeaveGroup("shop", member))
    assert hub.link.call(ReadGroup("shop")).members == ()
    proxy.cut_after()
    behind.link.call(DeleteGroup("shop"))
    assert proxy.cuts == 3
    with pytest.raises(errors.GroupUnknown):
        behind.link.call(DeleteGroup("shop"))


def test_patience_ends(behind: sync.Hub, hub: sync.Hub, proxy: CuttingProxy) -> None:
    proxy.cut_before(1_000)
    with pytest.raises(errors.Unavailable, match="tried 6 times"):
        behind.producer.send(letters(1))
    proxy.cut_before(0)
    assert collected(hub) == []


def test_asynchronous_sends_survive_cuts_too(hub: sync.Hub, proxy: CuttingProxy) -> None:
    async def program() -> None:
        async with restante.aio.connect(proxy.url, retries=QUICK) as behind:
            proxy.cut_after()
            assert (await behind.producer.send(letters(2))).duplicates == 2
            proxy.cut_before()
            bundle = await behind.recipient("ada").peek()
            assert bundle is not None
            proxy.cut_after()
            assert (await bundle.dequeue()).messages == 2

    asyncio.run(program())
    assert proxy.cuts == 3
    assert collected(hub) == []
