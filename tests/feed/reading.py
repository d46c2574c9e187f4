"""Reading the feed and snapshots page by page, and what each page must keep to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from restante.calls.feed import ReadFeed
from restante.client.transport.link import Link
from restante.model.feed.feed_answers import EVERYTHING, FeedWish
from tests.feed.replica import Row, rows_of

ALWAYS = ("sequence_number", "change")
CALLS_MAX = 10_000


class Stretch(NamedTuple):
    """What was read up to the end of a feed, and where that is."""

    rows: list[Row]
    position: int


def read_to_end(
    link: Link, partition: int, *, after: int | None, wish: FeedWish = EVERYTHING, limit: Callable[[], int | None]
) -> Stretch:
    """All changes beyond a position, in pages of whatever size."""
    rows, position = list[Row](), after
    for _ in range(CALLS_MAX):
        size = limit()
        answer = link.call(ReadFeed(partition, after=position, wish=wish, limit=size))
        page = rows_of(answer.table)
        begin = answer.start - 1 if position is None else position
        check_page(page, begin, answer.next, size)
        rows += page
        position = answer.next
        if position >= answer.end:
            return Stretch(rows, position)
        assert position > begin, "a page that ends before the end moves on"
    raise AssertionError("the feed does not end")


def check_page(page: list[Row], begin: int, end: int, size: int | None) -> None:
    numbers = [row["sequence_number"] for row in page]
    assert numbers == sorted(numbers)
    assert all(begin < number <= end for number in numbers)
    if size is not None:
        assert len(set(numbers)) <= size, "a limit counts changes"


def changes_of(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    for number, own in groupby(rows, key=lambda row: row["sequence_number"]):
        yield number, list(own)


def matches(row: Row, wish: FeedWish) -> bool:
    """Whether a filter lets a row of the feed or of a snapshot through."""
    filtered = bool(wish.origins or wish.kinds or wish.recipients)
    if row.get("change") == "batch_completed":
        return not filtered
    # That a recipient was erased concerns all origins and kinds.
    everywhere = row.get("change") == "erased"
    return (
        (everywhere or not wish.origins or row["origin"] in wish.origins)
        and (everywhere or not wish.kinds or row["kind"] in wish.kinds)
        and (not wish.recipients or row["recipient"] in wish.recipients)
    )


def chosen(row: Row, wish: FeedWish, always: tuple[str, ...] = ALWAYS) -> Row:
    return {name: value for name, value in row.items() if not wish.columns or name in (*always, *wish.columns)}
