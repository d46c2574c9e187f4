"""Python messages into columns: every rule at its limits, and faults that name the right message."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import Fault, InvalidRequest
from restante.model.columns.uuids import uuid_texts
from restante.model.publishing.intake import RANDOM_BYTES_PER_ID, concat, fill_made_ids, from_messages
from restante.model.publishing.message import NEVER, Message, MessageColumns, State
from tests.model.strategies import listed, messages, spoilt, unhurried

ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def columns_of(*sent: Message) -> MessageColumns:
    columns, faults = from_messages(sent, claim_check_origins=None)
    assert faults == []
    return columns


def faults_of(*sent: Message, origins: tuple[str, ...] | None = None) -> list[Fault]:
    columns, faults = from_messages(sent, claim_check_origins=origins)
    assert len(columns) == len(sent)
    return faults


def message(**fields: Any) -> Message:
    """A message that is right but for these fields."""
    return Message(**{"recipient": "anna", "data": b"", **fields})


def only_fault(**fields: Any) -> Fault:
    (fault,) = faults_of(message(**fields))
    assert fault.index == 0
    assert fault.code == "invalid_message"
    return fault


def test_a_message_with_only_a_recipient_and_data_takes_all_defaults() -> None:
    columns = columns_of(Message(recipient="anna", data=b"hello"))
    assert columns.made_id.tolist() == [True]
    assert columns.origin.to_array().to_pylist() == ["default"]
    assert columns.kind.to_array().to_pylist() == ["default"]
    assert columns.document_type.to_array().to_pylist() == ["default"]
    assert columns.media_type.to_array().to_pylist() == ["application/octet-stream"]
    assert columns.weight.tolist() == [1]
    assert columns.bundleable.tolist() == [True]
    assert columns.inline.tolist() == [True]
    assert columns.data.to_pylist() == [b"hello"]
    assert columns.properties.to_pylist() == [b""]
    assert columns.expires_at.tolist() == [NEVER]


def test_no_messages_are_no_rows() -> None:
    assert len(columns_of()) == 0


def test_the_columns_have_the_types_that_the_hub_counts_on() -> None:
    columns = columns_of(Message(recipient="anna", data=b"", id=ID), Message(recipient="bo", data=1, weight=5))
    assert columns.id.dtype == np.uint64
    assert columns.id.shape == (2, 2)
    assert columns.weight.dtype == np.int32
    assert columns.expires_at.dtype == np.int64
    assert columns.recipient.codes.dtype == np.int32
    assert (str(columns.data.type), str(columns.properties.type)) == ("large_binary", "binary")


def test_an_id_is_taken_in_any_case_and_any_version() -> None:
    columns = columns_of(*(Message(recipient="anna", data=b"", id=text) for text in (ID, ID.upper(), str(UUID(int=0)))))
    assert uuid_texts(columns.id) == [ID, ID, str(UUID(int=0))]
    assert not columns.made_id.any()


@pytest.mark.parametrize(
    ("field", "longest"),
    [("recipient", 256), ("origin", 64), ("kind", 256), ("document_type", 256)],
)
def test_texts_count_characters_and_may_not_be_blank(field: str, longest: int) -> None:
    longest_text = "\U0001f4ee" * longest
    columns = columns_of(message(**{field: longest_text}))
    assert getattr(columns, field).to_array().to_pylist() == [longest_text]
    assert columns_of(message(**{field: "x"}))
    for bad in ("", " ", "\t\n\u3000", "x" * (longest + 1), "\ud800", 7, b"x"):
        assert only_fault(**{field: bad}).field == field


def test_a_fault_says_what_is_wrong_and_what_is_allowed() -> None:
    assert only_fault(recipient="r" * 300).detail == "recipient must have 1 to 256 characters, not 300"
    assert only_fault(kind=5).detail == "kind must be text (str), not int"


def test_a_text_may_be_of_a_subclass_of_str() -> None:
    class Kind(StrEnum):
        BILL = "bill"

    columns = columns_of(Message(recipient="anna", data=b"", kind=Kind.BILL, properties={"kind": Kind.BILL}))
    assert columns.kind.to_array().to_pylist() == ["bill"]
    assert columns.properties.to_pylist() == [b'{"kind":"bill"}']


def test_the_document_type_is_the_kind_unless_given() -> None:
    columns = columns_of(
        Message(recipient="a", data=b"", kind="bill"),
        Message(recipient="a", data=b"", kind="bill", document_type="Invoice"),
        Message(recipient="a", data=b"", kind="reminder"),
        Message(recipient="a", data=b"", kind="Invoice"),
    )
    assert columns.document_type.to_array().to_pylist() == ["bill", "Invoice", "reminder", "Invoice"]


@pytest.mark.parametrize("good", ["a/b", "application/vnd.a-b+xml;x=y", "text/plain; charset=utf-8", "a/" + "b" * 254])
def test_a_media_type_looks_like_one(good: str) -> None:
    assert columns_of(Message(recipient="anna", data=b"", media_type=good)).media_type.values.to_pylist() == [good]


@pytest.mark.parametrize("bad", ["", " ", "json", "a/", "/b", "a/b\n", "a b/c", "té/xt", "a/b;\x7f", "a/" + "b" * 255])
def test_a_media_type_that_does_not_look_like_one_is_a_fault(bad: str) -> None:
    assert only_fault(media_type=bad).field == "media_type"


@pytest.mark.parametrize(("size", "weight"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (2**20, 1024)])
def test_the_weight_is_the_data_rounded_up_to_kib_and_may_not_be_less(size: int, weight: int) -> None:
    data = bytes(size)
    assert columns_of(Message(recipient="anna", data=data)).weight.tolist() == [weight]
    assert columns_of(Message(recipient="anna", data=data, weight=weight)).weight.tolist() == [weight]
    assert columns_of(Message(recipient="anna", data=data, weight=2**31 - 1)).weight.tolist() == [2**31 - 1]
    assert only_fault(data=data, weight=weight - 1).field == "weight"


@pytest.mark.parametrize("bad", [0, -1, 2**31, 2**63, 2**64, -(2**63), 1.0, "1", True])
def test_a_weight_that_is_no_integer_in_range_is_a_fault(bad: object) -> None:
    assert only_fault(weight=bad).field == "weight"


def test_a_claim_check_may_have_any_weight_and_has_1_without() -> None:
    columns = columns_of(Message(recipient="anna"), Message(recipient="anna", weight=7))
    assert columns.weight.tolist() == [1, 7]
    assert columns.inline.tolist() == [False, False]
    assert columns.data.to_pylist() == [b"", b""]
    assert columns.data.null_count == 0


def test_only_origins_with_a_content_url_may_send_claim_checks() -> None:
    sent = [Message(recipient="a", origin="meters"), Message(recipient="a", origin="bills")]
    (fault,) = faults_of(*sent, Message(recipient="a", data=None, origin="bills"), origins=("meters",))
    assert (fault.index, fault.field) == (1, "data")
    assert "'bills'" in fault.detail
    assert faults_of(*sent, origins=None) == []


def test_a_claim_check_whose_origin_is_faulty_has_that_fault_only() -> None:
    assert [fault.field for fault in faults_of(Message(recipient="a", origin=""), origins=())] == ["origin"]


def test_bytes_of_any_sort_are_kept_as_they_are() -> None:
    sorts = [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff"), memoryview(b"\x00-\xff")[::2]]
    columns = columns_of(*(Message(recipient="anna", data=data) for data in sorts))
    assert columns.data.to_pylist() == [b"\x00\xff"] * 4
    assert columns.media_type.values.to_pylist() == ["application/octet-stream"]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, b"null"),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'.encode()),
        (["text"], b'["text"]'),
        (2**70, str(2**70).encode()),
    ],
)
def test_other_values_are_stored_as_compact_json(value: object, stored: bytes) -> None:
    columns = columns_of(Message(recipient="anna", data=value))
    assert columns.data.to_pylist() == [stored]
    assert columns.media_type.values.to_pylist() == ["application/json"]


def test_a_text_is_stored_as_it_is() -> None:
    columns = columns_of(Message(recipient="anna", data="café"))
    assert columns.data.to_pylist() == ["café".encode()]
    assert columns.media_type.values.to_pylist() == ["text/plain"]


class Sick(msgspec.Struct):
    reading: float


@pytest.mark.parametrize(
    "bad",
    [
        float("nan"),
        [None, {"a": float("inf")}],
        Sick(reading=float("-inf")),
        [msgspec.Raw(b"null"), float("nan")],
        object(),
        {"a": "\ud800"},
        {(1, 2): 3},
        np.int64(1),
        msgspec.Raw(b"{"),
        [10**5000],
    ],
)
def test_a_value_that_json_cannot_say_is_a_fault(bad: object) -> None:
    assert only_fault(data=bad).field == "data"


def test_a_value_that_holds_itself_is_a_fault() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert only_fault(data=endless).field == "data"


def test_null_beside_finite_numbers_is_no_fault() -> None:
    assert columns_of(Message(recipient="anna", data={"null": [None, 1.5, "null"]}))


def test_data_may_have_1_mib() -> None:
    assert columns_of(Message(recipient="anna", data=bytes(limits.DATA_BYTES_MAX)))
    fault = only_fault(data=bytes(limits.DATA_BYTES_MAX + 1), weight=1)
    assert (fault.field, fault.detail) == ("data", "data has 1048577 bytes: at most 1048576 are allowed")


@pytest.mark.parametrize("media_type", ["application/json", "APPLICATION/JSON", "a/b+json", "application/json; x=y"])
def test_bytes_of_a_json_media_type_must_be_one_json_value(media_type: str) -> None:
    for good in (b"1", b' {"a": 1} ', b'"\xc3\xa9"', b"1e999"):
        assert columns_of(Message(recipient="anna", data=good, media_type=media_type)).data.to_pylist() == [good]
    for bad in (b"", b"1 2", b"{", b"NaN", b'"\xff"', b"[1,]", b"\xef\xbb\xbf1", b"[" * 100_000):
        assert only_fault(data=bad, media_type=media_type).field == "data"


def test_bytes_of_another_media_type_may_be_anything() -> None:
    for media_type in ("text/json", "application/jsonx", "application/json-seq"):
        assert columns_of(Message(recipient="anna", data=b"{", media_type=media_type))


def test_documents_that_are_json_only_together_are_faults() -> None:
    halves = [Message(recipient="a", data=data, media_type="application/json") for data in (b"[1", b"2]", b"3", b",4")]
    assert [fault.index for fault in faults_of(*halves)] == [0, 1, 3]


def test_properties_are_compact_json_in_the_order_given() -> None:
    given_maps = [{}, {"b": "1", "a": "é"}, {'q"\\': "\n\x00\x7f"}, {"": ""}]
    columns = columns_of(*(Message(recipient="anna", data=b"", properties=given_map) for given_map in given_maps))
    assert columns.properties.to_pylist() == [b"", *(msgspec.json.encode(given_map) for given_map in given_maps[1:])]


def test_properties_may_have_64_entries_and_16_kib() -> None:
    assert columns_of(Message(recipient="a", data=b"", properties={str(n): "" for n in range(64)}))
    assert columns_of(Message(recipient="a", data=b"", properties={"é": "x" * (2**14 - 2)}))
    assert "65 entries" in only_fault(properties={str(n): "" for n in range(65)}).detail
    assert "16385 bytes" in only_fault(properties={"é": "x" * (2**14 - 1)}).detail


@pytest.mark.parametrize("bad", [None, [], "a", {"a": 1}, {"a": None}, {1: "a"}, {"a": b"b"}, {"a": "\ud800"}])
def test_properties_that_do_not_map_text_to_text_are_a_fault(bad: object) -> None:
    assert only_fault(properties=bad).field == "properties"


def test_an_expiry_is_a_moment_whatever_its_time_zone() -> None:
    noon = datetime(2030, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=-7)))
    first = datetime(1, 1, 1, tzinfo=UTC)
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    columns = columns_of(
        *(Message(recipient="a", data=b"", expires_at=time) for time in (noon, there, None, first, last))
    )
    assert columns.expires_at.tolist()[:3] == [1893499200000001, 1893499200000001, NEVER]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [epoch + timedelta(microseconds=time) for time in columns.expires_at.tolist()[3:]] == [first, last]


@pytest.mark.parametrize(
    "bad",
    [
        datetime.fromisoformat("2030-01-01"),
        date(2030, 1, 1),
        "2030-01-01T00:00:00Z",
        1893456000,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_an_expiry_that_is_no_aware_time_is_a_fault(bad: object) -> None:
    assert only_fault(expires_at=bad).field == "expires_at"


def test_an_expiry_that_pandas_calls_not_a_time_is_a_fault() -> None:
    pandas = pytest.importorskip("pandas")
    assert only_fault(expires_at=pandas.NaT).field == "expires_at"


@pytest.mark.parametrize(
    "field", [{"sequence_number": 1}, {"published_at": 0}, {"collected_at": 0}, {"state": State.WAITING}]
)
def test_a_read_only_field_sent_back_is_a_fault_that_names_it(field: dict[str, object]) -> None:
    assert only_fault(**field).field == next(iter(field))


def test_one_message_may_have_several_faults_and_each_is_named_with_the_id() -> None:
    bad = Message(recipient="", id=ID.upper(), data=b"", weight=0, kind="", state=State.WAITING)
    faults = faults_of(Message(recipient="anna", data=b""), bad)
    assert [(fault.index, fault.field, fault.id) for fault in faults] == [
        (1, "recipient", ID),
        (1, "kind", ID),
        (1, "weight", ID),
        (1, "state", ID),
    ]


def test_a_faulty_row_holds_harmless_values() -> None:
    sent = [Message(recipient="\ud800", id="..", origin="", data=object(), weight=0, properties={"a": "x" * 2**14})]
    columns, faults = from_messages(sent, claim_check_origins=())
    assert len(faults) == 6
    assert columns.recipient.to_array().to_pylist() == ["default"]
    assert uuid_texts(columns.id) == [str(UUID(int=0))]
    assert not columns.made_id.any()
    assert (columns.weight.tolist(), columns.data.to_pylist(), columns.properties.to_pylist()) == ([1], [b""], [b""])


@pytest.mark.parametrize("senseless", [5, {1, 2}, ["anna"], [None], iter(())])
def test_what_is_no_sequence_of_messages_makes_no_sense(senseless: Any) -> None:
    with pytest.raises(InvalidRequest, match="Message"):
        from_messages(senseless, claim_check_origins=None)


def test_a_send_has_a_largest_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEND_MESSAGES_MAX", 3)
    assert len(columns_of(*[message()] * 3)) == 3
    with pytest.raises(InvalidRequest, match="4 messages are too many"):
        faults_of(*[message()] * 4)


def test_a_send_has_a_largest_number_of_bytes() -> None:
    large = message(data=bytes(2**20))
    with pytest.raises(InvalidRequest, match="too much for one send"):
        faults_of(*[large] * 64)
    assert columns_of(*[large] * 63)


@unhurried
@given(st.lists(st.one_of(messages().map(lambda good: (good, "")), spoilt()), max_size=8))
def test_every_fault_names_the_right_message_and_field(mixed: list[tuple[Message, str]]) -> None:
    columns, faults = from_messages([sent for sent, _ in mixed], claim_check_origins=None)
    assert len(columns) == len(mixed)
    expected = [(index, field) for index, (_, field) in enumerate(mixed) if field]
    assert [(fault.index, fault.field) for fault in faults] == expected


@unhurried
@given(st.text(), st.text(), st.text(), st.dictionaries(st.text(), st.text(), max_size=3))
def test_no_text_whatever_makes_the_hub_stumble(one: str, two: str, three: str, properties: dict[str, str]) -> None:
    sent = Message(
        recipient=one,
        id=two,
        origin=three,
        kind=two,
        media_type=one,
        properties=properties,
        data=three,
        document_type=two,
    )
    columns, _ = from_messages([sent, Message(recipient="anna", data=b"")], claim_check_origins=())
    assert columns.recipient.to_array().to_pylist()[1] == "anna"


def test_made_ids_are_version_7_ascend_and_leave_given_ones_alone() -> None:
    columns = columns_of(*(Message(recipient="a", data=b"", id=ID if n == 1 else None) for n in range(2000)))
    assert columns.made_id.sum() == 1999
    filled = fill_made_ids(columns, now_ms=1_893_456_000_123, random=b"\xff" * (1999 * RANDOM_BYTES_PER_ID))
    texts = uuid_texts(filled.id)
    assert texts[1] == ID
    made = [UUID(text) for text in texts[:1] + texts[2:]]
    assert all(value.version == 7 and value.variant == "specified in RFC 4122" for value in made)
    assert {value.int >> 80 for value in made} == {1_893_456_000_123}
    assert made == sorted(set(made))
    assert filled.made_id.tolist() == columns.made_id.tolist()


def test_ids_made_in_one_millisecond_differ_by_their_randomness() -> None:
    columns = columns_of(Message(recipient="a", data=b""))
    ids = {
        uuid_texts(fill_made_ids(columns, now_ms=1, random=bytes(place) + b"\x01" + bytes(7 - place)).id)[0]
        for place in range(8)
    }
    assert len(ids) == 8


@unhurried
@given(st.lists(st.lists(messages(), max_size=4), max_size=4), st.data())
def test_concat_and_take_are_those_of_the_rows(parts: list[list[Message]], data: st.DataObject) -> None:
    whole = concat([columns_of(*part) for part in parts])
    rows = [row for part in parts for row in listed(columns_of(*part))]
    assert listed(whole) == rows
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    taken = whole.take(np.array(chosen, np.int64))
    assert listed(taken) == [rows[row] for row in chosen]
    for texts in (taken.recipient, taken.origin, taken.kind, taken.document_type, taken.media_type):
        assert sorted(set(texts.codes.tolist())) == list(range(len(texts.values)))
        assert len(set(texts.values.to_pylist())) == len(texts.values)
