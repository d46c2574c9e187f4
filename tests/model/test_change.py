"""Change records come back from their bytes, and their stored names stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restante.model.storage.change import ChangeKind, ChangeRecord, decode_change, encode_change
from restante.model.storage.head import NumberRange

numbers = st.integers(0, 2**63 - 1)
ranges = st.lists(st.builds(NumberRange, numbers, numbers), max_size=4).map(tuple)

records = st.builds(
    ChangeRecord,
    st.sampled_from(ChangeKind),
    numbers,
    st.text(max_size=9),
    st.text(max_size=9),
    st.text(max_size=9),
    numbers,
    ranges,
    ranges,
    st.sampled_from([b"", bytes(16)]),
    st.booleans(),
)


@given(records)
def test_a_record_comes_back_from_its_bytes(record: ChangeRecord) -> None:
    assert decode_change(encode_change(record)) == record


def test_the_stored_names_of_changes_never_change() -> None:
    assert {kind.name: kind.value for kind in ChangeKind} == {
        "COLLECTED": "collected",
        "EXPIRED": "expired",
        "WITHDRAWN": "withdrawn",
        "SET_ASIDE": "set_aside",
        "RELEASED": "released",
        "ERASED": "erased",
        "BATCH_COMPLETED": "batch_completed",
    }
