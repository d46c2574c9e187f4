"""UUIDs as columns."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from restante.model.columns.uuids import made_uuids, parse_uuids, uuid_texts
from tests.model.strategies import unhurried

TEXT = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def is_uuid(text: str | None) -> bool:
    """The slow way to tell."""
    try:
        return text is not None and str(UUID(text)) == text.lower()
    except ValueError:
        return False


@unhurried
@given(st.lists(st.uuids()), st.sampled_from([pa.string(), pa.large_string()]))
def test_texts_and_words_are_each_others_way_back(values: list[UUID], kind: pa.DataType) -> None:
    words, valid = parse_uuids(pa.array([str(value).upper() for value in values]).cast(kind))
    assert valid.all()
    assert words.tobytes() == b"".join(value.bytes for value in values)
    assert uuid_texts(words) == [str(value) for value in values]


spoilt = st.tuples(st.integers(0, 35), st.characters()).map(
    lambda change: TEXT[: change[0]] + change[1] + TEXT[change[0] + 1 :]
)


@unhurried
@given(st.lists(st.none() | st.uuids().map(str) | st.text(max_size=40) | spoilt))
def test_only_rows_that_hold_a_uuid_are_valid_and_the_others_are_zero(texts: list[str | None]) -> None:
    array = pa.array([None if text is None else text.encode(errors="surrogatepass") for text in texts], pa.binary())
    words, valid = parse_uuids(array)
    assert valid.tolist() == [is_uuid(text) for text in texts]
    nil = str(UUID(int=0))
    expected = [text.lower() if text is not None and is_uuid(text) else nil for text in texts]
    assert uuid_texts(words) == expected
    assert uuid_texts(parse_uuids(array.slice(1))[0]) == expected[1:]


@unhurried
@given(st.integers(0, 2**48 - 1), st.binary(min_size=160, max_size=160))
def test_made_uuids_ascend_whatever_the_randomness(now_ms: int, random: bytes) -> None:
    made = [UUID(text) for text in uuid_texts(made_uuids(20, now_ms=now_ms, random=random))]
    assert made == sorted(set(made))
    assert {(value.version, value.int >> 80) for value in made} == {(7, now_ms)}


def test_a_million_made_uuids_do_not_overflow_into_the_time() -> None:
    words = made_uuids(1_000_000, now_ms=5, random=b"\xff" * 8_000_000)
    high = words.view(">u8").reshape(-1, 2)[:, 0].astype(np.uint64)
    assert (high >> np.uint64(12) == np.uint64(5 << 4 | 7)).all()
    assert (np.diff(high.astype(np.int64)) >= 0).all()
