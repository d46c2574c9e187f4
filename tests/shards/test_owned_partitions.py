"""A hub that is a shard has its own partitions, as a hub has all; what others have, it refuses, and nothing is stored."""

from __future__ import annotations

import pytest

from restante import Message
from restante.calls.batches import OpenBatch, ReadBatch
from restante.calls.call import Call
from restante.calls.consignments import BeginConsignment
from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import Dequeue, Explain, ListPartitions, ListRecipients, Peek
from restante.calls.publishing import Publish
from restante.errors import NotOwner
from restante.model.mailboxes.answers import BundleAnswer, Reason
from restante.model.storage.partition import partition_of
from tests.shards.world import PARTITIONS, Shards, names

HERE, THERE = names(1, 2), names(6, 2)


def sent(*recipients: str, many: bool = False) -> Publish:
    messages = [Message(recipient=name, text="hello") for name in recipients]
    return Publish.of(messages * 1_000 if many else messages)


def waiting(shards: Shards) -> int:
    return sum(own.waiting for hub in shards.hubs for own in hub.call(ListPartitions()))


def test_a_shard_keeps_its_own_mail_over_a_restart() -> None:
    with Shards(2) as shards:
        assert shards.hubs[0].call(sent(*HERE)).accepted == 2
        assert shards.hubs[1].call(sent(*THERE)).accepted == 2
        shards.reopen(1)
        for name in (*HERE, *THERE):
            bundle = shards.of(name).call(Peek(name))
            assert isinstance(bundle, BundleAnswer)
            shards.of(name).call(Dequeue(name, bundle.bundle_id))
            assert shards.of(name).call(Peek(name)) is Reason.NOTHING_WAITING


def test_a_shard_lists_what_it_has() -> None:
    with Shards(2) as shards:
        shards.hubs[1].call(sent(*THERE))
        assert [own.partition for own in shards.hubs[0].call(ListPartitions())] == [0, 1, 2, 3]
        assert [own.partition for own in shards.hubs[1].call(ListPartitions())] == [4, 5, 6, 7]
        assert shards.hubs[0].call(ListRecipients()).recipients == ()
        listed = shards.hubs[1].call(ListRecipients()).recipients
        assert {(own.recipient, own.partition) for own in listed} == {(name, 6) for name in THERE}


FOREIGN: list[Call[object]] = [
    Peek(THERE[0]),
    Explain(THERE[0]),
    Dequeue(THERE[0], "018f4e2a-0000-7000-8000-000000000001"),
    ReadFeed(6),
    BeginConsignment(THERE[0]),
    OpenBatch(key=THERE[0]),
]


@pytest.mark.parametrize("call", FOREIGN, ids=lambda call: type(call).__name__)
def test_what_another_shard_has_is_refused(call: Call[object]) -> None:
    with Shards(2) as shards, pytest.raises(NotOwner) as refused:
        shards.hubs[0].call(call)
    assert refused.value.code == "not_owner"
    assert refused.value.details["partition"] == 6


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_a_send_with_a_message_for_another_shard_stores_nothing(many: bool) -> None:
    with Shards(2) as shards:
        with pytest.raises(NotOwner):
            shards.hubs[0].call(sent(HERE[0], THERE[0], many=many))
        assert waiting(shards) == 0
        assert shards.hubs[0].call(sent(HERE[0], many=many)).accepted == (1_000 if many else 1)


def test_a_parcel_for_a_partition_of_another_shard_is_refused() -> None:
    with Shards(2) as shards, pytest.raises(NotOwner):
        shards.hubs[0].call(Publish.of([Message(recipient=THERE[0], text="hello")], partition=6))


def test_a_batch_is_known_where_its_id_lives() -> None:
    with Shards(2) as shards:
        opened = shards.of("night").call(OpenBatch(batch_id=(own := "018f4e2a-0000-7000-8000-000000000007")))
        home = shards.of(own)
        assert opened.id == own
        assert home.call(ReadBatch(own)).items == 0
        (other,) = {*shards.hubs} - {home}
        with pytest.raises(NotOwner):
            other.call(ReadBatch(own))


def test_all_shards_have_one_key() -> None:
    with Shards(2) as shards:
        assert {hub.core.deed.key for hub in shards.hubs} == {7}
        assert {hub.core.deed.partition_count for hub in shards.hubs} == {PARTITIONS}
        assert partition_of(THERE[0], PARTITIONS) == 6
