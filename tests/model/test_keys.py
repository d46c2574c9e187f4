"""Keys sort as what they stand for, and nobody's prefix is another's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restante.model.storage.keys import (
    Cabinet,
    after_prefix,
    bundle_key,
    cabinet_key,
    key_cabinet,
    key_number,
    number_key,
    settlement_key,
)

numbers = st.integers(0, 2**64 - 1)
cabinets = st.builds(Cabinet, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9))


@given(numbers, numbers)
def test_number_keys_sort_as_numbers_do(one: int, other: int) -> None:
    assert (number_key(one) < number_key(other)) == (one < other)
    assert key_number(number_key(one)) == one


@given(numbers, cabinets)
def test_a_cabinet_comes_back_from_its_key(recipient_hash: int, cabinet: Cabinet) -> None:
    key = cabinet_key(recipient_hash, cabinet)
    assert (key_number(key), key_cabinet(key)) == (recipient_hash, cabinet)


@given(numbers, cabinets, cabinets)
def test_no_cabinet_key_begins_with_another(recipient_hash: int, one: Cabinet, other: Cabinet) -> None:
    first, second = cabinet_key(recipient_hash, one), cabinet_key(recipient_hash, other)
    assert second.startswith(first) == (one == other)


@given(numbers, cabinets, numbers)
def test_a_settlement_lies_under_its_cabinet(recipient_hash: int, cabinet: Cabinet, change: int) -> None:
    key, prefix = settlement_key(recipient_hash, cabinet, change), cabinet_key(recipient_hash, cabinet)
    assert key.startswith(prefix)
    assert key_number(key[len(prefix) :]) == change


@given(numbers, st.text(max_size=9), st.text(max_size=9), st.binary(min_size=16, max_size=16))
def test_two_recipients_with_one_hash_have_two_bundles_of_one_id(
    recipient_hash: int, one: str, other: str, bundle_id: bytes
) -> None:
    keys = bundle_key(recipient_hash, one, bundle_id), bundle_key(recipient_hash, other, bundle_id)
    assert (keys[0] == keys[1]) == (one == other)


@given(st.binary(max_size=5), st.binary(max_size=8))
def test_the_end_of_a_prefix_divides_what_has_it_from_what_follows(prefix: bytes, key: bytes) -> None:
    end = after_prefix(prefix)
    assert (prefix <= key and (end is None or key < end)) == key.startswith(prefix)
