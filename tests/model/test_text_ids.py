"""Ids that are texts: stored by the UUID that stands for them, kept beside it, and given back as they were."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import Fault
from restante.limits import ID_BYTES_MAX, ID_CHARACTERS_MAX
from restante.model.columns.text_ids import has_text, id_bytes, pack, packed, split, unpacked, uuid_of_text
from restante.model.columns.texts import Texts
from restante.model.columns.uuids import uuid_texts
from restante.model.mailboxes.message_tables import to_messages, to_table
from restante.model.producers.parcel_digest import digests_of_columns
from restante.model.publishing.intake import from_arrow, from_messages
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message, MessageColumns
from tests.model.strategies import names, unhurried

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
PROPERTIES = (b"", b'{"a":"b"}', b'{"":"\xc3\xa4{"}')


def taken(*ids: str | None) -> MessageColumns:
    columns, faults = from_messages(
        [Message(recipient="anna", id=own, data=1) for own in ids], claim_check_origins=None
    )
    assert not faults
    return columns


def table_of(columns: MessageColumns) -> pa.Table:
    zeros = np.zeros(len(columns), np.int64)
    state = Texts.constant("waiting", len(columns))
    return to_table(columns, sequence_number=zeros, published_at=zeros, collected_at=zeros, state=state)


def sent_as_arrow(**columns: list[str] | list[bytes]) -> tuple[MessageColumns, list[Fault]]:
    return from_arrow(pa.table({"recipient": ["anna"], "data": [b""], **columns}), claim_check_origins=None)


@given(names)
@unhurried
def test_a_text_stands_for_its_uuid_of_version_5(text: str) -> None:
    assert uuid_of_text(text) == uuid5(NAMESPACE_URL, text).bytes == id_bytes(text)
    (stored,) = uuid_texts(taken(text).id)
    assert UUID(stored) == uuid5(NAMESPACE_URL, text)


@given(st.lists(st.tuples(st.none() | names, st.sampled_from(PROPERTIES)), max_size=6), st.integers(0, 3))
@unhurried
def test_texts_and_properties_come_apart_as_they_were_put_together(
    rows: list[tuple[str | None, bytes]], skipped: int
) -> None:
    texts, objects = [text for text, _ in rows], [own for _, own in rows]
    stored = pack(pa.array(texts, pa.string()), pa.array(objects, pa.binary()))
    one_by_one = [own if text is None else packed(text, own) for text, own in rows]
    assert stored.to_pylist() == one_by_one
    assert list(map(unpacked, one_by_one)) == rows
    part = stored.slice(skipped)
    assert has_text(part).tolist() == [text is not None for text in texts[skipped:]]
    found, properties = split(part)
    assert properties.to_pylist() == objects[skipped:]
    assert ([None] * len(part) if found is None else found.to_pylist()) == texts[skipped:]


def test_an_id_of_the_greatest_length_is_kept_beside_the_largest_properties() -> None:
    text = "\U0001f4ee" * ID_CHARACTERS_MAX
    assert len(text.encode()) == ID_BYTES_MAX
    message = Message(recipient="anna", id=text, data=1, properties={str(n): "\0" * 160 for n in range(64)})
    columns, faults = from_messages([message], claim_check_origins=None)
    assert not faults
    assert len(columns.properties[0].as_py()) < 2**16
    assert to_messages(table_of(columns))[0].id == text


def test_ids_are_given_back_as_they_came_and_uuids_in_lower_case() -> None:
    columns = taken("order/7", ID.upper(), None, "ä")
    table = table_of(columns)
    assert table["text_id"].to_pylist() == ["order/7", None, None, "ä"]
    assert [message.id for message in to_messages(table)][:2] == ["order/7", ID]
    assert {message.properties.get("order/7") for message in to_messages(table)} == {None}
    assert columns.id_texts(np.array([3, 1])) == ["ä", ID]


@pytest.mark.parametrize("bad", ["", " ", ".", "..", "a\n", "\x7f", "a\x85", "x" * 257])
def test_an_id_that_cannot_stand_in_a_url_is_a_fault(bad: str) -> None:
    assert letter_of(Message(recipient="anna", id=bad, data=1), claim_check_origins=None) is None
    _, (fault,) = from_messages([Message(recipient="anna", id=bad, data=1)], claim_check_origins=None)
    assert (fault.field, fault.id) == ("id", None)
    _, (other,) = sent_as_arrow(id=[bad])
    assert other.detail == fault.detail


def test_a_fault_names_the_text() -> None:
    _, (fault,) = from_messages([Message(recipient="anna", id="order/7", data=1, weight=0)], claim_check_origins=None)
    assert (fault.field, fault.id) == ("weight", "order/7")


def test_what_was_read_can_be_sent_again() -> None:
    columns = taken("order/7", ID)
    read = table_of(columns).select(["id", "text_id", "recipient", "data", "media_type"])
    again, faults = from_arrow(read, claim_check_origins=None)
    assert not faults
    assert (again.id == columns.id).all()
    assert again.properties.to_pylist() == columns.properties.to_pylist()


def test_a_text_beside_another_id_is_a_fault_and_alone_it_is_the_id() -> None:
    _, (fault,) = sent_as_arrow(id=[ID], text_id=["order/7"])
    assert (fault.field, fault.index) == ("id", 0)
    alone, faults = sent_as_arrow(text_id=["order/7"])
    assert not faults
    assert (alone.id == taken("order/7").id).all()
    assert not alone.made_id.any()


def test_the_digest_of_a_parcel_is_the_same_for_json_and_arrow_and_its_content_has_no_ids() -> None:
    columns, _ = sent_as_arrow(id=["order/7"], data=[b"1"], media_type=["application/json"])
    assert digests_of_columns(columns, 7) == digests_of_columns(taken("order/7"), 7)
    one, other = digests_of_columns(taken("order/7"), 7), digests_of_columns(taken("order/8"), 7)
    assert one.content == other.content == digests_of_columns(taken(ID), 7).content
    assert one.whole != other.whole


def test_text_and_data_may_be_the_same_but_not_different() -> None:
    both = Message(recipient="anna", data="hello", text="hello")
    columns, faults = from_messages([both], claim_check_origins=None)
    assert not faults
    assert columns.data.to_pylist() == [b"hello"]
    different = msgspec.structs.replace(both, data=b"hello")
    assert letter_of(different, claim_check_origins=None) is None
    _, (fault,) = from_messages([different], claim_check_origins=None)
    assert fault.field == "text"
