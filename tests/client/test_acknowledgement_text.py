"""Acknowledgements on the wire: ids of one group by their indices, and everything else word for word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.client.batches.acknowledgement_text import text_of, text_of_several
from restante.model.batches.batch_answers import ItemIndices, ItemRange
from restante.server.routes.acknowledgements import Acknowledgement

BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
GROUP = f"{BATCH}:3"
OTHER = f"{BATCH}:33"


def read(text: bytes) -> Acknowledgement:
    """As a hub reads it: strictly."""
    return msgspec.json.decode(text, type=Acknowledgement)


def named(text: bytes) -> list[str]:
    call = read(text)
    return [*call.items, *(f"{each.group}:{index}" for each in call.indices for index in each.indices)]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("indices", [[0], [7], [5, 0, 10, 5], [10, 20, 999_999_999_999], list(range(1_000))])
def test_ids_of_one_group_are_named_by_their_indices(kind: type, indices: list[int]) -> None:
    text = text_of(kind(f"{GROUP}:{index}" for index in indices))
    written = ",".join(map(str, indices))
    assert text == f'{{"indices":[{{"group":"{GROUP}","indices":[{written}]}}]}}'.encode()
    assert read(text).indices == [ItemIndices(group=GROUP, indices=indices)]


@pytest.mark.parametrize(
    "ids",
    [
        [f"{GROUP}:1", f"{OTHER}:1"],
        [f"{OTHER}:1", f"{GROUP}:1"],
        [f"{GROUP}:1", f"{BATCH[:-1]}1:3:1"],
        [f"{GROUP}:01"],
        [f"{GROUP}:1", f"{GROUP}:00"],
        [f"{GROUP}:00", f"{GROUP}:1"],
        [f"{GROUP}:+1"],
        [f"{GROUP}:-1"],
        [f"{GROUP}: 1"],
        [f"{GROUP}:1_0"],
        [f"{GROUP}:1.0"],
        [f"{GROUP}:1e3"],
        [f"{GROUP}:\N{ARABIC-INDIC DIGIT ONE}"],
        [f"{GROUP}:²"],
        [f"{GROUP}:"],
        [f"{GROUP}:1", f"{GROUP}:"],
        [f"{GROUP}:", f"{GROUP}:1"],
        [f"{GROUP}:1", f"{GROUP}:", f"{GROUP}:2"],
        [f"{GROUP}:1", "7"],
        [f"{GROUP}:1", ""],
        ["7", f"{GROUP}:1"],
        [""],
        ["", ""],
        [",", ":"],
        [f"{GROUP}:1,2"],
        [f"{GROUP}:1,{GROUP}:2"],
        [f"{GROUP}:1", f"{GROUP}:2,{GROUP}:3", "7"],
        [f"{GROUP}:1,7", f"{GROUP}:2"],
        [f"{GROUP}:1", f"{GROUP}:2,"],
        [f'{GROUP}:1"'],
        [f'{GROUP}:1]}}],"ranges":[]'],
        [f"{GROUP}:1\n"],
        [f"{BATCH}:03:1"],
        [f"{BATCH}::1"],
        [f"{BATCH}:1"],
        [f"{BATCH}:3:4:1"],
        [f"{BATCH.upper()}:3:1"],
        [f"{BATCH[:-1]}:3:1"],
        [f"{GROUP}\n:1"],
        [f'{BATCH[:-1]}":3:1'],
        [f"{GROUP}:{'9' * 16}"],
        [f"{GROUP}:{'9' * 5_000}"],
    ],
)
def test_everything_else_is_written_word_for_word(ids: list[str]) -> None:
    assert read(text_of(ids)) == Acknowledgement(items=ids)


pieces = st.sampled_from(
    [f"{GROUP}:", f"{OTHER}:", ",", "0", "1", "7", "12", ":", '"', "é", "\N{ARABIC-INDIC DIGIT THREE}", "-", BATCH]
)
texts = st.lists(pieces, max_size=6).map("".join)
plain = st.integers(0, 10**12).map(lambda index: f"{GROUP}:{index}")


@given(st.lists(st.one_of(plain, texts), min_size=1, max_size=8))
def test_whatever_is_given_the_hub_reads_the_same_texts(ids: list[str]) -> None:
    assert named(text_of(ids)) == ids


def test_ranges_and_indices_are_written_beside_the_items() -> None:
    ranges = [ItemRange(group=GROUP, start=2, upto=9)]
    indices = [ItemIndices(group=OTHER, indices=[5, 1])]
    call = read(text_of([f"{GROUP}:1"], ranges=ranges, indices=indices))
    assert call == Acknowledgement(items=[f"{GROUP}:1"], ranges=ranges, indices=indices)
    assert text_of(ranges=ranges) == f'{{"ranges":[{{"group":"{GROUP}","from":2,"upto":9}}]}}'.encode()
    assert text_of() == b"{}"


@pytest.mark.parametrize("wrong", [[1], [f"{GROUP}:1", 2], [None, f"{GROUP}:1"]])
def test_what_is_no_text_is_left_to_the_hub_to_refuse(wrong: list[Any]) -> None:
    assert msgspec.json.decode(text_of(wrong)) == {"items": wrong}


def test_several_calls_are_one_body() -> None:
    text = text_of_several([text_of([f"{GROUP}:1"]), text_of(["x"])])
    assert msgspec.json.decode(text) == {"calls": [{"indices": [{"group": GROUP, "indices": [1]}]}, {"items": ["x"]}]}
