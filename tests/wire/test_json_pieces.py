"""Large JSON in pieces: they say what the whole says, they are short, and what is not valid as a whole is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.wire.json_pieces import count_parts, pieces, read_list, read_members
from tests.model.strategies import json_values, unhurried

HARD = ["", '"', "\\", '\\"', "},{", "[", "é", "\\\\", "a,b", "\u2028", '\\\\"']
_raws = json_decoder(list[msgspec.Raw])


@pytest.fixture(params=[1, 2, 3, 7, 64])
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of a few bytes, so that each border lies in each place."""
    monkeypatch.setattr("restante.wire.json_pieces.JSON_PIECE_BYTES", request.param)
    return int(request.param)


def test_pieces_of_a_list_have_its_parts_in_order(tiny: int) -> None:
    dice = random.Random(tiny)
    for _ in range(60):
        parts = [hard(dice, 3) for _ in range(dice.randrange(12))]
        content = json.dumps(parts, ensure_ascii=False, indent=dice.choice((None, 1))).encode()
        assert [part for piece in pieces(content) for part in json.loads(piece)] == parts


def test_pieces_of_an_object_have_its_members(tiny: int) -> None:
    dice = random.Random(tiny)
    for _ in range(60):
        members = {dice.choice(HARD) + str(number): hard(dice, 2) for number in range(dice.randrange(12))}
        found = read_members(json.dumps(members, ensure_ascii=False).encode())
        assert {name: json.loads(bytes(value)) for name, value in found.items()} == members


@given(st.lists(json_values, max_size=4), st.sampled_from([1, 2, 5, 16]))
@unhurried
def test_any_list_is_cut_at_its_own_commas(parts: list[Any], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("restante.wire.json_pieces.JSON_PIECE_BYTES", size)
        content = msgspec.json.encode(parts)
        assert [part for piece in pieces(content) for part in msgspec.json.decode(piece)] == parts


def test_what_is_no_json_as_a_whole_has_a_piece_that_is_none(tiny: int) -> None:
    dice = random.Random(tiny)
    content = json.dumps([hard(dice, 2) for _ in range(9)]).encode()
    for broken in (
        *(changed(dice, content) for _ in range(400)),
        b"[1,,2]",
        b"[1,]",
        b"[,1]",
        b"[1],[2]",
        b"[1",
        b"[]]",
    ):
        try:
            json.loads(broken)
        except ValueError:
            with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
                read_list(broken, json_decoder(list[Any]), 1_000, "too many")


def test_pieces_of_many_small_parts_are_short() -> None:
    content = b"[" + b'{"a":"},{\\""},' * 200_000 + b"{}]"
    lengths = [len(piece) for piece in pieces(content)]
    assert max(lengths) <= 2 * limits.JSON_PIECE_BYTES
    assert len(lengths) >= len(content) // (2 * limits.JSON_PIECE_BYTES)


def test_a_list_is_refused_when_it_has_too_many_parts() -> None:
    content = b"[" + b"1," * 999 + b"1]"
    assert len(read_list(content, _raws, 1_000, "too many")) == 1_000
    with pytest.raises(InvalidRequest, match="too many"):
        read_list(content, _raws, 999, "too many")


@pytest.mark.parametrize(("depth", "count"), [(0, 0), (1, 2), (2, 4), (3, 7), (9, 7)])
def test_parts_are_counted_down_to_a_depth(tiny: int, depth: int, count: int) -> None:
    assert count_parts(b'[{"a,":1,"b\\",\\\\":[1,2,3,{"x":"y"}]},[1,2],","]', depth) == count


def hard(dice: random.Random, depth: int) -> object:
    if depth == 0 or dice.random() < 0.4:
        return dice.choice([*HARD, 7, None, True, -1.5])
    if dice.random() < 0.5:
        return [hard(dice, depth - 1) for _ in range(dice.randrange(4))]
    return {dice.choice(HARD): hard(dice, depth - 1) for _ in range(dice.randrange(4))}


def changed(dice: random.Random, content: bytes) -> bytes:
    broken = bytearray(content)
    place = dice.randrange(len(broken))
    if dice.random() < 0.5:
        del broken[place]
    else:
        broken[place] = dice.choice(b'[]{},"\\:1 ')
    return bytes(broken)
