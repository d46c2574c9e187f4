"""The options of `format("restante")`, read and checked before anything is asked of the hub.

Spark starts a process of its own for each step of its planning, and each imports this module again. So modules that take long
to import are imported where they are used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from restante.client.transport.address import DEFAULT_URL
from restante.client.transport.options import Retrying, terms_of
from restante.errors import InvalidRequest
from restante.limits import (
    PARCEL_BYTES_DEFAULT,
    PARCEL_BYTES_MAX,
    PRODUCER_RETRIES,
    SPARK_FILTER_CHARACTERS_MAX,
    SPARK_FILTER_VALUES_MAX,
    SPARK_RANGE_NUMBERS_DEFAULT,
)

if TYPE_CHECKING:
    from restante.client.transport.http_sync import HttpLink
    from restante.model.feed.feed_answers import FeedWish

BOOTSTRAP = "bootstrap"
EARLIEST = "earliest"
LATEST = "latest"
_STARTS = (BOOTSTRAP, EARLIEST, LATEST)
_TOKEN = "RESTANTE_TOKEN"
_PLACE = ("url", "token", "path")
_READING = (
    "partitions",
    "recipient",
    "origin",
    "kind",
    "columns",
    "publishedAfter",
    "publishedBefore",
    "rangeSize",
    "reader",
    "positions",
    "startingPosition",
    "group",
    "maxMessagesPerTrigger",
)
_WRITING = ("key", "origin", "kind", "mediaType", "batch", "claimCheck", "parcelBytes", "orderBy")
_OF_SPARK = ("checkpointlocation", "queryname", "outputmode")
"""Options that Spark hands on to every source and sink, in small letters."""

_SHOWN = 200
"""Characters of an option in an error."""

OptionTexts = Mapping[str, str]
"""Options as Spark hands them over: names in whatever case."""
PartitionPositions = dict[int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HubPlace:
    """The address of the hub, and the token for it. Nothing else about the hub travels to the tasks."""

    url: str
    token: str | None = field(repr=False)

    def link(self) -> HttpLink:
        """A call without an answer is tried again for a minute, so that a job outlives a restart of the hub."""
        from restante.client.transport.http_sync import HttpLink  # noqa: PLC0415 - not every process calls the hub

        return HttpLink(terms_of(self.url, token=self.token, retries=Retrying(times=PRODUCER_RETRIES)))


@dataclass(frozen=True, slots=True)
class Filters:
    """The messages that the hub is asked for. Empty: all of them."""

    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()

    def wish(self, columns: tuple[str, ...]) -> FeedWish:
        """The wish that is sent to the hub, with the columns that are needed."""
        from restante.model.feed.feed_answers import FeedWish  # noqa: PLC0415 - it brings Arrow

        return FeedWish(origins=self.origins, kinds=self.kinds, recipients=self.recipients, columns=columns)


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The choice of what is to be read, and how."""

    place: HubPlace
    partitions: tuple[int, ...]
    """The partitions to read; none named: all."""
    filters: Filters
    since: datetime | None
    until: datetime | None
    range_size: int
    reader: str
    positions: PartitionPositions
    """The position as of which a batch read sees each partition; partitions that are not named are read as they are."""
    start: str | PartitionPositions
    group: str | None
    """The group whose positions a stream begins with, and writes."""
    per_trigger: int | None


@dataclass(frozen=True, slots=True)
class Writing:
    """The options for sending messages."""

    place: HubPlace
    key: str | None
    constants: tuple[tuple[str, str], ...]
    """Columns that have one value for all: name and value."""
    batch: bool
    claim_check: bool
    parcel_bytes: int
    order_by: str | None


def reading_of(options: OptionTexts) -> SourceReading:
    given = _known(options, (*_PLACE, *_READING))
    return SourceReading(
        place=_place(given),
        partitions=given.get("partitions", _numbers, ()),
        filters=Filters(
            origins=given.get("origin", _texts, ()),
            kinds=given.get("kind", _texts, ()),
            recipients=given.get("recipient", _texts, ()),
        ),
        since=given.get("publishedAfter", _time, None),
        until=given.get("publishedBefore", _time, None),
        range_size=given.get("rangeSize", _count, SPARK_RANGE_NUMBERS_DEFAULT),
        reader=given.get("reader", str, "spark"),
        positions=given.get("positions", _positions, {}),
        start=_beginning(given),
        group=given.get("group", _text, None),
        per_trigger=given.get("maxMessagesPerTrigger", _count, None),
    )


