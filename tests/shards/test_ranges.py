"""Shards are ranges of partitions; a call is at home in one of them, or concerns all."""

from __future__ import annotations

import pytest

from restante.calls.batches import OpenBatch, ReadProgress, SealBatch
from restante.calls.call import Call
from restante.calls.consignments import BeginConsignment, DiscardConsignment
from restante.calls.feed import ReadFeed
from restante.calls.homes import home_of_call
from restante.calls.jobs import ReadJob
from restante.calls.mailboxes import ListPartitions, Peek
from restante.errors import InvalidRequest
from restante.model.shards.ranges import by_shard, even_ranges, shard_of
from restante.model.storage.partition import partition_of

ID = "018F4E2A-0000-7000-8000-000000000001"


@pytest.mark.parametrize(("partitions", "shards"), [(16, 1), (16, 4), (16, 5), (256, 16), (3, 3)])
def test_even_ranges_hold_each_partition_once(partitions: int, shards: int) -> None:
    ranges = even_ranges(partitions, shards)
    assert [partition for own in ranges for partition in own] == list(range(partitions))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1
    assert all(partition in ranges[shard_of(ranges, partition)] for partition in range(partitions))


@pytest.mark.parametrize("shards", [0, 17])
def test_there_are_no_more_shards_than_partitions(shards: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 16 shards"):
        even_ranges(16, shards)


def test_partitions_of_one_shard_lie_together() -> None:
    assert by_shard(even_ranges(8, 4), [7, 0, 6, 1, 5]) == [(0, 1), (5,), (6, 7)]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (Peek("ada"), "ada"),
        (SealBatch(ID), ID.lower()),
        (DiscardConsignment(ID), ID.lower()),
        (BeginConsignment("night"), "night"),
        (OpenBatch(key="night"), "night"),
        (OpenBatch(key="night", batch_id=ID), ID.lower()),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Call) else str(value),
)
def test_a_call_is_at_home_where_the_thing_lives_that_it_names(call: Call[object], name: str) -> None:
    assert home_of_call(call, 16) == partition_of(name, 16)


def test_calls_about_partitions_and_about_all() -> None:
    assert home_of_call(ReadFeed(5), 16) == 5
    assert home_of_call(ReadJob("nightly"), 16) == 0
    assert home_of_call(ListPartitions(), 16) is None
    assert home_of_call(ReadProgress(ID), 16) is None
    assert home_of_call(OpenBatch(), 16) is None
    assert home_of_call(Peek("\ud800"), 16) is None
