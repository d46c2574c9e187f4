"""Following a mailbox over a real web socket whose other end says what a hub may say: gaps, cuts, repetitions, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from restante.client.live.live_states import LiveStage
from restante.errors import (
    BundleOpen,
    Forbidden,
    InvalidMessage,
    InvalidRequest,
    OutcomeUnknown,
    Unauthenticated,
    Unavailable,
)
from restante.limits import DATA_BYTES_MAX, LIVE_PUSHED_BYTES_MAX, LIVE_UNREAD_MESSAGES_MAX
from restante.model.publishing.message import Message
from tests.client.live_server import LiveServer, stored
from tests.client.live_twins import Asynchronous, Twin, Waiting, numbers

Follow = Callable[..., Twin]


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer() as running:
        yield running


@pytest.fixture(params=[Waiting, Asynchronous])
def follow(request: pytest.FixtureRequest, server: LiveServer) -> Iterator[Follow]:
    """Either kind of following; it is ended, and nothing of it is left."""
    begun: list[Twin] = []

    def begin(**how: object) -> Twin:
        begun.append(request.param(server.url, **how))
        return begun[-1]

    yield begin
    for twin in begun:
        twin.end()


def note(number: int = 1) -> Message:
    return Message(recipient="bob", data={"text": "hello"}, id=f"0198c5a2-6f1e-7c3b-9d4a-9{number:011}")


def test_messages_are_shown_as_they_come(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected().push(3, 5, counter=1)
    assert numbers(twin, 2) == [3, 5]
    assert twin.position == 5
    peer.push(6, counter=3)
    assert numbers(twin, 1) == [6]


def test_the_handshake_says_who_and_from_where(server: LiveServer, follow: Follow) -> None:
    follow(after=41, client="phone & co", token="secret")
    peer = server.peer()
    assert peer.path == "/v1/recipients/ada/live"
    assert peer.query == {"after": "41", "client": "phone & co"}
    assert peer.headers["Authorization"] == "Bearer secret"


def test_all_fields_of_a_message_come_through(server: LiveServer, follow: Follow) -> None:
    twin = follow()
    peer = server.peer().connected(10)
    data = {"media_type": "image/png", "data_base64": "aGVsbG8=", "properties": {"a": "b"}, "state": "collected"}
    told = {name: value for name, value in stored(12, **data).items() if name != "data"}
    peer.say("message", counter=1, message=told)
    message = twin.next()
    assert message is not None
    assert (message.data, message.media_type, message.properties) == (b"hello", "image/png", {"a": "b"})
    assert message.published_at is not None
    assert message.state is not None
    assert message.state.value == "collected"


def test_a_gap_is_filled_from_history_before_the_next_is_shown(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    twin.script.numbers = list(range(1, 30))
    twin.script.hidden = {7}
    twin.script.page = 4
    server.peer().connected().push(1, 2, counter=1).push(12, 13, counter=12)
    assert numbers(twin, 12) == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    assert twin.script.asked == [(2, 12), (6, 12), (10, 12)]
    assert twin.script.gaps == [9, None, None], "what is missing is told once"
    assert twin.gaps_recovered == 1
    assert twin.reconnects == 0
    twin.script.until(LiveStage.CATCHING_UP)
    twin.script.until(LiveStage.CONNECTED)


def test_history_that_cannot_be_reached_is_asked_again(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    twin.script.numbers = [1, 2, 3]
    twin.script.fails = [Unavailable("away"), Unavailable("away")]
    server.peer().connected().push(3, counter=3)
    assert numbers(twin, 3) == [1, 2, 3]
    assert len(twin.script.asked) == 3


def test_history_that_is_refused_is_an_error(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    twin.script.fails = [Forbidden("no history for you")]
    server.peer().connected().push(3, counter=3)
    with pytest.raises(Forbidden):
        twin.next()


def test_a_lost_connection_is_made_again_behind_what_came(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    first = server.peer().connected().push(1, 4, counter=1)
    assert numbers(twin, 2) == [1, 4]
    first.cut()
    second = server.peer()
    assert second.query["after"] == "4"
    second.connected(4).push(4, 6, counter=1)
    assert numbers(twin, 1) == [6]
    assert twin.reconnects == 1
    again = twin.script.until(LiveStage.RECONNECTING)
    assert again.reason is not None
    assert "lost" in again.reason
    assert again.delay is not None


def test_a_connection_without_a_beginning_goes_on_where_it_began(server: LiveServer, follow: Follow) -> None:
    twin = follow()
    first = server.peer()
    assert first.query == {}
    first.connected(40)
    twin.script.until(LiveStage.CONNECTED)
    assert twin.position == 40
    first.cut()
    assert server.peer().query == {"after": "40"}


def test_what_came_and_was_not_shown_survives_the_connection(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    server.peer().connected().push(1, 2, 3, counter=1).close()
    second = server.peer()
    assert second.query["after"] == "3"
    second.connected(3).push(4, counter=1)
    assert numbers(twin, 4) == [1, 2, 3, 4]


def test_a_hub_that_says_goodbye_is_left_and_found_again_when_it_says(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    peer.say("disconnect", reason="draining", reconnect_after=0.012)
    assert peer.gone()
    again = twin.script.until(LiveStage.RECONNECTING)
    assert (again.reason, again.delay) == ("draining", 0.012)
    server.peer().connected().push(1, counter=1)
    assert numbers(twin, 1) == [1]


def test_it_goes_to_the_owner_that_is_named(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0, token="secret")
    with LiveServer() as owner:
        peer = server.peer().connected().push(1, counter=1)
        peer.say("disconnect", reason="moved", owner=owner.url)
        moved = owner.peer()
        assert moved.query["after"] == "1"
        assert moved.headers["Authorization"] == "Bearer secret"
        moved.connected(1).push(2, counter=1)
        assert numbers(twin, 2) == [1, 2]
    # It is gone for good; who was asked first knows better.
    server.peer().connected(2).push(3, counter=1)
    assert numbers(twin, 1) == [3]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "unauthenticated", Unauthenticated),
        (403, "forbidden", Forbidden),
        (400, "invalid_request", InvalidRequest),
        (404, "not_found", InvalidRequest),
    ],
)
def test_a_refusal_that_no_repetition_mends_is_raised(
    server: LiveServer, follow: Follow, status: int, code: str, error: type[Exception]
) -> None:
    server.refuse(status, code)
    twin = follow(after=0)
    with pytest.raises(error, match=f"It is {code}"):
        twin.next()
    with pytest.raises(error):
        twin.next()
    assert twin.script.until(LiveStage.CLOSED).reason is not None


def test_a_token_that_has_expired_is_told_after_what_came_was_shown(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected().push(1, counter=1)
    server.refuse(401, "unauthenticated")
    peer.say("disconnect", reason="token_expired")
    assert numbers(twin, 1) == [1]
    with pytest.raises(Unauthenticated):
        twin.next()


@pytest.mark.parametrize(("status", "code"), [(429, "overloaded"), (503, "unavailable")])
def test_a_hub_without_room_is_asked_again(server: LiveServer, follow: Follow, status: int, code: str) -> None:
    server.refuse(status, code)
    server.refuse(status, code)
    twin = follow(after=0)
    server.peer().connected().push(1, counter=1)
    assert numbers(twin, 1) == [1]


def test_a_hub_that_names_a_time_is_asked_then(server: LiveServer, follow: Follow) -> None:
    server.refuse(429, "overloaded", headers={"Retry-After": "0"})
    twin = follow(after=0)
    assert twin.script.until(LiveStage.RECONNECTING).delay == 0
    server.peer()


def test_a_hub_that_was_never_there_is_not_waited_for_for_ever(server: LiveServer, follow: Follow) -> None:
    for _ in range(20):
        server.refuse(503, "unavailable")
    twin = follow(after=0)
    with pytest.raises(Unavailable):
        twin.next()


def test_a_frame_that_cannot_be_read_is_an_error_and_what_came_before_is_shown(
    server: LiveServer, follow: Follow
) -> None:
    twin = follow(after=0)
    peer = server.peer().connected().push(1, counter=1)
    peer.write('{"type": "message", "counter": 2, "message": {"id": 5}}')
    peer.push(3, counter=3)
    assert numbers(twin, 1) == [1]
    with pytest.raises(Unavailable, match="cannot be read"):
        twin.next()


@pytest.mark.parametrize("text", ["no JSON", '{"type": "message", "counter": 1}', "[]"])
def test_what_is_no_frame_is_an_error(server: LiveServer, follow: Follow, text: str) -> None:
    twin = follow(after=0)
    server.peer().connected().write(text)
    with pytest.raises(Unavailable, match="cannot be read"):
        twin.next()


def test_a_frame_of_a_kind_to_come_is_left_alone(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    peer.say("weather", sky="blue")
    peer.push(1, counter=1)
    assert numbers(twin, 1) == [1]


def test_a_frame_in_fragments_is_put_together(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    peer.fragments('{"type": "connected", "sequence', '_number": 0, ', '"client": "é"}')
    peer.push(1, counter=1)
    assert numbers(twin, 1) == [1]
    assert twin.reconnects == 1, "it was read as a frame"


def test_pings_are_answered(server: LiveServer, follow: Follow) -> None:
    follow(after=0)
    assert server.peer().connected().ping()


@pytest.mark.parametrize("size", [10, 125, 126, 65_535, 65_536, 1_000_000])
def test_messages_of_any_size_come_through(server: LiveServer, follow: Follow, size: int) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    for counter in (1, 2, 3):
        peer.say("message", counter=counter, message=stored(counter, data="x" * size))
    got = [twin.next() for _ in range(3)]
    assert [len(message.data) for message in got if message is not None] == [size] * 3


def test_the_largest_text_comes_through_however_json_writes_it(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    server.peer().connected().say("message", counter=1, message=stored(1, data="\x01" * (DATA_BYTES_MAX - 2)))
    got = twin.next()
    assert got is not None
    assert len(got.data) == DATA_BYTES_MAX - 2


def test_a_frame_beyond_the_bound_ends_the_connection(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    peer.say("message", counter=1, message=stored(1, data="x" * LIVE_PUSHED_BYTES_MAX))
    assert peer.gone()
    server.peer().connected().push(1, counter=1)
    assert numbers(twin, 1) == [1]


def test_a_slow_reader_stops_the_hub_and_loses_nothing(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    total, text = 4_000, "x" * 20_000

    def push() -> None:
        for number in range(1, total + 1):
            peer.say("message", counter=number, message=stored(number, data=text))

    pushed = twin.later(push)
    first = twin.next()
    assert first is not None
    assert not pushed.done(), "80 MB do not fit where nobody reads"
    got = [twin.next() for _ in range(total - 1)]
    assert [message.sequence_number for message in got if message is not None] == list(range(2, total + 1))
    assert twin.gaps_recovered == 0
    assert twin.reconnects == 0


def test_an_answer_comes_also_where_nobody_reads_the_messages_before_it(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    total = 3 * LIVE_UNREAD_MESSAGES_MAX
    twin.script.numbers = list(range(1, total + 1))
    peer.push(*range(1, total + 1), counter=1)
    sent = twin.send(note())
    assert peer.hear()["type"] == "send"
    peer.say("status", id=sent.id, status="processed")
    twin.processed(sent)
    assert numbers(twin, total) == list(range(1, total + 1))


def test_a_message_has_its_id_at_once_and_is_processed_later(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    sent = twin.send(Message(recipient="bob", data={"text": "hello"}))
    heard = peer.hear()
    assert (heard["type"], heard["request"], heard["message"]["id"]) == ("send", 1, sent.id)
    assert (heard["message"]["recipient"], heard["message"]["data"]) == ("bob", {"text": "hello"})
    waiting = twin.later(lambda: twin.processed(sent))
    peer.say("sent", request=1, id=sent.id)
    assert peer.ping()
    assert not waiting.done()
    peer.say("status", id=sent.id, status="processed")
    assert waiting.result(60) is None


def test_a_lost_message_raises_the_reason(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    sent = twin.send(note())
    peer.say("status", id=sent.id, status="lost", reason="storage_full: no room")
    with pytest.raises(Unavailable, match="no room"):
        twin.processed(sent)


def test_a_hub_that_was_restored_from_an_older_backup_is_followed_from_its_end(
    server: LiveServer, follow: Follow
) -> None:
    twin = follow(after=0)
    first = server.peer().connected().push(98, 99, counter=1)
    assert numbers(twin, 2) == [98, 99]
    first.cut()
    second = server.peer()
    assert second.query == {"after": "99"}
    second.connected(50).push(51, counter=1)
    assert numbers(twin, 1) == [51]
    assert twin.position == 51


def test_a_refused_message_raises_its_problem(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    sent = twin.send(note())
    peer.say("problem", request=peer.hear()["request"], code="invalid_message", status=400, detail="Not so.")
    with pytest.raises(InvalidMessage, match="Not so"):
        twin.processed(sent)


def test_a_message_that_can_never_be_stored_is_refused_at_once(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    server.peer().connected()
    with pytest.raises(InvalidMessage):
        twin.send(Message(recipient="", data=1))


def test_what_was_sent_and_not_answered_is_sent_again_under_the_same_id(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    first = server.peer().connected()
    sent = twin.send(note())
    before = first.hear()
    first.cut()
    second = server.peer().connected()
    assert second.hear()["message"] == before["message"]
    second.say("status", id=sent.id, status="processed")
    twin.processed(sent)


def test_what_is_sent_without_a_connection_goes_over_the_next(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    first = server.peer().connected()
    for _ in range(3):
        server.refuse(503, "unavailable")
    first.cut()
    twin.script.until(LiveStage.RECONNECTING)
    ids = [twin.send(note(number)).id for number in range(5)]
    second = server.peer().connected()
    assert [second.hear()["message"]["id"] for _ in range(5)] == ids


def test_messages_are_sent_in_order_by_however_many(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer()
    ids = [twin.send(note(number)).id for number in range(50)]
    assert [peer.hear()["message"]["id"] for _ in range(50)] == ids


def test_collecting_gives_how_many(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    waiting = twin.later(lambda: twin.collected(9))
    assert peer.hear() == {"type": "collected", "sequence_number": 9}
    peer.say("collected", sequence_number=9, messages=4)
    assert waiting.result(60) == 4


def test_collecting_that_is_refused_raises_its_problem(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    waiting = twin.later(lambda: twin.collected(9))
    peer.hear()
    peer.say("problem", code="bundle_open", status=409, detail="A bundle is open.", bundle_id="x")
    with pytest.raises(BundleOpen, match="is open"):
        waiting.result(60)


def test_collecting_survives_a_cut(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    first = server.peer().connected()
    waiting = twin.later(lambda: twin.collected(9))
    first.hear()
    first.cut()
    second = server.peer().connected()
    assert second.hear() == {"type": "collected", "sequence_number": 9}
    second.say("collected", sequence_number=9, messages=0)
    assert waiting.result(60) == 0


def test_echoes_go_to_the_callback(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    server.peer().connected().say("echo", message=stored(5, recipient="bob"))
    assert twin.script.echoes.get(timeout=60).recipient == "bob"
    assert twin.position == 0


def test_a_message_that_is_sent_again_is_no_echo_of_another_client(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    first = server.peer().connected()
    sent = twin.send(Message(recipient="bob", data=1))
    first.hear()
    first.cut()
    second = server.peer().connected()
    assert second.hear()["message"]["id"] == sent.id
    second.say("echo", message=stored(5, recipient="bob", id=sent.id.upper()))
    second.say("status", id=sent.id, status="processed")
    twin.processed(sent)
    second.say("echo", message=stored(6, recipient="bob"))
    assert twin.script.echoes.get(timeout=60).sequence_number == 6


def test_closing_ends_whoever_waits(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    peer = server.peer().connected()
    sent = twin.send(note())
    peer.hear()
    waiting, processed = twin.later(twin.next), twin.later(lambda: twin.processed(sent))
    twin.close()
    assert waiting.result(60) is None
    with pytest.raises(OutcomeUnknown):
        processed.result(60)
    assert peer.gone()
    assert twin.next() is None
    with pytest.raises(Unavailable, match="has ended"):
        twin.send(note())
    assert twin.script.until(LiveStage.CLOSED).reason is None


def test_a_protocol_error_is_not_repeated(server: LiveServer, follow: Follow) -> None:
    twin = follow(after=0)
    server.peer().connected().say("disconnect", reason="protocol_error", detail="that is no frame")
    with pytest.raises(InvalidRequest, match="that is no frame"):
        twin.next()
