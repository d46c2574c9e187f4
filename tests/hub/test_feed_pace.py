"""How those who read along leave room for those who publish."""

from __future__ import annotations

import pytest

from restante import limits
from restante.hub.feed.feed_pace import FeedPace, Rounds


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


def test_those_who_catch_up_take_turns_with_room_between_them(now: Now) -> None:
    turns = FeedPace(now)
    turns.note(0.01)
    stay = (0.01 + limits.FEED_CALL_SECONDS) * (1 + limits.FEED_CATCHING_UP_TIMES)
    assert [turns.pause() for _ in range(3)] == pytest.approx([0.0, stay, 2 * stay])
    now.seconds += 3 * stay + 0.001
    assert turns.pause() == 0.0


def test_no_turn_is_put_off_for_longer_than_the_limit(now: Now) -> None:
    turns = FeedPace(now)
    turns.note(10.0)
    assert max(turns.pause() for _ in range(100)) == pytest.approx(limits.FEED_PAUSE_SECONDS_MAX)
