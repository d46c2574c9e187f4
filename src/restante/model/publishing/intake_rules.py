"""The rules that a message must obey, applied to columns: a draft in, checked columns and faults out."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante import limits
from restante.errors import Fault
from restante.model.columns import media_types
from restante.model.columns.arrow import Column, column_of, nulls_of, offsets_of, strings_of
from restante.model.columns.json_documents import json_problems
from restante.model.columns.text_ids import pack, shown_ids
from restante.model.columns.texts import Texts
from restante.model.publishing.draft import NOT_GIVEN, DraftColumns
from restante.model.publishing.intake_ids import checked_ids
from restante.model.publishing.intake_properties import encode_properties
from restante.model.publishing.message import NEVER, RESERVED_ORIGINS, MessageColumns
from restante.model.publishing.send_bounds import check_bytes, check_count
from restante.model.publishing.text_rules import Problems, TextRule, name_problems, required_texts, texts_or_default
from restante.model.publishing.validation import Faults

_DEFAULT = "default"
_SECOND = 1_000_000
EXPIRY_MIN = -62_135_596_800 * _SECOND
"""The year 1, as far back as a `datetime` reaches."""
EXPIRY_MAX = 253_402_300_800 * _SECOND - 1
"""The end of the year 9999."""


def checked(
    draft: DraftColumns,
    faults: Faults,
    *,
    claim_check_origins: Collection[str] | None,
    data_bytes_max: int,
    own: bool = False,
) -> tuple[MessageColumns, list[Fault]]:
    """Columns in which every message obeys the rules or is named by a fault. `own`: they are the hub's own."""
    check_count(draft.n)
    ids, made = checked_ids(draft, faults)
    default = Texts.constant(_DEFAULT, draft.n)
    media_default = draft.media_default or Texts.constant(media_types.BYTES, draft.n)
    kind = texts_or_default(draft.kind, _KIND, default, faults)
    data, inline, lengths = _data(draft, faults, data_bytes_max)
    columns = MessageColumns(
        id=ids.words,
        made_id=made,
        recipient=required_texts(draft.recipient, _RECIPIENT, default, faults),
        origin=texts_or_default(draft.origin, _HUB_ORIGIN if own else _ORIGIN, default, faults),
        kind=kind,
        document_type=texts_or_default(draft.document_type, _DOCUMENT_TYPE, kind, faults),
        media_type=texts_or_default(draft.media_type, _MEDIA_TYPE, media_default, faults),
        weight=_weights(draft, inline, lengths, faults),
        bundleable=np.ones(draft.n, np.bool_) if draft.bundleable is None else draft.bundleable,
        inline=inline,
        data=data,
        properties=pack(ids.texts, encode_properties(draft.properties, draft.n, faults)),
        expires_at=_times(draft.expires_at, draft.n, "expires_at", faults),
        visible_at=_delays(draft, faults),
        source_position=_positions(draft, faults),
    )
    _check_size(columns)
    _check_claim_checks(columns, claim_check_origins, faults)
    _check_json(columns, faults)
    if not faults.any:
        return columns, []
    return columns, faults.listed(shown_ids(ids.words, ids.texts), ids.given)


def _media_type_problems(values: pa.StringArray) -> Problems:
    wrong = [code for code, value in enumerate(strings_of(values)) if not media_types.looks_right(value)]
    return dict.fromkeys(wrong, "media_type must look like type/subtype, in visible ASCII characters")


def _hub_origins(values: pa.StringArray) -> Problems:
    codes = {origin: pc.index(values, pa.scalar(origin)).as_py() for origin in RESERVED_ORIGINS}
    text = "the origin {} is the hub's own: publish for another one"
    return {code: text.format(origin) for origin, code in codes.items() if code >= 0}


_RECIPIENT = TextRule("recipient", limits.RECIPIENT_CHARACTERS_MAX, lambda names: name_problems(names, "recipient"))
_ORIGIN = TextRule("origin", limits.ORIGIN_CHARACTERS_MAX, _hub_origins)
_HUB_ORIGIN = TextRule("origin", limits.ORIGIN_CHARACTERS_MAX)
_KIND = TextRule("kind", limits.KIND_CHARACTERS_MAX)
_DOCUMENT_TYPE = TextRule("document_type", limits.DOCUMENT_TYPE_CHARACTERS_MAX)
_MEDIA_TYPE = TextRule("media_type", limits.MEDIA_TYPE_CHARACTERS_MAX, _media_type_problems)


