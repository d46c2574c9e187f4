"""Publishing: what a send stores, what it skips as a duplicate, what it refuses, and that it is whole or nothing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from restante import errors
from restante.client.surface.surface import Hub
from restante.limits import DATA_BYTES_MAX, KIB, SEND_MESSAGES_MAX, WEIGHT_KIB_MAX
from restante.model.publishing.message import Message, State
from restante.ports.content import Content, OriginPort
from tests.hub.conftest import HubOpener
from tests.hub.engines import FakeClock, WireHub
from tests.hub.letters import (
    at,
    claim,
    history,
    id_of,
    letter,
    letters,
    not_for_the_reference,
    numbers_of,
    peeked,
    sequence_numbers,
    taken,
)

DELIVERING = {"charges": OriginPort(content=lambda request: Content(data=b"content"))}


def find(hub: Hub, number: int, recipient: str = "ada") -> Message:
    return hub.recipient(recipient).find(id_of(number))


# What is stored.


def test_a_message_is_shown_as_it_was_sent_with_its_defaults(hub: Hub) -> None:
    hub.producer.send(Message(recipient="ada", data=b"hello", id=id_of(1)))
    found = find(hub, 1)
    assert found == Message(
        recipient="ada",
        data=b"hello",
        id=id_of(1),
        origin="default",
        kind="default",
        document_type="default",
        weight=1,
        bundleable=True,
        media_type="application/octet-stream",
        sequence_number=found.sequence_number,
        published_at=at(0),
        state=State.WAITING,
    )


def test_everything_that_a_sender_says_is_kept(hub: Hub) -> None:
    sent = Message(
        recipient="ada",
        data="<price/>",
        text="<price/>",
        id=id_of(1),
        origin="charges",
        kind="price list",
        document_type="PriceList",
        weight=7,
        bundleable=False,
        media_type="text/xml",
        properties={"process": "D08", "empty": ""},
        expires_at=at(60),
    )
    hub.producer.send([sent])
    found = find(hub, 1)
    own = {"sequence_number": None, "published_at": None, "state": None}
    assert msgspec.structs.replace(found, **own) == sent


@pytest.mark.parametrize("value", [{"a": [1, 2.5, "x", None, True]}, [], "text", 17, None])
def test_a_json_value_comes_back_as_it_was_sent(hub: Hub, value: object) -> None:
    media_type = "application/json" if isinstance(value, str) else None
    hub.producer.send(letter(1, data=value, media_type=media_type))
    assert find(hub, 1).data == value
    assert find(hub, 1).media_type == "application/json"
    assert peeked(hub).messages[0].data == value


@pytest.mark.parametrize(("size", "weight"), [(0, 1), (1, 1), (KIB, 1), (KIB + 1, 2), (10 * KIB, 10)])
def test_the_default_weight_is_the_data_rounded_up_to_kib(hub: Hub, size: int, weight: int) -> None:
    hub.producer.send(letter(1, data=b"x" * size))
    assert find(hub, 1).weight == weight


def test_the_hub_makes_ids_for_those_that_have_none(hub: Hub) -> None:
    hub.producer.send([Message(recipient="ada", data=b""), Message(recipient="ada", data=b"")])
    ids = {message.id for message in hub.recipient("ada").history().messages}
    assert len(ids) == 2
    assert all(UUID(message_id).version in (4, 7) for message_id in ids if message_id)


def test_ids_may_be_given_in_any_case_and_are_shown_in_lower_case(hub: Hub) -> None:
    text = "ABCDEF00-0000-4000-8000-00000000000A"
    hub.producer.send(Message(recipient="ada", data=b"", id=text))
    assert hub.recipient("ada").find(text).id == text.lower()


def test_a_send_of_nothing_is_no_error(hub: Hub) -> None:
    receipt = hub.producer.send([])
    assert (receipt.accepted, receipt.duplicates, receipt.partitions) == (0, 0, ())


# Order and numbers.


def test_sequence_numbers_follow_the_order_of_arrival(hub: Hub) -> None:
    for number in range(5):
        hub.producer.send([letter(2 * number, kind="a"), letter(2 * number + 1, kind="b")])
    messages = hub.recipient("ada").history().messages
    assert numbers_of(messages) == list(range(10))
    assert sequence_numbers(messages) == sorted(set(sequence_numbers(messages)))


def test_the_numbers_of_one_send_are_contiguous_and_told_in_its_receipt(hub: Hub) -> None:
    hub.producer.send(letters(range(3)))
    (receipt,) = hub.producer.send(letters(range(3, 8))).partitions
    numbers = sequence_numbers(hub.recipient("ada").history().messages)[3:]
    assert numbers == list(range(receipt.first_sequence_number, receipt.last_sequence_number + 1))
    assert receipt.partition == hub.partition_of("ada")


def test_a_send_to_many_recipients_tells_each_partition_once(hub: Hub) -> None:
    receipt = hub.producer.send([letter(1, recipient) for recipient in ("ada", "ben", "cleo", "dora")])
    extents = {one.partition: one.last_sequence_number - one.first_sequence_number + 1 for one in receipt.partitions}
    assert receipt.accepted == 4
    assert extents == {0: 2, 1: 2}


def test_a_recipient_belongs_to_the_partition_of_its_fnv_hash(hub: Hub) -> None:
    assert [hub.partition_of(recipient) for recipient in ("ada", "ben", "cleo", "dora")] == [1, 0, 0, 1]


# Columns.

COLUMNS: dict[str, list[Any]] = {
    "recipient": ["ada", "ada", "ben"],
    "id": [id_of(1), id_of(2), id_of(3)],
    "data": [b"one", b"two", b"three"],
    "kind": ["a", None, "a"],
}


@pytest.mark.parametrize("frame", [pa.table, pl.DataFrame, pd.DataFrame])
def test_tables_and_frames_are_sent_as_columns(hub: Hub, frame: Any) -> None:
    receipt = hub.producer.send(frame(COLUMNS))
    assert receipt.accepted == 3
    assert [find(hub, number).data for number in (1, 2)] == [b"one", b"two"]
    assert [find(hub, number).kind for number in (1, 2)] == ["a", "default"]
    assert find(hub, 3, "ben").data == b"three"


def test_ids_in_columns_may_be_sixteen_bytes(hub: Hub) -> None:
    ids = pa.array([UUID(int=1).bytes, UUID(int=2).bytes], pa.binary(16))
    hub.producer.send(pa.table({"recipient": ["ada", "ada"], "id": ids, "data": [b"one", b"two"]}))
    assert history(hub) == [(1, State.WAITING), (2, State.WAITING)]


def test_the_same_messages_as_values_and_as_columns_are_duplicates(hub: Hub) -> None:
    hub.producer.send([Message(recipient="ada", id=id_of(1), data=b"one", kind="a")])
    receipt = hub.producer.send(pa.table({"recipient": ["ada"], "id": [id_of(1)], "data": [b"one"], "kind": ["a"]}))
    assert (receipt.accepted, receipt.duplicates) == (0, 1)


def test_an_unknown_column_is_refused_by_its_name(hub: Hub) -> None:
    not_for_the_reference(hub, "it looks at no column it does not know")
    with pytest.raises(errors.InvalidRequest, match="colour"):
        hub.producer.send(pa.table({"recipient": ["ada"], "data": [b""], "colour": ["red"]}))


# Duplicates and conflicts.


def test_the_same_message_again_is_skipped_and_the_first_stays(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letter(1, document_type="First"))
    clock.advance(5)
    receipt = hub.producer.send(letter(1, document_type="Second", properties={"other": "yes"}, expires_at=at(9)))
    assert (receipt.accepted, receipt.duplicates, receipt.partitions) == (0, 1, ())
    found = find(hub, 1)
    assert (found.document_type, found.properties, found.expires_at, found.published_at) == ("First", {}, None, at(0))


def test_duplicates_within_one_send_are_skipped(hub: Hub) -> None:
    receipt = hub.producer.send([letter(1), letter(2), letter(1), letter(1)])
    assert (receipt.accepted, receipt.duplicates) == (2, 2)
    assert history(hub) == [(1, State.WAITING), (2, State.WAITING)]


def test_new_messages_beside_duplicates_are_stored(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    receipt = hub.producer.send(letters([2, 3, 1, 4]))
    assert (receipt.accepted, receipt.duplicates) == (2, 2)
    assert taken(hub) == [1, 2, 3, 4]


def test_a_send_repeated_with_duplicates_inside_is_all_duplicates(hub: Hub) -> None:
    hub.producer.send([letter(1, data=b"other"), letter(2), letter(3)])
    receipt = hub.producer.send([letter(1, data=b"other"), letter(3), letter(1, data=b"other")])
    assert (receipt.accepted, receipt.duplicates) == (0, 3)


def test_a_conflict_among_duplicates_is_not_taken_for_one_of_them(hub: Hub) -> None:
    hub.producer.send([letter(1, data=b"one"), letter(2, data=b"two"), letter(3, data=b"one")])
    with pytest.raises(errors.MessageConflict) as caught:
        hub.producer.send([letter(1, data=b"one"), letter(1, data=b"two"), letter(3, data=b"one")])
    assert {fault.id for fault in caught.value.faults} == {id_of(1)}


DIFFERENCES: list[dict[str, Any]] = [
    {"origin": "points"},
    {"kind": "other"},
    {"bundleable": False},
    {"weight": 2},
    {"data": b"other"},
]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: next(iter(difference)))
def test_an_id_with_other_content_is_a_conflict_that_names_it(hub: Hub, difference: dict[str, Any]) -> None:
    hub.producer.send(letter(1))
    with pytest.raises(errors.MessageConflict) as caught:
        hub.producer.send([letter(2), letter(1, **difference)])
    assert [(fault.index, fault.id) for fault in caught.value.faults] == [(1, id_of(1))]
    assert history(hub) == [(1, State.WAITING)]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: next(iter(difference)))
def test_a_conflict_within_one_send_stores_nothing(hub: Hub, difference: dict[str, Any]) -> None:
    with pytest.raises(errors.MessageConflict) as caught:
        hub.producer.send([letter(1), letter(2), letter(1, **difference)])
    assert {fault.id for fault in caught.value.faults} == {id_of(1)}
    assert history(hub) == []


def test_empty_data_and_a_claim_check_are_different_content(open_hub: HubOpener) -> None:
    hub = open_hub(origins=DELIVERING)
    hub.producer.send(letter(1, origin="charges", data=b"", weight=1))
    with pytest.raises(errors.MessageConflict):
        hub.producer.send(claim(1, origin="charges", weight=1))


def test_one_id_may_go_to_many_recipients(hub: Hub) -> None:
    receipt = hub.producer.send([letter(1, "ada"), letter(1, "ben", data=b"other"), letter(1, "dora")])
    assert (receipt.accepted, receipt.duplicates) == (3, 0)
    assert find(hub, 1, "ben").data == b"other"


@pytest.mark.parametrize("settle", ["dequeue", "withdraw", "set_aside", "expire"])
def test_an_identity_outlives_the_settling_of_its_message(hub: Hub, clock: FakeClock, settle: str) -> None:
    hub.producer.send(letter(1, expires_at=at(5)))
    if settle == "dequeue":
        taken(hub)
    elif settle == "expire":
        clock.advance(6)
        hub.expire()
    else:
        getattr(hub.recipient("ada"), settle)(id_of(1))
    assert hub.producer.send(letter(1)).duplicates == 1
    with pytest.raises(errors.MessageConflict):
        hub.producer.send(letter(1, data=b"other"))


# Refusals.

FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("recipient", {"recipient": ""}),
    ("recipient", {"recipient": " \t"}),
    ("recipient", {"recipient": "r" * 257}),
    ("origin", {"origin": ""}),
    ("origin", {"origin": "o" * 65}),
    ("kind", {"kind": "  "}),
    ("kind", {"kind": "k" * 257}),
    ("document_type", {"document_type": ""}),
    ("id", {"id": ".."}),
    ("id", {"id": "i" * 257}),
    ("weight", {"weight": 0}),
    ("weight", {"weight": -1}),
    ("weight", {"weight": WEIGHT_KIB_MAX + 1}),
    ("weight", {"weight": 1, "data": b"x" * (KIB + 1)}),
    ("data", {"data": b"x" * (DATA_BYTES_MAX + 1)}),
]


@pytest.mark.parametrize(("field", "fault"), FAULTS, ids=[f"{field}-{n}" for n, (field, _) in enumerate(FAULTS)])
def test_a_bad_message_is_named_by_index_and_field_and_nothing_is_stored(
    hub: Hub, field: str, fault: dict[str, Any]
) -> None:
    bad = msgspec.structs.replace(letter(2), **fault)
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send([letter(1), bad, letter(3)])
    assert [(one.index, one.field) for one in caught.value.faults] == [(1, field)]
    assert history(hub) == []


def test_every_bad_message_is_named(hub: Hub) -> None:
    sent = [letter(0), letter(1, kind=""), letter(2), letter(3, weight=0), letter(4, origin="")]
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send(sent)
    assert [fault.index for fault in caught.value.faults] == [1, 3, 4]


def test_the_largest_of_everything_is_taken(hub: Hub) -> None:
    largest = letter(
        1,
        "r" * 256,
        origin="o" * 64,
        kind="k" * 256,
        document_type="d" * 256,
        data=b"x" * DATA_BYTES_MAX,
        weight=WEIGHT_KIB_MAX,
    )
    assert hub.producer.send(largest).accepted == 1
    assert peeked(hub, "r" * 256).messages[0].data == b"x" * DATA_BYTES_MAX


def test_too_many_messages_in_one_send_to_a_partition_are_refused(hub: Hub) -> None:
    not_for_the_reference(hub, "it takes any number")
    count, partition = SEND_MESSAGES_MAX + 1, hub.partition_of("ada")
    with pytest.raises(errors.InvalidRequest, match="more than one request holds"):
        hub.producer.send(
            pa.table({"recipient": pa.repeat("ada", count), "data": pa.repeat(b"", count)}), partition=partition
        )


def test_a_claim_check_needs_an_origin_that_delivers(hub: Hub) -> None:
    with pytest.raises(errors.InvalidMessage):
        hub.producer.send(claim(1, origin="charges"))


def test_a_parcel_to_one_partition_is_for_its_recipients_only(hub: Hub) -> None:
    partition = hub.partition_of("ada")
    with pytest.raises(errors.PartitionMismatch) as caught:
        hub.producer.send([letter(1, "ada"), letter(2, "ben")], partition=partition)
    assert [fault.index for fault in caught.value.faults] == [1]
    assert hub.producer.send([letter(1, "ada"), letter(2, "dora")], partition=partition).accepted == 2


def test_a_parcel_to_no_partition_is_refused(hub: Hub) -> None:
    for partition in (-1, 2):
        with pytest.raises(errors.PartitionUnknown):
            hub.producer.send(letter(1), partition=partition)


def test_conflicts_and_erased_messages_together_are_refused_as_invalid(hub: Hub) -> None:
    hub.producer.send([letter(1, "ben")])
    hub.recipient("ben").erase()
    hub.producer.send([letter(2, "ada")])
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send([letter(1, "ben"), letter(2, "ada", data=b"other")])
    assert {fault.code for fault in caught.value.faults} == {"message_erased", "message_conflict"}


def _told(caught: pytest.ExceptionInfo[errors.InvalidMessage]) -> list[tuple[int, str]]:
    return [(fault.index, fault.code) for fault in caught.value.faults]


@pytest.mark.parametrize("more", [0, 200], ids=["few", "many"])
def test_an_invalid_message_hides_neither_conflicts_nor_mismatches(hub: Hub, more: int) -> None:
    partition = hub.partition_of("ada")
    hub.producer.send([letter(1), letter(2)])
    sent = [
        letter(3, kind=" "),
        letter(1, data=b"other"),
        letter(4, "ben"),
        letter(5),
        letter(5, data=b"other"),
        letter(6, "ben", weight=0),
        letter(2),
        *letters(range(10, 10 + more)),
    ]
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send(sent, partition=partition)
    wrong = [
        (0, "invalid_message"),
        (1, "message_conflict"),
        (2, "partition_mismatch"),
        (4, "message_conflict"),
        (5, "invalid_message"),
        (5, "partition_mismatch"),
    ]
    # A client judges many messages by the rules before it sends them: then the hub has not seen any.
    unseen = bool(more) and isinstance(hub, WireHub)
    assert _told(caught) == [fault for fault in wrong if fault[1] == "invalid_message" or not unseen]
    assert history(hub) == [(1, State.WAITING), (2, State.WAITING)]


@pytest.mark.parametrize("more", [0, 200], ids=["few", "many"])
def test_a_mismatch_hides_no_conflict(hub: Hub, more: int) -> None:
    hub.producer.send(letter(1))
    sent = [letter(1, data=b"other"), letter(2, "ben"), *letters(range(10, 10 + more))]
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send(sent, partition=hub.partition_of("ada"))
    assert _told(caught) == [(0, "message_conflict"), (1, "partition_mismatch")]


@pytest.mark.parametrize("more", [0, 200], ids=["few", "many"])
def test_a_conflict_with_what_is_stored_hides_none_within_the_send(hub: Hub, more: int) -> None:
    hub.producer.send(letter(1))
    sent = [letter(1, data=b"other"), letter(2), letter(2, data=b"other"), *letters(range(10, 10 + more))]
    with pytest.raises(errors.MessageConflict) as caught:
        hub.producer.send(sent)
    assert [fault.index for fault in caught.value.faults] == [0, 2]


def test_a_faulty_message_with_no_say_in_its_content_is_still_in_conflict(hub: Hub) -> None:
    not_for_the_reference(hub, "it names one fault of a message")
    hub.producer.send(letter(1))
    with pytest.raises(errors.InvalidMessage) as caught:
        hub.producer.send(letter(1, data=b"other", document_type=" "))
    assert _told(caught) == [(0, "invalid_message"), (0, "message_conflict")]
