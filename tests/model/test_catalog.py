"""The catalog finds a recipient's drawers, all of them and nobody else's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from restante.model.columns.hashing import text_hash
from restante.model.publishing.message import Message
from restante.model.storage.catalog import mailbox
from restante.model.storage.keys import Cabinet
from tests.model.strategies import unhurried
from tests.model.test_merge import merge_shelves, shelf_of, shelves_of
from tests.model.test_segment import KEY, Letter, Shelf, cabinets_meet, letter


def numbers_found(shelves: Sequence[Shelf], recipient: str) -> dict[Cabinet, list[int]]:
    """Of each cabinet the numbers in its drawers, as the catalog gives them."""
    runs = [shelf.run for shelf in shelves]
    rows = {id(stored): shelf for shelf in shelves for stored in shelf.run.segments}
    found: dict[Cabinet, list[int]] = {}
    for cabinet, places in mailbox(runs, recipient, text_hash(recipient, KEY)).items():
        for place in places:
            own = rows[id(place.stored)].of_segment(place.stored)[place.row : place.row + place.count]
            assert {each.cabinet for each in own} == {cabinet}
            numbers = [place.stored.base + each.place for each in own]
            assert (place.first, place.last) == (numbers[0], numbers[-1])
            found.setdefault(cabinet, []).extend(numbers)
    return found


def numbers_sent(letters: Sequence[Letter], recipient: str) -> dict[Cabinet, list[int]]:
    sent: dict[Cabinet, list[int]] = {}
    for own in letters:
        if own.cabinet.recipient == recipient:
            sent.setdefault(own.cabinet, []).append(own.place + 1)
    return sent


@given(st.lists(cabinets_meet, min_size=1, max_size=3), st.booleans(), st.booleans())
@unhurried
def test_a_mailbox_is_all_of_a_recipients_drawers_in_number_order(
    sends: list[list[Message]], filed: bool, colliding: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if colliding:
            patched.setattr("restante.model.columns.hashing._hashes_of_words", _all_alike)
            patched.setattr("restante.model.columns.hashing._hash_of_words", lambda content, key: 7)
        shelves, letters = shelves_of(sends)
        if filed:
            shelves = [shelf_of(merge_shelves(shelves), len(letters))]
        for recipient in {own.cabinet.recipient for own in letters} | {"nobody at all"}:
            assert numbers_found(shelves, recipient) == numbers_sent(letters, recipient)


def _all_alike(_: NDArray[np.uint8], lengths: NDArray[np.int64], key: int) -> NDArray[np.uint64]:
    return np.full(len(lengths), 7, np.uint64)


def test_a_recipient_is_found_in_every_segment_of_a_large_run() -> None:
    sends = [
        [letter(f"r{number % 5}", size=500_000) for number in range(60)] + [letter(f"small {n}") for n in range(50)]
    ]
    shelves, letters = shelves_of(sends)
    assert len(shelves[0].run.segments) > 3
    for recipient in {own.cabinet.recipient for own in letters}:
        assert numbers_found(shelves, recipient) == numbers_sent(letters, recipient)
