"""What those who read along say to a hub, and what is made of its answers: dialogues led by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from restante import errors
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.client.feed import feed_protocol
from restante.client.transport.exchange import Response
from restante.model.feed.feed_answers import FeedWish
from restante.wire.publish import stream_bytes
from tests.client.talking import REFUSED, SILENT, Conversation, problem_response

TABLE = pa.table({"sequence_number": [5, 6], "change": ["published", "collected"]})
HEADERS = {"restante-next": "6", "restante-start": "3", "restante-end": "9"}
WISH = FeedWish(origins=("a", "b"), kinds=("k",), recipients=("ä",), columns=("at", "data"))


def page(headers: dict[str, str], table: pa.Table = TABLE) -> Response:
    return Response(
        200, {"content-type": "application/vnd.apache.arrow.stream", **headers}, memoryview(stream_bytes(table))
    )


def test_a_feed_asks_for_columns_and_says_only_what_it_was_told() -> None:
    conversation = Conversation([page(HEADERS)])
    answer = conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed(7)))
    assert (answer.next, answer.start, answer.end) == (6, 3, 9)
    assert answer.table.equals(TABLE)
    (request,) = conversation.requests
    assert (request.method, request.target, request.timeout) == ("GET", "/v1/partitions/7/feed", 30)
    assert request.headers == (("Accept", "application/vnd.apache.arrow.stream"),)


def test_a_wish_is_part_of_the_question() -> None:
    conversation = Conversation([page(HEADERS)])
    conversation.lead(
        feed_protocol.feed(conversation.terms, ReadFeed(0, after=0, wish=WISH, limit=10, wait=2, reader="report"))
    )
    assert conversation.requests[0].target == (
        "/v1/partitions/0/feed?after=0&limit=10&reader=report&origin=a&origin=b&kind=k&recipient=%C3%A4"
        "&columns=at&columns=data&wait=2.000"
    )


def test_the_columns_of_an_answer_lie_in_the_bytes_that_came() -> None:
    numbers = pa.table({"sequence_number": pa.array(range(1_000_000), pa.int64())})
    response = page(HEADERS, numbers)
    conversation = Conversation([response])
    before = pa.total_allocated_bytes()
    answer = conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed(0)))
    assert answer.table.num_rows == 1_000_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_a_repetition_waits_for_what_is_left() -> None:
    conversation = Conversation([SILENT, page(HEADERS)], seconds_each=4)
    conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed(0, wait=99)))
    first, second = conversation.requests
    assert (first.query, first.timeout) == ((("wait", "25.000"),), 55)
    (asked,) = second.query
    assert 20 < float(asked[1]) < 21


def test_a_snapshot_is_read_page_by_page() -> None:
    conversation = Conversation([REFUSED, page({"restante-next": "tok en", "restante-position": "12"})])
    answer = conversation.lead(
        feed_protocol.snapshot(conversation.terms, ReadSnapshot(3, after="a b", wish=WISH, limit=5))
    )
    assert (answer.next, answer.position) == ("tok en", 12)
    assert answer.table.equals(TABLE)
    assert conversation.requests[1].target == (
        "/v1/partitions/3/snapshot?after=a+b&limit=5&origin=a&origin=b&kind=k&recipient=%C3%A4&columns=at&columns=data"
    )


def test_a_snapshot_may_be_of_an_earlier_position() -> None:
    conversation = Conversation([page({"restante-position": "7"})])
    assert conversation.lead(feed_protocol.snapshot(conversation.terms, ReadSnapshot(3, position=7))).position == 7
    assert conversation.requests[0].target == "/v1/partitions/3/snapshot?position=7"


def test_the_last_page_of_a_snapshot_has_no_next() -> None:
    conversation = Conversation([page({"restante-position": "12"})])
    assert conversation.lead(feed_protocol.snapshot(conversation.terms, ReadSnapshot(3))).next is None


@pytest.mark.parametrize("header", sorted(HEADERS))
@pytest.mark.parametrize("value", [None, "x"])
def test_an_answer_without_its_headers_is_not_taken(header: str, value: str | None) -> None:
    headers = {name: text for name, text in HEADERS.items() if name != header}
    conversation = Conversation([page(headers if value is None else {**headers, header: value})])
    with pytest.raises(errors.Unavailable, match=header):
        conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed(0)))


def test_a_position_that_is_gone_names_the_first_there_is() -> None:
    conversation = Conversation([problem_response(410, "position_gone", first=17)])
    with pytest.raises(errors.PositionGone) as caught:
        conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed(0, after=3)))
    assert caught.value.details["first"] == 17


def test_a_partition_is_a_number() -> None:
    conversation = Conversation([])
    with pytest.raises(errors.InvalidRequest):
        conversation.lead(feed_protocol.feed(conversation.terms, ReadFeed("../x")))  # type: ignore[arg-type]
