"""Where a recipient lives: FNV-1a as published, evenly spread."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.storage.partition import fnv1a_64, fnv1a_64_column, partition_of, partitions_of
from tests.model.strategies import unhurried

# From the test suite that the authors of FNV publish.
VECTORS = {
    b"": 0xCBF29CE484222325,
    b"a": 0xAF63DC4C8601EC8C,
    b"b": 0xAF63DF4C8601F1A5,
    b"c": 0xAF63DE4C8601EFF2,
    b"d": 0xAF63D94C8601E773,
    b"e": 0xAF63D84C8601E5C0,
    b"f": 0xAF63DB4C8601EAD9,
    b"fo": 0x08985907B541D342,
    b"foo": 0xDCB27518FED9D577,
    b"foob": 0xDD120E790C2512AF,
    b"fooba": 0xCAC165AFA2FEF40A,
    b"foobar": 0x85944171F73967E8,
    b"\0": 0xAF63BD4C8601B7DF,
    b"chongo was here!\n": 0x46810940EFF5F915,
}
RECIPIENTS = 100_000
PARTITIONS = 16
CHI_SQUARE_MAX = 37.7
"""With 15 degrees of freedom, an even spread exceeds it once in a thousand times."""

NAMINGS: dict[str, Callable[[random.Random, int], str]] = {
    "counted": lambda _, number: f"recipient-{number}",
    "padded": lambda _, number: f"{number:08d}",
    "market party": lambda _, number: f"57{number:011d}",
    "mail": lambda _, number: f"customer.{number}@example.org",
    "uuid": lambda generator, _: str(uuid.UUID(int=generator.getrandbits(128))),
    "umlauts": lambda _, number: f"Empfänger {number} ☎",
}


@pytest.mark.parametrize(("content", "expected"), VECTORS.items())
def test_the_hash_is_the_published_one(content: bytes, expected: int) -> None:
    assert fnv1a_64(content) == expected


def test_the_hash_of_a_column_is_the_published_one() -> None:
    column = pa.array([content.decode() for content in VECTORS], pa.string())
    assert fnv1a_64_column(column).tolist() == list(VECTORS.values())


@given(st.lists(st.text(max_size=40), max_size=20), st.integers(1, 10_000), st.data())
@unhurried
def test_a_column_is_routed_as_each_recipient_is(recipients: list[str], count: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(recipients)))
    column = pa.array(recipients, pa.string()).slice(start)
    assert partitions_of(column, count).tolist() == [partition_of(name, count) for name in recipients[start:]]


@pytest.mark.parametrize("naming", NAMINGS)
def test_recipients_spread_evenly_over_partitions(naming: str) -> None:
    generator = random.Random(3)
    names = [NAMINGS[naming](generator, number) for number in range(RECIPIENTS)]
    counts = np.bincount(partitions_of(pa.array(names, pa.string()), PARTITIONS), minlength=PARTITIONS)
    expected = RECIPIENTS / PARTITIONS
    assert float(((counts - expected) ** 2 / expected).sum()) < CHI_SQUARE_MAX
