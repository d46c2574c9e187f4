"""Packed bodies: both ways, in pieces, and never larger than allowed."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from restante.limits import MIB
from restante.wire.compression import ENCODINGS, accepted_encoding, compress, decompress
from tests.model.strategies import unhurried


@unhurried
@given(st.lists(st.binary(max_size=500), max_size=5), st.sampled_from(ENCODINGS))
def test_what_was_packed_comes_back(chunks: list[bytes], encoding: str) -> None:
    packed = b"".join(compress(iter(chunks), encoding))
    whole = b"".join(chunks)
    assert decompress(packed, encoding, len(whole)) == whole
    assert decompress(memoryview(packed), encoding.upper(), len(whole)) == whole


def test_gzip_is_what_others_understand() -> None:
    assert gzip.decompress(b"".join(compress(iter([b"a", b"b"]), "gzip"))) == b"ab"
    assert decompress(gzip.compress(b"ab"), "x-gzip", 2) == b"ab"


def test_large_content_is_handed_on_before_its_end() -> None:
    noise = bytes(range(256)) * 4096
    pieces = list(compress(iter([noise] * 20), "gzip"))
    assert len(pieces) > 1
    assert decompress(b"".join(pieces), "gzip", 20 * MIB) == noise * 20


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_goes_off_nowhere(encoding: str) -> None:
    packed = b"".join(compress((bytes(MIB) for _ in range(128)), encoding))
    assert len(packed) < MIB
    before = pa.total_allocated_bytes()
    with pytest.raises(BodyTooLarge):
        decompress(packed, encoding, 2 * MIB)
    assert pa.total_allocated_bytes() - before < 8 * MIB


def test_the_limit_itself_is_allowed() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert len(decompress(packed, "gzip", 1000)) == 1000
    with pytest.raises(BodyTooLarge) as refused:
        decompress(packed, "gzip", 999)
    assert refused.value.details["limit"] == 999
    assert decompress(b"x" * 1000, None, 1000) == b"x" * 1000
    with pytest.raises(BodyTooLarge):
        decompress(b"x" * 1000, "identity", 999)


@pytest.mark.parametrize(
    "body", [b"", b"plain text", gzip.compress(b"x", mtime=0) + b"rest", gzip.compress(b"abc", mtime=0)[:-1]]
)
def test_what_is_not_packed_as_it_says_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="gzip"):
        decompress(body, "gzip", 1000)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "*"])
def test_another_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="gzip or zstd"):
        decompress(b"x", encoding, 10)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("br, deflate", None),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("*", "zstd"),
        ("*, zstd;q=0", "gzip"),
        ("gzip;q=0", None),
        ("identity;q=1, gzip;q=0.5", None),
        ("GZIP", "gzip"),
    ],
)
def test_an_answer_is_packed_as_the_caller_wishes(accepted: str | None, expected: str | None) -> None:
    assert accepted_encoding(accepted) == expected