def _beginning(given: _Given) -> str | PartitionPositions:
    if given.has("group") and given.has("startingPosition"):
        raise InvalidRequest(
            "A stream begins where its group is: say group or startingPosition, not both.", option="group"
        )
    return given.get("startingPosition", _start, _start(BOOTSTRAP))


def columns_of(options: OptionTexts) -> tuple[str, ...]:
    """The columns that are asked for; none: all."""
    return _known(options, (*_PLACE, *_READING)).get("columns", _names, ())


def writing_of(options: OptionTexts) -> Writing:
    given = _known(options, (*_PLACE, *_WRITING))
    constants = (("origin", "origin"), ("kind", "kind"), ("mediaType", "media_type"))
    return Writing(
        place=_place(given),
        key=given.get("key", _text, None),
        constants=tuple((column, value) for name, column in constants if (value := given.get(name, _text, None))),
        batch=given.get("batch", _flag, False),
        claim_check=given.get("claimCheck", _flag, False),
        parcel_bytes=given.get("parcelBytes", _parcel_bytes, PARCEL_BYTES_DEFAULT),
        order_by=given.get("orderBy", _text, None),
    )


def is_too_much(texts: Collection[str]) -> bool:
    """Whether a request could not carry all of these to the hub."""
    return len(texts) > SPARK_FILTER_VALUES_MAX or sum(map(len, texts)) > SPARK_FILTER_CHARACTERS_MAX


def check_partitions(asked: Iterable[int], count: int) -> None:
    for partition in asked:
        if partition not in range(count):
            raise InvalidRequest(
                f"There is no partition {partition}: the hub has {count}, numbered from 0.", partition=partition
            )


class _Given:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def get(self, name: str, read: Callable[[str], T], default: T) -> T:
        """The value that `read` makes of an option. The refusal of another text has the words of `read`."""
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            return read(text)
        except ValueError as error:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            raise InvalidRequest(f"The option {name} must be {error}, not {shown!r}.", option=name) from None


def _known(options: OptionTexts, names: Iterable[str]) -> _Given:
    """The options by their names in small letters; one that nobody knows is a mistake, and said to be one."""
    known = tuple(names)
    lowered = {name.lower() for name in known}
    values = {name.lower(): value for name, value in options.items()}
    for name in options:
        if name.lower() not in lowered and name.lower() not in _OF_SPARK and not name.startswith(("spark.", "_")):
            raise InvalidRequest(f"There is no option {name!r} here. There are: {', '.join(known)}.", option=name)
    return _Given(values)


def _place(given: _Given) -> HubPlace:
    url = given.get("url", _text, None) or given.get("path", _text, None) or DEFAULT_URL
    place = HubPlace(url, given.get("token", _text, None) or os.environ.get(_TOKEN))
    terms_of(place.url, token=place.token)
    return place


def _text(text: str) -> str | None:
    if not text.strip():
        raise ValueError("a text that is not blank")
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("a whole number above 0")
    return int(text)


def _parcel_bytes(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= PARCEL_BYTES_MAX:
        raise ValueError(f"a number of bytes, up to {PARCEL_BYTES_MAX:,}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    names = _names(text)
    if not names or not all(name.isdecimal() for name in names):
        raise ValueError("numbers of partitions, like 0,1,5")
    return tuple(sorted({int(name) for name in names}))


def _texts(text: str) -> tuple[str, ...]:
    """One, as it is; or a JSON list of them."""
    if not text.startswith("["):
        return (text,)
    values = _json(text)
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise ValueError('a text, or a JSON list of texts, like ["a", "b"]')
    if is_too_much(values):
        raise ValueError(
            f"a list of at most {SPARK_FILTER_VALUES_MAX} texts of {SPARK_FILTER_CHARACTERS_MAX:,} characters in all (read "
            "all, and filter the frame)"
        )
    return tuple(values)


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time, like 2026-01-31T22:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _positions(text: str) -> PartitionPositions:
    values = _json(text)
    if not isinstance(values, dict) or not all(
        key.isdecimal() and isinstance(value, int) and not isinstance(value, bool) and value >= 0
        for key, value in values.items()
    ):
        raise ValueError('a position for each partition, like {"0": 17, "1": 0}')
    return {int(key): value for key, value in values.items()}


def _start(text: str) -> str | PartitionPositions:
    if text.lower() in _STARTS:
        return text.lower()
    try:
        return _positions(text)
    except ValueError as error:
        raise ValueError(f"{', '.join(_STARTS)}, or {error}") from None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