def _data(
    draft: DraftColumns, faults: Faults, bytes_max: int
) -> tuple[pa.LargeBinaryArray, NDArray[np.bool_], NDArray[np.int64]]:
    """The data without nulls, which rows are inline, and the length of each."""
    empty = pa.scalar(b"", pa.large_binary())
    column: Column = draft.data
    if column is None:
        return pa.repeat(empty, draft.n), np.zeros(draft.n, np.bool_), np.zeros(draft.n, np.int64)
    inline = ~nulls_of(column)
    if column.null_count:
        column = column.fill_null(empty)
    lengths = np.diff(offsets_of(column)).astype(np.int64, copy=False)
    check_bytes(int(lengths.sum()))
    too_long = lengths > bytes_max
    if too_long.any():
        faults.add(
            np.flatnonzero(too_long),
            "data",
            lambda row: f"data has {lengths[row]} bytes: at most {bytes_max} are allowed",
        )
        return pc.if_else(pa.array(too_long), empty, column), inline, np.where(too_long, 0, lengths)
    return column, inline, lengths


def _weights(
    draft: DraftColumns, inline: NDArray[np.bool_], lengths: NDArray[np.int64], faults: Faults
) -> NDArray[np.int32]:
    least = (lengths + (limits.KIB - 1)) // limits.KIB
    np.maximum(least, 1, out=least)
    if draft.weight is None:
        return least.astype(np.int32)
    weight = np.where(draft.weight == NOT_GIVEN, least, draft.weight)
    outside = (weight < 1) | (weight > limits.WEIGHT_KIB_MAX)
    faults.add(np.flatnonzero(outside), "weight", f"weight must be an integer from 1 to {limits.WEIGHT_KIB_MAX} (KiB)")
    below = inline & (weight < least)
    faults.add(
        np.flatnonzero(below),
        "weight",
        lambda row: f"weight is {weight[row]}: for {lengths[row]} bytes of data at least {least[row]} (KiB)",
    )
    return np.where(outside | below, least, weight).astype(np.int32)


def _times(times: NDArray[np.int64] | None, count: int, name: str, faults: Faults) -> NDArray[np.int64]:
    if times is None:
        return np.full(count, NEVER, np.int64)
    outside = (times != NEVER) & ((times < EXPIRY_MIN) | (times > EXPIRY_MAX))
    faults.add(np.flatnonzero(outside), name, f"{name} must lie in the years 1 to 9999")
    return np.where(outside, NEVER, times)


def _delays(draft: DraftColumns, faults: Faults) -> NDArray[np.int64] | None:
    if draft.visible_at is None:
        return None
    times = _times(draft.visible_at, draft.n, "visible_at", faults)
    given = times != NEVER
    if draft.expires_at is not None:
        late = given & (times >= draft.expires_at)
        faults.add(np.flatnonzero(late), "visible_at", "visible_at must lie before expires_at")
    return np.where(given, times, 0) if given.any() else None


def _positions(draft: DraftColumns, faults: Faults) -> NDArray[np.int64] | None:
    """-1 where there is none."""
    if draft.source_position is None:
        return None
    given = draft.source_position != NOT_GIVEN
    wrong = given & ((draft.source_position < 0) | (draft.source_position > limits.SOURCE_POSITION_MAX))
    faults.add(
        np.flatnonzero(wrong),
        "source_position",
        f"source_position must be an integer from 0 to {limits.SOURCE_POSITION_MAX}",
    )
    return np.where(given & ~wrong, draft.source_position, -1) if given.any() else None


def _check_size(columns: MessageColumns) -> None:
    texts = (columns.recipient, columns.origin, columns.kind, columns.document_type, columns.media_type)
    check_bytes(sum(map(_size, (columns.data, columns.properties, *(column.values for column in texts)))))


def _size(column: Column) -> int:
    ends = offsets_of(column)
    return int(ends[-1]) - int(ends[0])


def _check_claim_checks(columns: MessageColumns, allowed: Collection[str] | None, faults: Faults) -> None:
    if allowed is None or columns.inline.all():
        return
    codes, names = columns.origin.codes, strings_of(columns.origin.values)
    refused = np.array([name not in allowed for name in names], np.bool_)[codes]
    faults.add(
        np.flatnonzero(faults.without(refused & ~columns.inline, "origin")),
        "data",
        lambda row: (
            f"data is missing, and origin {names[codes[row]]!r} has no way to deliver it later: give the data, or configure the origin"
        ),
    )


def _check_json(columns: MessageColumns, faults: Faults) -> None:
    """Data whose media type is JSON must be exactly one JSON value."""
    is_json = np.array([media_types.is_json(value) for value in strings_of(columns.media_type.values)], np.bool_)
    if not is_json.any():
        return
    rows = np.flatnonzero(faults.without(columns.inline & is_json[columns.media_type.codes], "data", "text"))
    documents = columns.data if len(rows) == len(columns) else columns.data.take(column_of(rows))
    problems = {int(rows[place]): problem for place, problem in json_problems(documents).items()}
    faults.add(problems, "data", lambda row: f"data must be one JSON value, as its media type says: {problems[row]}")
