"""A hub on a backplane in memory: what goes through it, once, in order, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from restante import Message
from restante.assembly import open_hub
from restante.calls.batches import OpenBatch
from restante.calls.mailboxes import ReadHistory
from restante.calls.publishing import Publish
from restante.errors import DataDamaged, InvalidOperation, InvalidRequest, InvalidSettings, MessageConflict, Unavailable
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.door.hub import OpenHub
from restante.model.backplane.accept import Accept
from restante.model.backplane.record import decode_record, encode_columns, encode_letters
from restante.model.columns.texts import Texts
from restante.model.publishing import intake
from restante.model.publishing.letters import letter_of
from restante.settings import BackplaneSettings, Settings
from restante.stores.memory import MemoryStore
from tests.backplane.memory_backplane import MemoryBackplane

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, backplane=BackplaneSettings(stored_seconds=5))


@contextmanager
def opened(backplane: MemoryBackplane | None, store: MemoryStore | None = None) -> Iterator[OpenHub]:
    hub = open_hub(None, settings=SETTINGS, store=store or MemoryStore(), backplane=backplane)
    try:
        yield hub
    finally:
        hub.close()


def history(hub: OpenHub, recipient: str) -> list[Message]:
    return list(hub.call(ReadHistory(recipient, limit=1_000)).messages)


def until_stored(hub: OpenHub, messages: int) -> None:
    """Wait until the owner has stored so many."""
    done = threading.Event()
    totals = hub.core.memory(BackplaneMemory).totals
    while totals.messages < messages:
        assert not done.wait(0.01)


def letters(*messages: Message) -> bytes:
    found = [letter_of(message, claim_check_origins=None) for message in messages]
    return encode_letters([letter for letter in found if letter is not None], bytes(16), 0)


def test_a_publish_is_answered_when_its_owner_has_stored_it() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        receipt = hub.call(Publish.of([Message(recipient=f"r{n}", data={"n": n}) for n in range(8)]))
        assert (receipt.accepted, receipt.duplicates, receipt.stored) == (8, 0, True)
        assert sum(own.last_sequence_number - own.first_sequence_number + 1 for own in receipt.partitions) == 8
        assert [message.data for n in range(8) for message in history(hub, f"r{n}")] == [{"n": n} for n in range(8)]
        assert sum(ends.next for ends in backplane.ends(range(4)).values()) == len(receipt.partitions)


def test_columns_go_through_as_columns_and_are_cut_to_records() -> None:
    backplane = MemoryBackplane(4, record_bytes_max=64 * 1024)
    table = pa.table({"recipient": [f"r{n % 40}" for n in range(4_000)], "data": [b"x" * 200] * 4_000})
    with opened(backplane) as hub:
        receipt = hub.call(Publish.of(table))
        assert receipt.accepted == 4_000
        assert [len(history(hub, f"r{n}")) for n in range(40)] == [100] * 40
        records = sum(ends.next for ends in backplane.ends(range(4)).values())
        assert records >= 4_000 * 200 // (64 * 1024)
        numbers = [(own.partition, own.first_sequence_number) for own in receipt.partitions]
        assert numbers == sorted(numbers)


def test_accepted_is_answered_by_the_log_alone() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        receipt = hub.call(Publish.of(Message(recipient="ada", text="hello"), accept=Accept.ACCEPTED))
        assert (receipt.accepted, receipt.stored, receipt.partitions) == (1, False, ())
        assert [own.messages for own in receipt.positions] == [1]
        until_stored(hub, 1)
        assert [message.text for message in history(hub, "ada")] == ["hello"]


def test_accepted_needs_a_backplane() -> None:
    with opened(None) as hub, pytest.raises(InvalidRequest, match=r"backplane\.topic"):
        hub.call(Publish.of(Message(recipient="ada"), accept=Accept.ACCEPTED))


def test_a_conflict_is_told_to_its_sender_and_kept_as_poison() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        hub.call(Publish.of(Message(recipient="ada", id="one", text="first")))
        with pytest.raises(MessageConflict) as caught:
            hub.call(
                Publish.of(
                    [Message(recipient="bob", text="fine"), Message(recipient="ada", id="one", text="other")],
                )
            )
        assert [fault.index for fault in caught.value.faults] == [1]
        assert [message.text for message in history(hub, "ada")] == ["first"]
        assert hub.core.memory(BackplaneMemory).totals.refused == 1
        hub.call(Publish.of(Message(recipient="ada", text="next")))
        assert [message.text for message in history(hub, "ada")] == ["first", "next"]


def test_the_same_ids_again_are_duplicates() -> None:
    with opened(MemoryBackplane(4)) as hub:
        sent = Publish.of([Message(recipient="ada", id=f"m{n}", data=n) for n in range(3)])
        assert hub.call(sent).accepted == 3
        again = hub.call(sent)
        assert (again.accepted, again.duplicates) == (0, 3)


def test_what_is_no_record_is_poison_and_blocks_nothing() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        place = hub.locate("ada").partition
        other = next(f"r{n}" for n in range(100) if hub.locate(f"r{n}").partition != place)
        for content in (b"", b"RBr1 and then nonsense that is long enough for a head and a sum", letters(_made(other))):
            backplane.produce(place, content, lambda _: None)
        hub.call(Publish.of(Message(recipient="ada", text="after")))
        assert hub.core.memory(BackplaneMemory).totals.refused == 3
        assert [message.text for message in history(hub, "ada")] == ["after"]
        assert history(hub, other) == []


def _made(recipient: str) -> Message:
    return Message(recipient=recipient, id="0190a0b0-0000-7000-8000-000000000001", text="x")


def test_a_new_owner_begins_where_the_store_ends() -> None:
    backplane, store = MemoryBackplane(4), _Kept()
    with opened(backplane, store) as hub:
        hub.call(Publish.of([Message(recipient=f"r{n}", data=n) for n in range(20)]))
        place = hub.locate("ada").partition
    backplane.produce(place, letters(_made("ada")), lambda _: None)
    with opened(backplane, store) as hub:
        until_stored(hub, 1)
        assert hub.core.memory(BackplaneMemory).totals.records == 1
        assert [len(history(hub, f"r{n}")) for n in range(20)] == [1] * 20
        assert [message.text for message in history(hub, "ada")] == ["x"]


def test_a_copy_of_a_record_is_stored_once() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        place = hub.locate("ada").partition
        for _ in range(3):
            backplane.produce(place, letters(_made("ada")), lambda _: None)
        hub.call(Publish.of(Message(recipient="ada", text="after")))
        assert [message.text for message in history(hub, "ada")] == ["x", "after"]
        assert hub.core.memory(BackplaneMemory).totals.duplicates == 2


def test_a_log_that_was_made_again_is_not_skipped_in_silence() -> None:
    store = _Kept()
    with opened(MemoryBackplane(4), store) as hub:
        hub.call(Publish.of([Message(recipient=f"r{n}", data=n) for n in range(20)]))
    with pytest.raises(InvalidOperation, match="made again"), opened(MemoryBackplane(4), store):
        pass


def test_a_log_that_answers_late_is_looked_at_before_anything_is_handed_in() -> None:
    backplane = MemoryBackplane(4)
    backplane.away = "no broker"
    with opened(backplane) as hub:
        with pytest.raises(Unavailable, match="not looked at"):
            hub.call(Publish.of(Message(recipient="ada"), accept=Accept.ACCEPTED))
        backplane.away = None
        while hub.core.memory(BackplaneMemory).unfit is not None:
            assert not threading.Event().wait(0.01)
        assert hub.call(Publish.of(Message(recipient="ada", text="hello"))).accepted == 1


def test_other_partitions_than_the_hub_has_are_an_error_at_start() -> None:
    for partitions in (2, 8):
        with pytest.raises(InvalidSettings, match="partitions"), opened(MemoryBackplane(partitions)):
            pass


def test_while_the_log_is_away_publishers_are_told_to_come_back() -> None:
    backplane = MemoryBackplane(4)
    with opened(backplane) as hub:
        backplane.away = "no broker"
        with pytest.raises(Unavailable) as caught:
            hub.call(Publish.of(Message(recipient="ada", text="hello")))
        assert caught.value.details["retry_after"] == 1
        backplane.away = None
        assert hub.call(Publish.of(Message(recipient="ada", text="hello"))).accepted == 1


def test_what_the_hubs_own_state_decides_goes_straight() -> None:
    backplane = MemoryBackplane(4, record_bytes_max=64 * 1024)
    with opened(backplane) as hub:
        batch = hub.call(OpenBatch()).id
        later = datetime.now(UTC) + timedelta(hours=1)
        for sent in (
            Publish.of(Message(recipient="ada", text="in a batch"), batch=batch),
            Publish.of(Message(recipient="ada", text="sourced", source_position=1), source="s"),
            Publish.of(Message(recipient="ada", text="later", visible_at=later)),
            Publish.of(Message(recipient="ada", data=b"x" * 100_000)),
        ):
            assert hub.call(sent).accepted == 1
            with pytest.raises(InvalidRequest):
                hub.call(Publish(sent.sent, batch=sent.batch, source=sent.source, accept=Accept.ACCEPTED))
        assert all(ends.next == 0 for ends in backplane.ends(range(4)).values())


def test_messages_of_one_recipient_are_stored_in_the_order_of_the_log() -> None:
    with opened(MemoryBackplane(4)) as hub:
        for n in range(50):
            hub.call(Publish.of(Message(recipient="ada", data=n), accept=Accept.ACCEPTED))
        table = pa.table({"recipient": ["ada"] * 200, "data": [str(n).encode() for n in range(50, 250)]})
        hub.call(Publish.of(table))
        found = history(hub, "ada")
        assert [message.data for message in found[:50]] == list(range(50))
        assert [message.data for message in found[50:]] == [str(n).encode() for n in range(50, 250)]


class _Kept(MemoryStore):
    """A store in memory that outlives the hub."""

    def close(self) -> None:
        """Its content is for the next hub."""


@pytest.mark.parametrize("distinct", [False, True], ids=["few-names", "all-names-differ"])
def test_no_record_is_larger_than_the_log_takes_and_hardly_one_smaller_than_it_could_be(distinct: bool) -> None:
    backplane = MemoryBackplane(4, record_bytes_max=100_000)
    count = 5_000
    names = [f"n{n}" if distinct else "n" for n in range(count)]
    table = pa.table(
        {
            "recipient": [f"r{n}" for n in range(count)],
            "origin": names,
            "kind": names,
            "document_type": names,
            "media_type": [f"text/{name}" for name in names],
            "data": [b"x" * (n % 200) for n in range(count)],
        }
    )
    with opened(backplane) as hub:
        assert hub.call(Publish.of(table)).accepted == count
    records = backplane.reader(dict.fromkeys(range(4), 0)).take(1_000, 0)
    sizes = [len(record.content) for record in records]
    assert max(sizes) <= 100_000
    assert sum(size > 60_000 for size in sizes) >= len(sizes) - 4, "all but the last of a partition are well filled"


def test_texts_that_no_door_wrote_are_no_record() -> None:
    columns = intake.from_messages(
        [Message(recipient="a", data=1), Message(recipient="b", data=2)], claim_check_origins=None
    )[0]
    with_ids = intake.fill_made_ids(columns, now_ms=0, random=bytes(1_000))
    wrong = replace(with_ids, recipient=Texts(np.array([0, 7], np.int32), pa.array(["a", "b"])))
    with pytest.raises(DataDamaged, match="a text is missing"):
        decode_record(encode_columns(wrong, bytes(16), 0))
    assert len(decode_record(encode_columns(with_ids, bytes(16), 0)).content) == 2
