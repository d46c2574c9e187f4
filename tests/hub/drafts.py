"""What the state machine may do, as Hypothesis strategies: few names, so that the rules meet one another often."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from restante.model.publishing.message import Message
from restante.settings import OriginGroupSettings, OriginSettings, Settings
from tests.reference.intake import as_time, stored_bytes

PARTITIONS = 2
RETENTION_SECONDS = 100.5
"""Half a second off every sum of `ADVANCES`, so that nothing ever settled exactly that long ago."""
ADVANCES = (1, 6, 40, 101)

RECIPIENTS = ("ada", "ben", "cleo", "dora")
ORIGINS = ("charges", "points", "series")
KINDS = ("a", "b")
WEIGHTS = (*[None] * 6, 1, 20_000, 31_200, 51_200, 60_000)

GROUPINGS: tuple[dict[str, str], ...] = (
    {"charges": "master", "points": "master"},
    {},
    {"charges": "master", "points": "master", "series": "master"},
    {"points": "pairs", "series": "pairs"},
)
UNHEARD_OF = "unheard-of"


class Draft(NamedTuple):
    """A message before it has an id and before its expiry is counted from now."""

    recipient: str
    origin: str
    kind: str
    weight: int | None
    bundleable: bool
    data: Any
    expires_in: int | None
    properties: tuple[tuple[str, str], ...]
    has_id: bool

    def message(self, *, number: int, now: int) -> Message:
        return Message(
            recipient=self.recipient,
            data=self.data,
            id=message_id(number) if self.has_id else None,
            origin=self.origin,
            kind=self.kind,
            weight=self.weight,
            bundleable=self.bundleable,
            properties=dict(self.properties),
            expires_at=None if self.expires_in is None else as_time(now) + timedelta(seconds=self.expires_in),
        )


def message_id(number: int) -> str:
    """Of every other message it is a text that is no UUID."""
    return f"order/{number} ä" if number % 2 else str(UUID(int=number))


def often(usual: Any, *others: Any) -> SearchStrategy[Any]:
    """Mostly the usual value; it is also what examples shrink to."""
    return st.sampled_from([*[usual] * (2 * len(others) + 1), *others])


RECIPIENT: SearchStrategy[str] = st.sampled_from((*[RECIPIENTS[0]] * 8, *RECIPIENTS))
"""Mostly the same one, so that something happens in its mailbox."""

DRAFTS: SearchStrategy[Draft] = st.builds(
    Draft,
    recipient=RECIPIENT,
    origin=st.sampled_from(ORIGINS),
    kind=often(*KINDS),
    weight=st.sampled_from(WEIGHTS),
    bundleable=st.sampled_from([*[True] * 9, False]),
    data=st.sampled_from([*[b"bytes"] * 6, {"json": [1, None]}, None, b"", *[msgspec.UNSET] * 2]),
    expires_in=st.sampled_from([*[None] * 6, 3, 3, 30]),
    properties=st.sampled_from([(), (), (("one", "1"), ("two", ""))]),
    has_id=st.sampled_from([*[True] * 6, False]),
)

SERIES: SearchStrategy[list[Draft]] = st.builds(
    lambda draft, variants: [draft._replace(**variant) for variant in variants],
    DRAFTS,
    st.lists(
        st.sampled_from(
            [
                *[{}] * 10,
                {"weight": 31_200},
                {"weight": 20_000},
                {"bundleable": False},
                {"expires_in": 3},
                {"data": msgspec.UNSET},
                {"kind": KINDS[1]},
                {"origin": ORIGINS[1]},
            ]
        ),
        min_size=3,
        max_size=8,
    ),
)
"""Several alike but for one thing, so that cabinets have something to bundle, and something to end a bundle with."""

PARCELS: SearchStrategy[list[Draft]] = st.one_of(SERIES, SERIES, SERIES, st.lists(DRAFTS, min_size=1, max_size=6))

LAYOUTS: SearchStrategy[Settings] = st.builds(
    lambda grouping, strict: Settings(
        partition_count=PARTITIONS,
        collected_retention_seconds=RETENTION_SECONDS,
        feed_retention_seconds=RETENTION_SECONDS,
        housekeeping_seconds=0,
        filing=False,
        origins={origin: OriginSettings(group=group) for origin, group in grouping.items()},
        origin_groups={group: OriginGroupSettings(strict_order=strict) for group in grouping.values()},
    ),
    st.sampled_from(GROUPINGS),
    st.sampled_from([False, False, True]),
)

REQUESTS: SearchStrategy[dict[str, Sequence[str]]] = st.sampled_from(
    [
        *[{}] * 10,
        {"origins": ["charges"]},
        {"origins": ["points"]},
        {"origins": ["series"]},
        {"origins": ["points", "series"]},
        {"origins": ["nobody"]},
        {"origin_groups": ["master"]},
        {"origin_groups": ["pairs"]},
        {"origin_groups": ["series"]},
        {"origins": ["series"], "origin_groups": ["master"]},
        {"origin_groups": [UNHEARD_OF]},
    ]
)
"""Whose mail is asked for; some groups are known in some layouts only."""

SHAPES: SearchStrategy[dict[str, int]] = st.sampled_from(
    [
        *[{}] * 10,
        {"max_messages": 1},
        {"max_messages": 2},
        {"max_messages": 3},
        {"max_weight": 1},
        {"max_weight": 40_000},
        {"max_weight": 1_000_000},
        {"max_messages": 3, "max_weight": 51_199},
        {"max_messages": 0},
        {"max_weight": 0},
    ]
)
"""What shapes a new bundle."""


def spoiled(message: Message, how: str) -> Message:
    """The message with something wrong in it."""
    changes: dict[str, Any] = {
        "recipient": {"recipient": " "},
        "origin": {"origin": "o" * 65},
        "kind": {"kind": ""},
        "id": {"id": ".."},
        "weight": {"weight": 0},
        "least weight": {"data": b"x" * 1_025, "weight": 1},
        "claim": {"data": msgspec.UNSET, "origin": "nobody"},
        "data": {"data": b"x" * (2**20 + 1), "weight": None},
    }
    return msgspec.structs.replace(message, **changes[how])


SPOILS = ("recipient", "origin", "kind", "id", "weight", "least weight", "claim", "data")


def contradicted(message: Message, how: str) -> Message:
    """The same identity with other content; or the same content beside what identity does not look at."""
    changes: dict[str, Any] = {
        "origin": {"origin": ORIGINS[ORIGINS.index(message.origin) - 1]},
        "kind": {"kind": KINDS[KINDS.index(message.kind) - 1]},
        "bundleable": {"bundleable": not message.bundleable},
        "weight": {"weight": 777},
        "data": {"data": b"other"},
        "nothing that counts": {"document_type": "Other", "properties": {"other": "yes"}, "expires_at": None},
    }
    return msgspec.structs.replace(message, **changes[how])


CONTRADICTIONS = ("origin", "kind", "bundleable", "weight", "data", "nothing that counts")


def as_table(messages: Sequence[Message]) -> pa.Table:
    """The messages as Arrow columns, as a producer of columns would send them."""
    json_text = ["application/json" if _is_json(message) else None for message in messages]
    columns: dict[str, pa.Array[Any]] = {
        "recipient": pa.array([message.recipient for message in messages], pa.string()),
        "id": pa.array([message.id for message in messages], pa.string()),
        "origin": pa.array([message.origin for message in messages], pa.string()),
        "kind": pa.array([message.kind for message in messages], pa.string()),
        "weight": pa.array([message.weight for message in messages], pa.int64()),
        "bundleable": pa.array([message.bundleable for message in messages], pa.bool_()),
        "data": pa.array([stored_bytes(message) for message in messages], pa.binary()),
        "media_type": pa.array(json_text, pa.string()),
        "properties": pa.array([list(message.properties.items()) for message in messages], _PROPERTIES),
        "expires_at": pa.array([message.expires_at for message in messages], pa.timestamp("us", tz="UTC")),
    }
    return pa.table(columns)


_PROPERTIES = pa.map_(pa.string(), pa.string())


def _is_json(message: Message) -> bool:
    return message.data is not msgspec.UNSET and not isinstance(message.data, bytes)
