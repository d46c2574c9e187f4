"""A stream that begins where a group is, and moves the group on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from restante.calls.groups import DefineGroup, LeaveGroup
from restante.errors import InvalidOperation
from restante.spark.source.group_positions import GroupSeat
from restante.spark.source.options import reading_of
from tests.spark.served import SparkHub
from tests.spark.test_streaming import Stream, numbers, send


def read_as_member(hub: SparkHub, group: str, count: int) -> list[int]:
    """Read so many messages as a program does, and leave."""
    with hub.connect() as connected:
        found: list[int] = []
        with connected.group(group) as member:
            for page in member.pages():
                found += [row["sequence_number"] for row in page.table.to_pylist()]
                page.done()
                if len(found) >= count:
                    return found
    return found


def lag(hub: SparkHub, group: str) -> int:
    with hub.connect() as connected:
        return connected.group(group).status().lag


def test_a_stream_goes_on_where_a_group_is_and_a_program_where_the_stream_ended(
    spark: SparkSession, hub: SparkHub, tmp_path: Path
) -> None:
    send(hub, *range(10))
    assert len(read_as_member(hub, "billing", 10)) == 10
    send(hub, *range(10, 30))
    stream = Stream(spark, hub, tmp_path)
    assert numbers(stream.take(group="billing", maxMessagesPerTrigger="7")) == list(range(10, 30))
    assert lag(hub, "billing") == 0, "Spark has finished the last micro-batch, too"
    send(hub, 30)
    assert numbers(stream.take(group="billing")) == [30]
    send(hub, 31, 32)
    assert len(read_as_member(hub, "billing", 2)) == 2
    with hub.connect() as connected:
        assert connected.group("billing").status().members == ()


def test_a_stream_and_other_members_do_not_share_a_group(spark: SparkSession, hub: SparkHub, tmp_path: Path) -> None:
    send(hub, *range(4))
    reading = reading_of({"url": hub.url, "group": "shared", "reader": "a program"})
    with closing(reading.place.link()) as link:
        link.call(DefineGroup("doing", actions=("do",)))
    other = GroupSeat(reading, range(16))
    for group, said in (("shared", r"other members \(a program\)"), ("doing", "does actions")):
        with pytest.raises(StreamingQueryException, match=said):
            Stream(spark, hub, tmp_path / group).take(group=group)
    other.leave()


def test_a_batch_has_no_group(spark: SparkSession, hub: SparkHub) -> None:
    with pytest.raises(Exception, match="Only a stream has a group"):
        spark.read.format("restante").options(url=hub.url, group="g").load().count()


def test_who_lost_its_place_writes_no_position(hub: SparkHub) -> None:
    send(hub, *range(20))
    reading = reading_of({"url": hub.url, "group": "g"})
    with hub.connect() as connected:
        ends = {own.partition: own.visible_sequence for own in connected.partitions()}
        first = GroupSeat(reading, ends)
        assert set(first.positions().values()) == {0}
        first.write(dict.fromkeys(ends, 0))
        second = GroupSeat(reading, ends)  # the same name: it takes the place
        with pytest.raises(InvalidOperation, match="has other members"):
            first.write(ends)
        assert connected.group("g").status().lag > 0
        second.write(ends)
        assert connected.group("g").status().lag == 0
        second.leave()
        third = GroupSeat(reading, ends)
        assert third.positions() == ends
        third.leave()
        first.leave()


def test_who_lost_its_lease_and_nobody_came_goes_on(hub: SparkHub) -> None:
    send(hub, *range(20))
    with hub.connect() as connected:
        ends = {own.partition: own.visible_sequence for own in connected.partitions()}
        seat = GroupSeat(reading_of({"url": hub.url, "group": "g"}), ends)
        seat._link.call(LeaveGroup("g", seat._member_id))
        seat.write(ends)
        assert connected.group("g").status().lag == 0
        seat.leave()


def test_a_group_that_an_operator_moved_ends_the_stream(hub: SparkHub) -> None:
    send(hub, *range(20))
    with hub.connect() as connected:
        ends = {own.partition: own.visible_sequence for own in connected.partitions()}
        partition = max(ends, key=lambda own: ends[own])
        seat = GroupSeat(reading_of({"url": hub.url, "group": "g"}), ends)
        seat.write({partition: ends[partition] - 1})
        connected.group("g").reset(partition, "beginning")
        with pytest.raises(InvalidOperation, match="has moved the group"):
            seat.write(ends)
        assert connected.group("g").status().partitions[partition].position == 0
        seat.leave()
