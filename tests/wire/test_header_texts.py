"""Lists of texts in a header: what goes in comes out, and what has no room is known to be missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restante.limits import HEADER_TEXTS_BYTES_MAX
from restante.wire.bundle_letters import joined_texts, split_texts

TEXTS = st.text(min_size=1, max_size=256).filter(lambda text: text.isprintable() and not text.isspace())


@given(st.lists(st.one_of(TEXTS, st.just("..."), st.just("a,b")), max_size=40))
def test_texts_come_out_as_they_went_in_or_cut_after_a_whole_one(texts: list[str]) -> None:
    header = joined_texts(texts)
    assert header.isascii()
    assert len(header) <= HEADER_TEXTS_BYTES_MAX
    found, whole = split_texts(header)
    assert found == tuple(texts[: len(found)])
    assert whole == (len(found) == len(texts))
    assert whole or header.endswith("...")


def test_a_list_is_cut_after_a_whole_text() -> None:
    names = [f"type {number:03}" for number in range(200)]
    header = joined_texts(names)
    assert HEADER_TEXTS_BYTES_MAX - 20 < len(header) <= HEADER_TEXTS_BYTES_MAX
    assert header.endswith(",...")
    assert split_texts("a%2Cb,c,...") == (("a,b", "c"), False)
    assert split_texts("...") == ((), False)
    assert split_texts("") == ((), True)
    assert split_texts("%2E%2E%2E") == (("...",), True)


def test_a_list_that_just_fits_is_not_cut() -> None:
    names = ["a" * 255, "b" * 255, "c" * 255, "d" * 256]
    assert len(joined_texts(names)) == HEADER_TEXTS_BYTES_MAX
    assert split_texts(joined_texts(names)) == (tuple(names), True)
    assert split_texts(joined_texts([*names, "e"])) == (tuple(names[:3]), False)
