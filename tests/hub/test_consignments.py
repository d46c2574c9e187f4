"""Consignments in the hub: what is staged is seen by nobody, and the commit shows all of it at once, each message once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from restante import limits
from restante.assembly import open_hub, open_store
from restante.calls.batches import ReadBatch, ReapBatches, SealBatch
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.calls.mailboxes import Dequeue, Explain, ListPartitions, ListRecipients, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, FileNow, RetainNow
from restante.errors import (
    BatchSealed,
    BatchUnknown,
    ConsignmentClosed,
    ConsignmentIncomplete,
    ConsignmentUnknown,
    InvalidClientState,
    InvalidMessage,
    InvalidRequest,
    MessageConflict,
    MessageErased,
    OutcomeUnknown,
    StorageFull,
)
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.hub.engine.core import Pins
from restante.model.batches.batch_answers import BatchState
from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, Winner
from restante.model.mailboxes.answers import BundleAnswer, Reason, Receipt
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.message import Message
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.model.storage.keys import number_key
from restante.model.storage.partition import partition_of
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.hub.engines import START, FakeClock

_QUIET = Settings(partition_count=4, housekeeping_seconds=0, filing=False)
_DAY = 86_400

Opener = Callable[..., OpenHub]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Opener]:
    """Opens the hub, having closed the one it gave before; at the end the doctor looks at what is stored."""
    hubs: list[OpenHub] = []
    store = MemoryStore()

    def opener(settings: Settings = _QUIET) -> OpenHub:
        nonlocal store
        for hub in hubs:
            hub.close()
        if request.param == "sqlite":
            hubs.append(open_hub(tmp_path, settings=settings, clock=clock))
        else:
            store = store.survivor()
            hubs.append(open_hub(None, settings=settings, clock=clock, store=store))
        return hubs[-1]

    yield opener
    for hub in hubs:
        hub.close()
    if hubs:
        left = open_store(tmp_path) if request.param == "sqlite" else store.survivor()
        report = examine(left)
        left.close()
        assert report.findings == ()


@pytest.fixture
def hub(reopen: Opener) -> OpenHub:
    return reopen()


def letter(number: int, recipient: str = "ann", *, data: object = None) -> Message:
    return Message(id=str(uuid.UUID(int=number)), recipient=recipient, data=number if data is None else data)


def letters(numbers: Sequence[int], recipient: str = "ann") -> list[Message]:
    return [letter(number, recipient) for number in numbers]


def staged(hub: OpenHub, key: str = "night", **writers: Sequence[Message]) -> str:
    consignment = hub.call(BeginConsignment(key)).id
    for writer, messages in writers.items():
        hub.call(StageParcel.of(consignment, list(messages), writer=writer, attempt=0, parcel=0))
    return consignment


def winners(*named: tuple[str, int], attempt: int = 0) -> list[Winner]:
    return [Winner(writer=writer, attempt=attempt, messages=messages) for writer, messages in named]


def shown(hub: OpenHub, recipient: str = "ann") -> list[object]:
    return [message.data for message in hub.call(ReadHistory(recipient)).messages]


def shown_all(hub: OpenHub) -> list[object]:
    return [message.data for message in hub.call(ReadHistory("ann", limit=1_000)).messages]


def bundle(hub: OpenHub, recipient: str = "ann") -> list[object]:
    answer = hub.call(Peek(recipient))
    return [] if isinstance(answer, Reason) else [message.data for message in to_messages(answer.table)]


def test_what_is_staged_is_seen_by_nobody(hub: OpenHub, reopen: Opener) -> None:
    staged(hub, a=letters([1, 2]))
    for again in (False, True):
        one = reopen() if again else hub
        assert one.call(Peek("ann")) is Reason.RECIPIENT_UNKNOWN
        assert shown(one) == []
        assert one.call(Explain("ann")).reason is Reason.RECIPIENT_UNKNOWN
        assert [(p.visible_sequence, p.waiting, p.unfiled) for p in one.call(ListPartitions())] == [(0, 0, 0)] * 4
        assert one.call(ListRecipients()).recipients == ()


def test_a_commit_shows_all_of_it_in_the_order_of_the_writers_and_of_their_parcels(
    hub: OpenHub, clock: FakeClock
) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    for writer, parcel, numbers in (("b", 1, [5, 6]), ("a", 0, [1, 2]), ("b", 0, [3, 4])):
        assert (
            hub.call(StageParcel.of(consignment, letters(numbers), writer=writer, attempt=7, parcel=parcel)).staged == 2
        )
    clock.advance(60)
    receipt = hub.call(CommitConsignment(consignment, winners(("b", 4), ("a", 2), attempt=7)))
    assert (receipt.accepted, receipt.duplicates) == (6, 0)
    assert [part.last_sequence_number - part.first_sequence_number for part in receipt.partitions] == [5]
    assert bundle(hub) == shown(hub) == [3, 4, 5, 6, 1, 2]
    committed_at = (START + 60_000_000) / 1_000_000
    times = {
        message.published_at.timestamp() for message in hub.call(ReadHistory("ann")).messages if message.published_at
    }
    assert times == {committed_at}
    assert hub.call(Explain("ann")).waiting[0].oldest.timestamp() == committed_at
    assert hub.call(ListRecipients()).recipients[0].oldest.timestamp() == committed_at


def test_the_time_of_the_commit_stays_when_runs_are_filed_and_opened_again(
    hub: OpenHub, reopen: Opener, clock: FakeClock
) -> None:
    consignment = staged(hub, a=letters([1]), b=letters([2]))
    clock.advance(60)
    hub.call(CommitConsignment(consignment, winners(("a", 1), ("b", 1))))
    for number in range(3, 6):
        hub.call(Publish.of(letter(number)))
    before = hub.call(ReadHistory("ann"))
    hub.call(FileNow())
    assert hub.call(ReadHistory("ann")) == before
    hub = reopen()
    assert hub.call(ReadHistory("ann")) == before
    assert before.messages[0].published_at == hub.call(ListRecipients()).recipients[0].oldest


def test_only_the_attempts_that_are_named_count_and_the_rest_is_dropped(hub: OpenHub) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    hub.call(StageParcel.of(consignment, letters([1, 2, 3]), writer="a", attempt=0, parcel=0))
    hub.call(StageParcel.of(consignment, letters([1, 2]), writer="a", attempt=1, parcel=0))
    hub.call(StageParcel.of(consignment, letters([9]), writer="b", attempt=0, parcel=0))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2), attempt=1)))
    assert (receipt.accepted, receipt.duplicates) == (2, 0)
    assert shown(hub) == [1, 2]
    assert hub.call(Publish.of(letter(3))).accepted == 1


def test_staging_again_is_harmless_and_other_messages_are_refused(hub: OpenHub, reopen: Opener) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    hub = reopen()
    assert hub.call(StageParcel.of(consignment, letters([1, 2]), writer="a", attempt=0, parcel=0)).staged == 2
    with pytest.raises(InvalidClientState, match="other messages"):
        hub.call(StageParcel.of(consignment, letters([1, 3]), writer="a", attempt=0, parcel=0))
    assert hub.call(ReadConsignment(consignment)).staged_messages == 2
    assert hub.call(CommitConsignment(consignment, winners(("a", 2)))).accepted == 2


def test_messages_without_ids_are_staged_once_however_often_they_are_sent(hub: OpenHub) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    sent = [Message(recipient="ann", data=1), Message(recipient="ann", data=1)]
    for _ in range(2):
        hub.call(StageParcel.of(consignment, sent, writer="a", attempt=0, parcel=0))
    assert hub.call(CommitConsignment(consignment, winners(("a", 2)))).accepted == 2
    assert shown(hub) == [1, 1]


def test_committing_again_gives_the_same_answer_for_as_long_as_it_is_kept(
    hub: OpenHub, reopen: Opener, clock: FakeClock
) -> None:
    consignment = staged(hub, a=letters([1, 2]), b=letters([3]))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2), ("b", 1))))
    assert hub.call(CommitConsignment(consignment, winners(("b", 1), ("a", 2)))) == receipt
    hub = reopen()
    clock.advance(29 * _DAY)
    hub.call(RetainNow())
    assert hub.call(CommitConsignment(consignment, winners(("a", 2), ("b", 1)))) == receipt
    again = hub.call(BeginConsignment("night"))
    assert (again.id, again.state, again.created) == (consignment, ConsignmentState.COMMITTED, False)
    assert hub.call(ReadConsignment(consignment)).receipt == receipt
    clock.advance(2 * _DAY)
    hub.call(RetainNow())
    with pytest.raises(ConsignmentUnknown):
        hub.call(CommitConsignment(consignment, []))
    assert hub.call(BeginConsignment("night")).created


@pytest.mark.parametrize(
    "named",
    [
        [],
        [Winner(writer="a", attempt=0, messages=7)],
        [Winner(writer="a", attempt=1, messages=2)],
        [Winner(writer="b", attempt=0, messages=2)],
        [Winner(writer="a", attempt=0, messages=2), Winner(writer="b", attempt=0, messages=0)],
    ],
    ids=["nobody", "another count", "another attempt", "another writer", "one more"],
)
def test_a_commit_that_names_something_else_is_refused_with_the_answer_of_the_recorded_one(
    hub: OpenHub, named: list[Winner]
) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2))))
    with pytest.raises(ConsignmentClosed) as caught:
        hub.call(CommitConsignment(consignment, named))
    assert (caught.value.details["state"], caught.value.details["recorded"]) == ("committed", receipt)
    assert shown(hub) == [1, 2]


def test_what_an_older_version_committed_is_answered_whatever_is_named(hub: OpenHub, reopen: Opener) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2))))
    identity = uuid.UUID(consignment).bytes
    home = partition_of(consignment, hub.core.deed.partition_count)
    value = hub.core.store.get(home, Space.CONSIGNMENT, identity)
    assert value is not None
    # Rows of older versions end before the owner and the digest.
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(value)[:8])
    hub.core.commit(lambda draft: draft.put(home, Space.CONSIGNMENT, identity, older))
    assert reopen().call(CommitConsignment(consignment, [])) == receipt


def test_counts_that_differ_are_refused_and_it_stays_open(hub: OpenHub) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    with pytest.raises(ConsignmentIncomplete) as refused:
        hub.call(CommitConsignment(consignment, winners(("a", 3), ("b", 1))))
    assert refused.value.details["writers"] == [
        {"writer": "a", "attempt": 0, "announced": 3, "staged": 2},
        {"writer": "b", "attempt": 0, "announced": 1, "staged": 0},
    ]
    with pytest.raises(InvalidRequest, match="named twice"):
        hub.call(CommitConsignment(consignment, winners(("a", 2), ("a", 2))))
    assert shown(hub) == []
    assert hub.call(CommitConsignment(consignment, winners(("a", 2), ("b", 0)))).accepted == 2


def test_duplicates_of_what_was_stored_before_and_since_and_of_each_other_are_left_out(
    hub: OpenHub, reopen: Opener
) -> None:
    hub.call(Publish.of(letters([1, 2])))
    consignment = staged(hub, a=letters([1, 3, 4, 5]), b=letters([4, 6, 7, 2]))
    hub.call(Publish.of(letters([5, 7])))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 4), ("b", 4))))
    assert (receipt.accepted, receipt.duplicates) == (3, 5)
    (part,) = receipt.partitions
    assert (part.first_sequence_number, part.last_sequence_number) == (5, 7)
    assert shown(hub) == [1, 2, 5, 7, 3, 4, 6]
    hub = reopen()
    assert bundle(hub) == [1, 2, 5, 7, 3, 4, 6]
    assert hub.call(Publish.of(letters([3, 4, 6]))).duplicates == 3


def test_a_consignment_of_nothing_but_duplicates_changes_nothing(hub: OpenHub) -> None:
    hub.call(Publish.of(letters([1, 2])))
    before = hub.call(ListPartitions())
    consignment = staged(hub, a=letters([1, 2]))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2))))
    assert receipt == Receipt(accepted=0, duplicates=2, partitions=())
    assert hub.call(ListPartitions()) == before


def test_many_duplicates_are_found_in_large_parcels_too(hub: OpenHub) -> None:
    rng = np.random.default_rng(7)
    ids = [uuid.UUID(bytes=rng.bytes(16)).bytes for _ in range(6_000)]
    table = pa.table(
        {
            "id": pa.array(ids, pa.binary(16)),
            "recipient": [f"r{number % 50}" for number in range(6_000)],
            "data": pa.array([b"x" * (number % 90) for number in range(6_000)], pa.binary()),
            "properties": pa.array(
                [[("n", str(number))] for number in range(6_000)], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    consignment = hub.call(BeginConsignment("night")).id
    hub.call(StageParcel.of(consignment, table, writer="a", attempt=0, parcel=0))
    hub.call(StageParcel.of(consignment, table.slice(1_000, 3_000), writer="b", attempt=0, parcel=0))
    hub.call(Publish.of(table.slice(0, 500)))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 6_000), ("b", 3_000))))
    assert (receipt.accepted, receipt.duplicates) == (5_500, 3_500)
    for recipient in range(50):
        found = [message.properties["n"] for message in hub.call(ReadHistory(f"r{recipient}", limit=1_000)).messages]
        expected = [str(number) for number in range(recipient, 6_000, 50)]
        assert found == expected


def test_very_many_small_parcels_are_joined_before_they_become_visible(hub: OpenHub, reopen: Opener) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    count = limits.STAGED_RUNS_MAX + 20
    for number in range(count):
        hub.call(
            StageParcel.of(consignment, letters([2 * number, 2 * number + 1]), writer="a", attempt=0, parcel=number)
        )
    hub.call(Publish.of(letters([7, 100])))
    receipt = hub.call(CommitConsignment(consignment, winners(("a", 2 * count))))
    assert (receipt.accepted, receipt.duplicates) == (2 * count - 2, 2)
    assert [len(partition.runs) for partition in hub.core.partitions if partition.runs] == [2]
    expected = [7, 100, *(number for number in range(2 * count) if number not in (7, 100))]
    assert shown_all(hub) == expected
    hub = reopen()
    assert shown_all(hub) == bundle(hub) == expected


def test_a_conflict_refuses_the_commit_and_leaves_it_open(hub: OpenHub) -> None:
    consignment = staged(hub, a=letters([1, 2]), b=[letter(2, data="other")])
    with pytest.raises(MessageConflict, match="writer 'b', attempt 0, parcel 0") as refused:
        hub.call(CommitConsignment(consignment, winners(("a", 2), ("b", 1))))
    assert [fault.id for fault in refused.value.faults] == [str(uuid.UUID(int=2))]
    assert refused.value.faults[0].detail.endswith("a message of writer 'a', attempt 0, parcel 0")
    assert shown(hub) == []
    assert hub.call(ReadConsignment(consignment)).state is ConsignmentState.OPEN
    hub.call(Publish.of(letter(1, data="since")))
    with pytest.raises(MessageConflict, match="writer 'a'"):
        hub.call(CommitConsignment(consignment, winners(("a", 2))))
    assert hub.call(CommitConsignment(consignment, winners(("b", 1)))).accepted == 1
    assert shown(hub) == ["since", "other"]


def test_a_parcel_is_checked_like_a_publish(hub: OpenHub) -> None:
    hub.call(Publish.of(letters([1, 2])))
    consignment = hub.call(BeginConsignment("night")).id
    with pytest.raises(MessageConflict):
        hub.call(StageParcel.of(consignment, [letter(1, data="other")], writer="a", attempt=0, parcel=0))
    with pytest.raises(InvalidMessage):
        hub.call(StageParcel.of(consignment, [letter(3), Message(recipient=" ")], writer="a", attempt=0, parcel=0))
    with pytest.raises(MessageConflict):
        hub.call(StageParcel.of(consignment, [letter(4), letter(4, data="other")], writer="a", attempt=0, parcel=0))
    hub.call(Erase("ann"))
    with pytest.raises(MessageErased):
        hub.call(StageParcel.of(consignment, [letter(1)], writer="a", attempt=0, parcel=0))
    assert hub.call(ReadConsignment(consignment)).attempts == ()
    assert hub.call(StageParcel.of(consignment, [], writer="a", attempt=0, parcel=0)).staged == 0
    assert hub.call(CommitConsignment(consignment, winners(("a", 0)))) == Receipt(
        accepted=0, duplicates=0, partitions=()
    )


def test_what_was_erased_since_it_was_staged_refuses_the_commit(hub: OpenHub) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    hub.call(Publish.of(letter(1)))
    hub.call(Erase("ann"))
    with pytest.raises(MessageErased):
        hub.call(CommitConsignment(consignment, winners(("a", 2))))
    hub.call(DiscardConsignment(consignment))


@pytest.mark.parametrize(
    ("writer", "attempt", "parcel"), [("", 0, 0), ("x" * 257, 0, 0), ("a", -1, 0), ("a", 0, -1), ("a", 0, 2**63)]
)
def test_a_parcel_needs_a_name(hub: OpenHub, writer: str, attempt: int, parcel: int) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    with pytest.raises(InvalidRequest):
        hub.call(StageParcel.of(consignment, letters([1]), writer=writer, attempt=attempt, parcel=parcel))
    with pytest.raises(InvalidRequest):
        hub.call(BeginConsignment(" "))
    with pytest.raises(InvalidRequest):
        hub.call(StageParcel.of("no id", letters([1]), writer="a", attempt=0, parcel=0))


def test_who_is_discarded_is_closed_and_its_key_is_free(hub: OpenHub, reopen: Opener) -> None:
    consignment = staged(hub, a=letters([1, 2]))
    hub.call(DiscardConsignment(consignment))
    hub.call(DiscardConsignment(consignment))
    for call in (
        lambda: hub.call(StageParcel.of(consignment, letters([3]), writer="a", attempt=0, parcel=1)),
        lambda: hub.call(CommitConsignment(consignment, winners(("a", 2)))),
    ):
        with pytest.raises(ConsignmentClosed) as refused:
            call()
        assert refused.value.details["state"] == "discarded"
    hub = reopen()
    assert hub.call(ReadConsignment(consignment)).state is ConsignmentState.DISCARDED
    again = staged(hub, a=letters([1]))
    assert again != consignment
    hub.call(CommitConsignment(again, winners(("a", 1))))
    with pytest.raises(ConsignmentClosed):
        hub.call(DiscardConsignment(again))
    with pytest.raises(ConsignmentUnknown):
        hub.call(DiscardConsignment(str(uuid.uuid4())))
    assert shown(hub) == [1]


def test_who_is_abandoned_is_discarded_after_a_day_without_activity(hub: OpenHub, clock: FakeClock) -> None:
    idle, busy = staged(hub, "idle", a=letters([1])), staged(hub, "busy", a=letters([2]))
    clock.advance(_DAY - 1)
    hub.call(RetainNow())
    hub.call(StageParcel.of(busy, letters([3]), writer="a", attempt=0, parcel=1))
    clock.advance(2)
    hub.call(RetainNow())
    assert hub.call(ReadConsignment(idle)).state is ConsignmentState.DISCARDED
    assert hub.call(ReadConsignment(busy)).state is ConsignmentState.OPEN
    assert hub.call(ReadConsignment(busy)).staged_messages == 2
    assert len({part for partition in range(4) for part in hub.core.store.blobs(partition)}) == 2


def test_who_is_used_is_not_idle_though_nothing_new_is_staged(hub: OpenHub, clock: FakeClock) -> None:
    consignment = staged(hub, a=letters([1]))
    for use in (
        lambda: hub.call(BeginConsignment("night")),
        lambda: hub.call(StageParcel.of(consignment, letters([1]), writer="a", attempt=0, parcel=0)),
    ):
        clock.advance(_DAY - 1)
        use()
        hub.call(RetainNow())
    clock.advance(_DAY - 1)
    hub.call(RetainNow())
    assert hub.call(CommitConsignment(consignment, winners(("a", 1)))).accepted == 1


def test_blobs_are_written_once_and_none_is_left_behind(hub: OpenHub) -> None:
    consignment = hub.call(BeginConsignment("night")).id
    hub.call(StageParcel.of(consignment, letters([1]), writer="a", attempt=0, parcel=0))
    kept = {blob for partition in range(4) for blob in hub.core.store.blobs(partition)}
    hub.call(StageParcel.of(consignment, letters([2]), writer="a", attempt=1, parcel=0))
    hub.call(CommitConsignment(consignment, winners(("a", 1))))
    assert {blob for partition in range(4) for blob in hub.core.store.blobs(partition)} == kept
    gone = staged(hub, "other", a=letters([3]))
    hub.call(DiscardConsignment(gone))
    assert {blob for partition in range(4) for blob in hub.core.store.blobs(partition)} == kept


def test_staged_bytes_are_bounded_for_each_and_for_all(reopen: Opener) -> None:
    def large(number: int) -> list[Message]:
        return [letter(number, data="x" * 10_000)]

    hub = reopen(msgspec.structs.replace(_QUIET, consignment_bytes_max=15_000, staged_bytes_max=25_000))
    first = staged(hub, "first", a=large(1))
    with pytest.raises(StorageFull) as refused:
        hub.call(StageParcel.of(first, large(2), writer="a", attempt=0, parcel=1))
    assert refused.value.details["setting"] == "consignment_bytes_max"
    assert refused.value.details["limit"] == 15_000
    second = staged(hub, "second", a=large(3))
    third = hub.call(BeginConsignment("third")).id
    with pytest.raises(StorageFull) as refused:
        hub.call(StageParcel.of(third, large(4), writer="a", attempt=0, parcel=0))
    assert refused.value.details["setting"] == "staged_bytes_max"
    assert hub.call(StageParcel.of(first, large(1), writer="a", attempt=0, parcel=0)).staged == 1
    hub.call(DiscardConsignment(second))
    assert hub.call(StageParcel.of(third, large(4), writer="a", attempt=0, parcel=0)).staged == 1


def test_its_batch_has_all_that_was_stored_and_is_sealed_by_the_commit(hub: OpenHub, reopen: Opener) -> None:
    hub.call(Publish.of(letters([1, 2])))
    opened = hub.call(BeginConsignment("night", batch=True))
    assert opened.batch is not None
    hub.call(StageParcel.of(opened.id, letters([1, 3, 4]), writer="a", attempt=0, parcel=0))
    hub.call(StageParcel.of(opened.id, letters([5], "bob"), writer="b", attempt=0, parcel=0))
    hub.call(StageParcel.of(opened.id, letters([4], "ann"), writer="c", attempt=0, parcel=0))
    assert hub.call(ReadBatch(opened.batch)).state is BatchState.OPEN
    hub = reopen()
    receipt = hub.call(CommitConsignment(opened.id, winners(("a", 3), ("b", 1), ("c", 1))))
    assert (receipt.accepted, receipt.duplicates) == (3, 2)
    status = hub.call(ReadBatch(opened.batch))
    assert (status.key, status.state, status.items, status.pending) == ("night", BatchState.SEALED, 3, 3)
    assert (status.duplicates, status.duplicates_waiting) == (2, 2)
    for recipient in ("ann", "bob"):
        answer = hub.call(Peek(recipient))
        assert isinstance(answer, BundleAnswer)
        hub.call(Dequeue(recipient, answer.bundle_id))
    status = hub.call(ReadBatch(opened.batch))
    assert (status.state, status.collected, status.duplicates_waiting) == (BatchState.COMPLETE, 3, 0)


def test_its_batch_stays_as_long_as_it_is_open_and_goes_with_it(hub: OpenHub, clock: FakeClock) -> None:
    opened = hub.call(BeginConsignment("night", batch=BatchWish(notify="boss")))
    assert opened.batch is not None
    clock.advance(5 * 3_600)
    assert hub.call(ReapBatches()).batches == ()
    hub.call(DiscardConsignment(opened.id))
    with pytest.raises(BatchUnknown):
        hub.call(ReadBatch(opened.batch))


def test_a_batch_that_somebody_sealed_refuses_the_commit(hub: OpenHub) -> None:
    opened = hub.call(BeginConsignment("night", batch=True))
    assert opened.batch is not None
    hub.call(StageParcel.of(opened.id, letters([1]), writer="a", attempt=0, parcel=0))
    hub.call(SealBatch(opened.batch))
    with pytest.raises(BatchSealed):
        hub.call(CommitConsignment(opened.id, winners(("a", 1))))
    assert shown(hub) == []
    hub.call(DiscardConsignment(opened.id))


def test_consignments_are_listed_newest_first_by_state_and_key(hub: OpenHub, clock: FakeClock) -> None:
    ids: list[str] = []
    for key in ("one", "two", "three"):
        ids.append(staged(hub, key, a=letters([len(ids)])))
        clock.advance(1)
    hub.call(CommitConsignment(ids[0], winners(("a", 1))))
    listed = hub.call(ListConsignments())
    assert [entry.id for entry in listed.consignments] == ids[::-1]
    assert [entry.staged_messages for entry in listed.consignments] == [1, 1, 0]
    assert [entry.key for entry in hub.call(ListConsignments(state=ConsignmentState.COMMITTED)).consignments] == ["one"]
    assert [entry.id for entry in hub.call(ListConsignments(key="two")).consignments] == [ids[1]]
    page = hub.call(ListConsignments(limit=2))
    assert [entry.id for entry in hub.call(ListConsignments(limit=2, after=page.next)).consignments] == ids[:1]
    totals = hub.consignment_totals()
    assert (totals.open, totals.staged_messages, totals.committed) == (2, 2, 1)


def test_the_doctor_sees_staged_runs_that_nobody_names_and_parcels_without_runs(tmp_path: Path) -> None:
    hub = open_hub(tmp_path, settings=_QUIET)
    staged(hub, a=letters([1]), b=letters([2]))
    hub.close()
    store = open_store(tmp_path)
    fence = store.raise_fences(4)
    rows = [(p, key, value) for p in range(4) for key, value in store.scan(p, Space.RUN)]
    changes = Changes(fences=dict.fromkeys(range(4), fence))
    partition, key, value = rows[0]
    changes.delete(partition, Space.RUN, key)
    store.commit(changes)
    report = examine(store)
    assert [finding.detail for finding in report.findings if "of its runs" in finding.detail]
    changes = Changes(fences=dict.fromkeys(range(4), fence))
    changes.put(partition, Space.RUN, key, value)
    other = number_key(99)
    changes.put(partition, Space.RUN, other, value)
    store.commit(changes)
    report = examine(store)
    assert not report.sound
    store.close()


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (StorageFull("full"), True),
        (MessageConflict("other", []), True),
        (OutcomeUnknown("nobody knows"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=["no room", "refused", "unknown", "interrupted"],
)
def test_blobs_written_ahead_go_only_if_their_commit_is_sure_to_have_failed(error: BaseException, gone: bool) -> None:
    """Who is interrupted while it waits leaves its request in the queue, and the commit that comes names the blobs."""
    pins, blob = Pins(), BlobKey(0, 7)
    pins.bury_unless_named([blob], error)
    assert pins.unreachable() == ([blob] if gone else [])
