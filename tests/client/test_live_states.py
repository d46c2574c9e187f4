"""When a live connection is tried again, when not, and what is said of it."""

from __future__ import annotations

import math

import pytest

from restante.client.live.live_states import Course, LiveStage, LiveState
from restante.errors import Forbidden, InvalidRequest, Overloaded, Unauthenticated, Unavailable
from restante.limits import LIVE_RECONNECT_SECONDS_MAX, LIVE_STEADY_SECONDS
from restante.wire.live import Disconnect


class Doubling:
    """Pauses of 1, 2, 4… seconds; three attempts to begin with."""

    def pause(self, attempt: int) -> float:
        return 2.0 ** (attempt - 1)

    def gives_up(self, attempt: int, seconds: float) -> bool:
        return attempt > 3 or seconds > 100


def course() -> Course:
    return Course(Doubling())


def lost_after(own: Course, seconds: float, farewell: Disconnect | None = None) -> LiveState:
    own.connecting(0)
    own.connected(0)
    if farewell is not None:
        own.told_to_go(farewell)
    return own.lost("cut", seconds)


def test_pauses_grow_while_connections_come_to_nothing() -> None:
    own = course()
    assert [lost_after(own, 0.1).delay for _ in range(4)] == [1, 2, 4, 8]


def test_a_connection_that_lasted_is_tried_again_soon() -> None:
    own = course()
    lost_after(own, 0.1)
    lost_after(own, 0.1)
    assert lost_after(own, LIVE_STEADY_SECONDS).delay == 1


def test_the_reason_is_told() -> None:
    assert lost_after(course(), 1) == LiveState(LiveStage.RECONNECTING, "cut", 1.0)


def test_a_hub_that_names_a_time_is_waited_for_as_it_says() -> None:
    again = lost_after(course(), 1, Disconnect(reason="draining", reconnect_after=0.25))
    assert again == LiveState(LiveStage.RECONNECTING, "draining", 0.25)


@pytest.mark.parametrize("named", [1e9, LIVE_RECONNECT_SECONDS_MAX + 1])
def test_nobody_is_sent_away_for_ever(named: float) -> None:
    again = lost_after(course(), 1, Disconnect(reason="draining", reconnect_after=named))
    assert again.delay == LIVE_RECONNECT_SECONDS_MAX


@pytest.mark.parametrize("named", [-1.0, math.inf, math.nan])
def test_a_time_that_makes_no_sense_is_left_alone(named: float) -> None:
    assert lost_after(course(), 1, Disconnect(reason="draining", reconnect_after=named)).delay == 1


def test_it_goes_to_the_owner_that_the_hub_names() -> None:
    own = course()
    lost_after(own, 1, Disconnect(reason="moved", owner="http://b:1"))
    assert own.owner == "http://b:1"


def test_an_owner_that_is_away_is_not_asked_for_ever() -> None:
    own = course()
    lost_after(own, 1, Disconnect(reason="moved", owner="http://b:1"))
    own.connecting(2)
    own.refused(Unavailable("away"), 2)
    assert own.owner is None


def test_a_refusal_that_names_the_owner_leads_there() -> None:
    own = course()
    own.connecting(0)
    own.refused(InvalidRequest("not here", owner="http://b:1"), 0)
    assert own.owner == "http://b:1"
    own.connecting(1)
    with pytest.raises(InvalidRequest):
        own.refused(InvalidRequest("not here", owner="http://b:1"), 1)


def test_a_protocol_error_is_not_repeated() -> None:
    own = course()
    own.connecting(0)
    own.connected(0)
    with pytest.raises(InvalidRequest, match="it is no JSON"):
        own.told_to_go(Disconnect(reason="protocol_error", detail="it is no JSON"))


@pytest.mark.parametrize("error", [Unauthenticated("who?"), Forbidden("no"), InvalidRequest("what?")])
def test_a_refusal_that_no_repetition_can_mend_is_raised(error: Exception) -> None:
    own = course()
    own.connecting(0)
    own.connected(0)
    own.connecting(1)
    with pytest.raises(type(error)):
        own.refused(error, 1)  # type: ignore[arg-type]  # the parameter's type is that of all of them


def test_an_overloaded_hub_is_asked_again_when_it_says() -> None:
    own = course()
    own.connecting(0)
    assert own.refused(Overloaded("full", retry_after=7), 0).delay == 7


def test_patience_ends_only_where_there_was_no_connection_yet() -> None:
    own = course()
    for _ in range(3):
        own.connecting(0)
        own.refused(Unavailable("away"), 0)
    own.connecting(0)
    with pytest.raises(Unavailable):
        own.refused(Unavailable("away"), 0)
    other = course()
    lost_after(other, 1)
    for _ in range(20):
        other.connecting(1)
        assert other.refused(Unavailable("away"), 1).stage is LiveStage.RECONNECTING


def test_reconnects_are_counted_by_connections() -> None:
    own = course()
    lost_after(own, 1)
    lost_after(own, 1)
    assert own.connections == 2
