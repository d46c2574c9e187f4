"""Properties that many messages share, and texts that JSON must escape: the same out as in."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.columns.arrow import Column, map_array
from restante.model.columns.properties import decode_properties, json_texts
from restante.model.publishing.intake_properties import encode_properties
from restante.model.publishing.validation import Faults

MAPS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.text(max_size=4), max_size=3)


def maps_of(rows: list[dict[str, str]]) -> Column:
    keys = pa.array([key for row in rows for key in row], pa.string())
    items = pa.array([item for row in rows for item in row.values()], pa.string())
    return map_array(np.cumsum([0, *map(len, rows)]), keys, items)


@given(st.lists(MAPS, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=40))
def test_properties_come_back_as_they_were(distinct: list[dict[str, str]], picks: list[int]) -> None:
    rows = [distinct[pick % len(distinct)] for pick in picks]
    faults = Faults()
    objects = encode_properties(maps_of(rows), len(rows), faults)
    decoded: Column = decode_properties(objects)
    found = [None if entries is None else dict(entries) for entries in decoded.to_pylist()]
    assert found == [row or None for row in rows]


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x00", "\x1f", " ", "~", "ä", "\x7f"])
def test_a_text_is_escaped_where_json_asks_for_it(text: str) -> None:
    column = json_texts(pa.array(["plain", f"a{text}b"], pa.string())[1:])
    assert json.loads(column[0].as_py()) == f"a{text}b"
