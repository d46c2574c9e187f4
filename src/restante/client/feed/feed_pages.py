"""Questions and pages of those who read along, and how far they are in a partition: without any input and output.

A reader has a track for each partition. A track is read page by page; it is behind as long as there is more at once, and
then waited at. While the program works on a page the next one of the same partition is read, but not a third, so that
memory is bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from restante import limits
from restante.client.surface.arguments import count_of, names, seconds, text_of, whole
from restante.errors import InvalidRequest
from restante.model.feed.feed_answers import FeedAnswer, FeedWish
from restante.model.mailboxes.answers import PartitionStatus


class FeedPage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Changes of one partition, in order."""

    table: pa.Table
    partition: int
    position: int
    """The position after this page: a reader that is done with the page goes on from here."""
    start: int
    """The first number that the feed still has."""
    end: int
    """The last number that there is."""

    @property
    def lag(self) -> int:
        """How many numbers of the feed come after this page."""
        return max(self.end - self.position, 0)

    def __repr__(self) -> str:
        return f"<FeedPage of partition {self.partition}: {self.table.num_rows} changes up to {self.position}>"


class SnapshotPage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Messages that are stored in one partition as of the position."""

    table: pa.Table
    partition: int
    position: int
    """The position from which the feed of the partition goes on."""

    def __repr__(self) -> str:
        return f"<SnapshotPage of partition {self.partition}: {self.table.num_rows} messages at {self.position}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedReading:
    """The choice of a reader, checked."""

    partitions: tuple[int, ...] | None
    wish: FeedWish
    limit: int
    after: Mapping[int, int]
    positions: Mapping[int, int] = field(default_factory=dict)
    """The positions as of which a snapshot is to be, by partition; of others as of now."""
    follow: bool = False
    reader: str | None = None
    linger_seconds: float = 0

    def tracks(self, known: Sequence[PartitionStatus], after: Mapping[int, int]) -> list[Track]:
        """A track for each partition that is asked for, from its position on, with the end that it has now."""
        ends = {status.partition: status.visible_sequence for status in known}
        self.check_known(known, after, name="after")
        return [
            Track(partition, after.get(partition), None if self.follow else ends.get(partition, 0))
            for partition in self.chosen(known)
        ]

    def check_known(self, known: Sequence[PartitionStatus], positions: Mapping[int, int], *, name: str) -> None:
        """If all partitions are to be read, those of the positions must be among them."""
        strange = positions.keys() - {status.partition for status in known}
        if self.partitions is None and strange:
            raise InvalidRequest(
                f"{name} names partition {min(strange)}. This hub has {len(known)}. Is it the same hub?"
            )

    def chosen(self, known: Sequence[PartitionStatus]) -> tuple[int, ...]:
        """The partitions; whether there is such a one, the hub says when it is read."""
        return tuple(status.partition for status in known) if self.partitions is None else self.partitions

    def rest(self, tracks: int) -> float:
        """Seconds between two reads of a partition at which changes come one after another.

        A read costs the hub about the same for one change and for many. So the number of reads in all partitions counts.
        """
        return min(self.linger_seconds * tracks, max(self.linger_seconds, limits.FEED_REST_SECONDS_MAX))

    def readers(self, tracks: int) -> int:
        """How many partitions are read or waited at, at a time."""
        return min(tracks, limits.FEED_WAITS_MAX if self.follow else limits.FEED_READS_MAX)


@dataclass(slots=True, eq=False)
class Track:
    """The position of a reader in a partition, and where it ends."""

    partition: int
    position: int | None
    """The position after which to read; None: from the start of what there is."""
    target: int | None
    """Where reading ends; None: never."""
    behind: bool = True
    """Whether there may be more at once."""
    rested: bool = True
    """Whether nothing came for a while, so that what comes is fetched at once."""

    @property
    def done(self) -> bool:
        return self.target is not None and self.position is not None and self.position >= self.target

    def took(self, answer: FeedAnswer) -> FeedPage:
        """Note that a page was read: the track goes on after it."""
        self.rested = self.position == answer.next
        self.position, self.behind = answer.next, answer.next < answer.end
        return FeedPage(
            table=answer.table,
            partition=self.partition,
            position=answer.next,
            start=answer.start,
            end=answer.end,
        )


def longest_wait(tracks: int, *, seconds_max: float) -> float:
    """The seconds to wait at one partition. If there are too many partitions to wait at all of them, each has its turn every second."""
    if tracks <= limits.FEED_WAITS_MAX:
        return seconds_max
    return min(seconds_max, limits.FEED_POLL_SECONDS * limits.FEED_WAITS_MAX / tracks)


def reading_of(
    partitions: object,
    *,
    after: object = None,
    positions: object = None,
    wish: FeedWish,
    limit: object = None,
    follow: bool = False,
    reader: object = None,
    linger_seconds: object = 0,
) -> FeedReading:
    linger = seconds("linger_seconds", linger_seconds)
    if not 0 <= linger <= limits.FEED_LINGER_SECONDS_MAX:
        raise InvalidRequest(f"linger_seconds must be from 0 to {limits.FEED_LINGER_SECONDS_MAX:g}, not {linger:g}.")
    asked = whole("limit", limit)
    return FeedReading(
        partitions=_partitions(partitions),
        wish=wish,
        limit=limits.FEED_CHANGES_MAX if asked is None else asked,
        after=_positions("after", after, source="feed"),
        positions=_positions("positions", positions, source="snapshot"),
        follow=bool(follow),
        reader=None if reader is None else text_of("reader", reader),
        linger_seconds=linger,
    )


def wish_of(*, origins: object, kinds: object, recipients: object, columns: object) -> FeedWish:
    return FeedWish(
        origins=names("origins", origins),
        kinds=names("kinds", kinds),
        recipients=names("recipients", recipients),
        columns=names("columns", columns),
    )


def _partitions(given: object) -> tuple[int, ...] | None:
    """The partitions that are asked for: all, one, or some, each once."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Collection):
        return (count_of("partitions", given),)
    return tuple(dict.fromkeys(count_of("partitions", partition) for partition in given))


def _positions(name: str, given: object, *, source: str) -> Mapping[int, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"{name} must be a dict of positions by partition, as {source}.positions is, not {given!r}."
        )
    if any(isinstance(key, str) for key in given):
        raise InvalidRequest(
            f"The keys of {name} are numbers. JSON makes text of them: {{int(p): n for p, n in ….items()}}."
        )
    return {count_of("a partition", key): count_of("a position", position) for key, position in given.items()}
