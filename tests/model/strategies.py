"""Messages for property tests: good ones, and good ones with one field spoilt; and columns as plain rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from restante.model.columns.uuids import uuid_texts
from restante.model.publishing.message import RESERVED_ORIGINS, Message, MessageColumns
from tests.profiles import by_profile

unhurried = settings(
    deadline=None, max_examples=by_profile(dev=10, ci=50), suppress_health_check=[HealthCheck.too_slow]
)
"""A busy machine is no failure."""

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip()) and text not in {".", ".."}
)
media_types = st.sampled_from(["text/plain", "application/xml; charset=utf-8", "image/png"])
json_media_types = st.sampled_from(["application/json", "application/vnd.x+json", "Application/JSON; charset=utf-8"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
times = st.datetimes(datetime.fromisoformat("0001-01-02"), datetime.fromisoformat("9999-12-30")).flatmap(
    lambda time: st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3))]).map(
        lambda zone: time.replace(tzinfo=zone)
    )
)
ids = st.uuids().map(str) | st.uuids().map(lambda value: str(value).upper()) | names


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message that obeys every rule."""
    content = draw(st.sampled_from(["bytes", "value", "text", "json bytes", "claim check"]))
    fields: dict[str, Any] = {"recipient": draw(names)}
    if content == "bytes":
        fields["data"] = draw(st.binary(max_size=3000))
        fields["media_type"] = draw(st.none() | media_types)
    elif content == "value":
        fields["data"] = draw(json_values)
        fields["media_type"] = draw(st.none() | json_media_types)
    elif content == "text":
        fields[draw(st.sampled_from(["data", "text"]))] = draw(texts)
        fields["media_type"] = draw(st.none() | media_types)
    elif content == "json bytes":
        fields["data"] = msgspec.json.encode(draw(json_values))
        fields["media_type"] = draw(json_media_types)
    fields["id"] = draw(st.none() | ids)
    for name in ("origin", "kind", "document_type"):
        if draw(st.booleans()):
            fields[name] = draw(texts.filter(lambda text: text not in RESERVED_ORIGINS))
    fields["weight"] = draw(st.none() | st.integers(3, 2**31 - 1))
    fields["bundleable"] = draw(st.booleans())
    fields["properties"] = draw(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), texts, max_size=3))
    fields["expires_at"] = draw(st.none() | times)
    return Message(**fields)


spoilt_fields: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["", " ", "x" * 257, ".", "..", "a\n", "\x9f", UUID(int=1), 7, "\ud800"]),
    "recipient": st.sampled_from(["", "  ", "r" * 257, ".", "..", "a\n", "\x7f", "\x85b", None, 5, b"bytes", "\ud800"]),
    "origin": st.sampled_from(["", "\t", "o" * 65, None, "\udfff"]),
    "kind": st.sampled_from(["", "\u3000", "k" * 257, 1.5]),
    "document_type": st.sampled_from(["", " ", "d" * 257, 3]),
    "weight": st.sampled_from([0, -1, 2**31, 2**80, -(2**80), 1.0, "1", True]),
    "bundleable": st.sampled_from([None, 1, "true"]),
    "data": st.sampled_from([float("nan"), [float("inf")], object(), {"a": "\ud800"}, {(1, 2): 3}])
    | st.builds(lambda: bytes(2**20 + 1)),
    "media_type": st.sampled_from(["", "json", "a/", "/b", "a/b\n", "a b/c", "té/xt", "a/" + "b" * 255]),
    "properties": st.sampled_from(
        [None, [], {"a": 1}, {1: "a"}, {"a": "\ud800"}, {str(n): "" for n in range(65)}, {"a": "x" * 2**14}]
    ),
    "text": st.sampled_from([b"bytes", 5, "\ud800"]),
    "expires_at": st.sampled_from([datetime.fromisoformat("2030-01-01"), "2030-01-01", 5]),
    "sequence_number": st.just(1),
    "published_at": st.just(datetime(2030, 1, 1, tzinfo=UTC)),
}


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Message, str]:
    """A message with one fault, and the field that has it."""
    field = draw(st.sampled_from(sorted(spoilt_fields)))
    # Data comes alone: a weight too small for it, or JSON that is none, is a fault of its own, and a client, who does
    # not know the bound that its hub sets for data, finds that one first.
    alone = {"text": None, "weight": None, "media_type": None} if field == "data" else {}
    return msgspec.structs.replace(draw(messages()), **alone, **{field: draw(spoilt_fields[field])}), field


def listed(columns: MessageColumns) -> list[tuple[object, ...]]:
    """All rows as plain values."""
    texts = (columns.recipient, columns.origin, columns.kind, columns.document_type, columns.media_type)
    numbers = (columns.made_id, columns.weight, columns.bundleable, columns.inline, columns.expires_at)
    return list(
        zip(
            uuid_texts(columns.id),
            *(column.to_array().to_pylist() for column in texts),
            *(column.tolist() for column in numbers),
            columns.data.to_pylist(),
            columns.properties.to_pylist(),
            strict=True,
        )
    )
