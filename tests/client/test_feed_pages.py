"""How far a reader is in its partitions, and what it asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pytest

from restante import errors, limits
from restante.client.feed.feed_pages import FeedReading, Track, longest_wait, reading_of, wish_of
from restante.model.feed.feed_answers import EVERYTHING, FeedAnswer
from restante.model.mailboxes.answers import PartitionStatus

EMPTY = pa.table({"sequence_number": pa.array([], pa.int64())})


def answer(following: int, end: int) -> FeedAnswer:
    return FeedAnswer(table=EMPTY, next=following, start=1, end=end)


def reading(partitions: Collection[int] | int | None = None, **more: Any) -> FeedReading:
    return reading_of(partitions, wish=EVERYTHING, **more)


def known(*ends: int) -> list[PartitionStatus]:
    return [
        PartitionStatus(partition=number, visible_sequence=end, waiting=0, unfiled=0) for number, end in enumerate(ends)
    ]


def test_a_track_is_behind_until_a_page_reaches_the_end() -> None:
    track = Track(0, None, None)
    page = track.took(answer(5, 9))
    assert (page.partition, page.position, page.start, page.end, page.lag) == (0, 5, 1, 9, 4)
    assert (track.position, track.behind, track.done) == (5, True, False)
    assert track.took(answer(9, 9)).lag == 0
    assert (track.behind, track.done) == (False, False)


def test_a_track_rests_when_nothing_came() -> None:
    track = Track(0, 5, None)
    track.took(answer(6, 6))
    assert not track.rested
    track.took(answer(6, 6))
    assert track.rested


def test_a_track_ends_where_the_partition_ended_when_reading_began() -> None:
    track = Track(0, None, 7)
    assert not track.done
    track.took(answer(6, 20))
    assert not track.done
    track.took(answer(12, 20))
    assert track.done


def test_each_partition_is_read_from_its_position_or_from_the_start() -> None:
    tracks = reading().tracks(known(4, 0, 9), {2: 3})
    assert [(track.partition, track.position, track.target) for track in tracks] == [
        (0, None, 4),
        (1, None, 0),
        (2, 3, 9),
    ]
    assert {track.target for track in reading(follow=True).tracks(known(4, 0), {})} == {None}


@pytest.mark.parametrize(("given", "chosen"), [(1, (1,)), ([2, 0, 2], (2, 0)), ((), ()), (None, (0, 1, 2))])
def test_partitions_are_chosen_by_number(given: Collection[int] | int | None, chosen: tuple[int, ...]) -> None:
    assert tuple(track.partition for track in reading(given).tracks(known(1, 1, 1), {})) == chosen


def test_positions_of_another_hub_are_refused_and_those_not_asked_for_are_left_alone() -> None:
    with pytest.raises(errors.InvalidRequest, match="partition 2"):
        reading().tracks(known(1, 1), {2: 3})
    assert [track.partition for track in reading([1]).tracks(known(1, 1), {0: 3})] == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": "0"},
        {"partitions": 1.5},
        {"partitions": [True]},
        {"after": [1]},
        {"after": {0: None}},
        {"after": {"0": 1}},
        {"limit": "9"},
        {"reader": 5},
        {"linger_seconds": -1},
        {"linger_seconds": 61},
        {"linger_seconds": "x"},
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(errors.InvalidRequest):
        reading_of(**{"partitions": None, "wish": EVERYTHING, **wrong})


def test_a_wish_is_of_lists_of_names() -> None:
    wish = wish_of(origins=["a"], kinds=("k",), recipients={"r"}, columns=[])
    assert (wish.origins, wish.kinds, wish.recipients, wish.columns) == (("a",), ("k",), ("r",), ())
    with pytest.raises(errors.InvalidRequest):
        wish_of(origins="a", kinds=(), recipients=(), columns=())


def test_pages_are_as_large_as_can_be_unless_told_otherwise() -> None:
    assert reading().limit == limits.FEED_CHANGES_MAX
    assert reading(limit=3).limit == 3


def test_what_is_under_way_is_bounded() -> None:
    assert [reading().readers(count) for count in (1, 100)] == [1, limits.FEED_READS_MAX]
    assert [reading(follow=True).readers(count) for count in (16, 10_000)] == [16, limits.FEED_WAITS_MAX]


def test_more_partitions_are_read_less_often_each() -> None:
    lingering = reading(follow=True, linger_seconds=0.01)
    assert [lingering.rest(count) for count in (1, 16, 10_000)] == pytest.approx([0.01, 0.16, 0.25])
    assert reading(follow=True, linger_seconds=3).rest(5) == 3
    assert reading(follow=True, linger_seconds=0).rest(5) == 0


def test_too_many_partitions_to_wait_at_have_their_turn_every_second() -> None:
    assert longest_wait(limits.FEED_WAITS_MAX, seconds_max=25) == 25
    assert longest_wait(limits.FEED_WAITS_MAX * 10, seconds_max=25) == pytest.approx(limits.FEED_POLL_SECONDS / 10)
