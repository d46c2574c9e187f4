"""How those who read along leave room for those who publish."""

from __future__ import annotations

import pytest

from restante import limits
from restante.hub.feed.feed_pace import FeedPace, OtherWork, Rounds, read_cost


class Now:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


def test_who_follows_after_a_quiet_time_reads_at_once_and_so_do_all_who_ask_with_him(now: Now) -> None:
    rounds = Rounds(now)
    assert [rounds.pause() for _ in range(16)] == [0.0] * 16


def test_the_next_round_comes_when_all_reads_of_this_one_are_paid_for(now: Now) -> None:
    rounds = Rounds(now)
    rounds.note(0.002)
    rounds.note(0.003)
    owed = (0.005 + 2 * limits.FEED_CALL_SECONDS) * limits.FEED_FOLLOWING_TIMES
    assert rounds.pause() == pytest.approx(owed)
    now.seconds += owed + 0.001
    assert rounds.pause() == 0.0


def test_no_round_is_put_off_for_longer_than_the_limit(now: Now) -> None:
    rounds = Rounds(now)
    for _ in range(100):
        rounds.note(1.0)
    assert rounds.pause() == pytest.approx(limits.FEED_PAUSE_SECONDS_MAX)


def busy() -> float:
    return 1.0


def test_those_who_catch_up_take_turns_with_room_between_them(now: Now) -> None:
    turns = FeedPace(now, busy)
    cost = read_cost(0.01, 1_000_000)
    assert cost == pytest.approx(0.01 + limits.FEED_PAGE_SECONDS + 1_000_000 * limits.FEED_BYTE_SECONDS)
    turns.note(cost)
    stay = cost * (1 + limits.FEED_CATCHING_UP_TIMES)
    assert [turns.pause() for _ in range(3)] == pytest.approx([0.0, stay, 2 * stay])
    now.seconds += 3 * stay + 0.001
    assert turns.pause() == 0.0


def test_no_turn_is_put_off_for_longer_than_the_limit(now: Now) -> None:
    turns = FeedPace(now, busy)
    turns.note(10.0)
    assert max(turns.pause() for _ in range(100)) == pytest.approx(limits.FEED_TURN_SECONDS_MAX)


@pytest.mark.parametrize(
    ("share", "times"),
    [
        (0.0, limits.FEED_CATCHING_UP_TIMES_MIN),
        (limits.FEED_BUSY_SHARE / 2, limits.FEED_CATCHING_UP_TIMES / 2),
        (limits.FEED_BUSY_SHARE, limits.FEED_CATCHING_UP_TIMES),
        (2.0, limits.FEED_CATCHING_UP_TIMES),
    ],
    ids=["idle", "half", "busy", "two cores"],
)
def test_the_less_the_hub_does_otherwise_the_sooner_comes_the_next_turn(now: Now, share: float, times: float) -> None:
    turns = FeedPace(now, lambda: share)
    turns.note(0.01)
    turns.pause()
    assert turns.pause() == pytest.approx(0.01 * (1 + times))


def test_what_reading_takes_is_no_other_work(now: Now) -> None:
    processor = Now()
    work = OtherWork(now, processor, lambda: 1.0)
    assert work.share() == 1.0, "nobody knows yet"
    now.seconds += 1.0
    processor.seconds += 0.5
    work.note(0.3)
    assert work.share() == pytest.approx(0.2)
    now.seconds += limits.FEED_SHARE_SECONDS / 2
    processor.seconds += 0.1
    assert work.share() == pytest.approx(0.2), "asked again after a moment, it is not computed anew"


def test_who_shares_the_cores_with_others_is_as_busy_with_less(now: Now) -> None:
    processor = Now()
    work = OtherWork(now, processor, lambda: 4.0)
    now.seconds += 1.0
    processor.seconds += 0.1
    assert work.share() == pytest.approx(0.4)


def test_what_was_long_ago_says_nothing_of_now(now: Now) -> None:
    work = OtherWork(now, Now())
    now.seconds += 3_600
    assert work.share() == 1.0
    now.seconds += 1.0
    assert work.share() == 0.0
