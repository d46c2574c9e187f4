"""Text columns: any operation on them is that on the plain list of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.columns.arrow import strings_of
from restante.model.columns.texts import Texts
from tests.model.strategies import unhurried

few = st.lists(st.sampled_from(["a", "b", "bb", "", "é"]), max_size=8)


def texts_of(column: Texts) -> list[str]:
    """The plain list, after a look at what must always hold."""
    assert column.codes.dtype == np.int32
    assert sorted(set(column.codes.tolist())) == list(range(len(column.values)))
    assert len(set(column.values.to_pylist())) == len(column.values)
    assert strings_of(column.to_dictionary()) == strings_of(column.to_array())
    return strings_of(column.to_array())


@unhurried
@given(few, st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]), st.booleans())
def test_encoding_keeps_the_texts(texts: list[str], kind: pa.DataType, encoded: bool) -> None:
    array = pa.array(texts, pa.string())
    cast = array.dictionary_encode() if encoded else array.cast(kind)
    assert texts_of(Texts.encode(cast)) == texts
    assert texts_of(Texts.encode(cast.slice(1))) == texts[1:]


@pytest.mark.parametrize(
    "texts", [["same"] * 100, [""] * 100, ["ab", "ab", "ba", "ab"], ["aa", "a", "aaa", "aa"], ["a"]]
)
def test_a_constant_column_is_told_from_one_that_only_looks_so(texts: list[str]) -> None:
    column = Texts.encode(pa.array(texts))
    assert texts_of(column) == texts


def test_a_constant_has_one_value_or_none() -> None:
    assert texts_of(Texts.constant("a", 3)) == ["a", "a", "a"]
    assert texts_of(Texts.constant("a", 0)) == []


@unhurried
@given(st.lists(few, max_size=4))
def test_concat_joins_the_rows(parts: list[list[str]]) -> None:
    columns = [Texts.encode(pa.array(part, pa.string())) for part in parts]
    assert texts_of(Texts.concat(columns)) == [text for part in parts for text in part]


@unhurried
@given(few, st.data())
def test_take_picks_rows_by_number_or_mask(texts: list[str], data: st.DataObject) -> None:
    column = Texts.encode(pa.array(texts, pa.string()))
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1))) if texts else []
    assert texts_of(column.take(np.array(rows, np.int64))) == [texts[row] for row in rows]
    mask = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    kept = [text for text, keep in zip(texts, mask, strict=True) if keep]
    assert texts_of(column.take(np.array(mask, np.bool_))) == kept


@unhurried
@given(st.lists(st.tuples(st.none() | st.sampled_from("abc"), st.sampled_from("bcd")), max_size=8))
def test_rows_without_a_text_take_the_default(rows: list[tuple[str | None, str]]) -> None:
    values = sorted({text for text, _ in rows if text is not None})
    codes = np.array([-1 if text is None else values.index(text) for text, _ in rows], np.int32)
    default = Texts.encode(pa.array([text for _, text in rows], pa.string()))
    filled = Texts(codes, pa.array(values, pa.string())).filled(default)
    assert texts_of(filled) == [default_text if text is None else text for text, default_text in rows]
