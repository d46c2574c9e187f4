"""Consignments through the surface of programs that wait, in process and over a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import restante
from restante import errors
from restante.client.surface import sync
from restante.model.batches.batch_answers import BatchState
from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, Winner
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from tests.client.proxy import CuttingProxy

SECONDS = 20.0
ID = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def message(data: object, recipient: str = "alice") -> Message:
    return Message(recipient=recipient, data=data)


def collected(hub: sync.Hub, recipient: str = "alice") -> list[object]:
    """All that waits, in order."""
    return [each.data for each in hub.recipient(recipient).history(limit=1_000).messages]


def table(count: int, size: int = 500) -> pa.Table:
    recipients = [f"r{place % 50}" for place in range(count)]
    return pa.table({"recipient": recipients, "data": [b"x" * size] * count})


def fail(consignment: object) -> None:
    with consignment:  # type: ignore[attr-defined]
        raise ZeroDivisionError


def test_what_is_staged_is_delivered_at_the_commit_and_not_before(either: sync.Hub) -> None:
    with either.consignment("night") as consignment:
        assert consignment.stage("w", 0, message(1)) == 1
        assert consignment.stage("w", 0, [message(2), message(3)]) == 2
        assert (consignment.key, consignment.state, consignment.receipt) == ("night", ConsignmentState.OPEN, None)
        assert collected(either) == []
        assert either.recipient("alice").peek() is None
    assert collected(either) == [1, 2, 3]
    assert consignment.state is ConsignmentState.COMMITTED
    assert consignment.receipt is not None
    assert (consignment.receipt.accepted, consignment.receipt.duplicates) == (3, 0)


def test_leaving_by_an_exception_discards(either: sync.Hub) -> None:
    consignment = either.consignment("night")
    consignment.stage("w", 0, message(1))
    with pytest.raises(ZeroDivisionError):
        fail(consignment)
    assert consignment.state is consignment.status().state is ConsignmentState.DISCARDED
    assert collected(either) == []
    again = either.consignment("night")
    assert again.id != consignment.id


def test_what_was_committed_by_somebody_else_is_not_discarded_and_the_exception_says_so(either: sync.Hub) -> None:
    consignment = either.consignment("night")
    either.consignment("night").commit()
    with pytest.raises(ZeroDivisionError) as caught:
        fail(consignment)
    assert "could not be discarded" in caught.value.__notes__[0]
    assert consignment.status().state is ConsignmentState.COMMITTED


def test_after_a_commit_or_a_discard_leaving_does_nothing(either: sync.Hub) -> None:
    with either.consignment("one") as first:
        first.stage("w", 0, message(1))
        receipt = first.commit()
    assert first.receipt is receipt
    assert first.commit() is receipt
    with either.consignment("two") as second:
        second.stage("w", 0, message(2))
        second.discard()
        second.discard()
    assert second.state is ConsignmentState.DISCARDED
    assert collected(either) == [1]


def test_a_key_that_was_committed_tells_what_it_answered(either: sync.Hub) -> None:
    with either.consignment("night") as first:
        first.stage("w", 0, message(1))
    with either.consignment("night") as again:
        assert (again.id, again.state, again.receipt) == (first.id, ConsignmentState.COMMITTED, first.receipt)
    with pytest.raises(errors.ConsignmentClosed) as caught:
        again.stage("w", 0, message(2))
    assert caught.value.details["state"] == "committed"
    assert again.commit([]) == first.receipt
    with pytest.raises(errors.ConsignmentClosed):
        again.discard()
    assert collected(either) == [1]


def test_the_attempt_that_was_staged_last_counts(either: sync.Hub) -> None:
    with either.consignment("night") as consignment:
        consignment.stage("b", 0, message("b0"))
        consignment.stage("a", 0, message("a0"))
        consignment.stage("b", 1, message("b1"))
        assert consignment.winners == (
            Winner(writer="b", attempt=1, messages=1),
            Winner(writer="a", attempt=0, messages=1),
        )
    assert collected(either) == ["b1", "a0"]


def test_writers_of_their_own_hand_over_what_they_have_staged(either: sync.Hub) -> None:
    announced: list[Winner] = []
    for number in range(3):
        writer = either.consignment("night")
        writer.stage(f"task {number}", number, [message((number, place)) for place in range(2)])
        announced += writer.winners
    driver = either.consignment("night")
    assert driver.winners == ()
    receipt = driver.commit(reversed(announced))
    assert receipt.accepted == 6
    assert collected(either) == [[2, 0], [2, 1], [1, 0], [1, 1], [0, 0], [0, 1]]


def test_leaving_does_not_drop_what_others_have_staged(either: sync.Hub) -> None:
    task = either.consignment("night")
    task.stage("task", 0, [Message(recipient="ann", data=1)])
    with pytest.raises(errors.InvalidOperation, match="'task'"), either.consignment("night"):
        pass
    with pytest.raises(errors.InvalidOperation, match="'task'"), either.consignment("night") as driver:
        driver.stage("driver", 0, [Message(recipient="ann", data=2)])
    assert driver.status().state is ConsignmentState.OPEN
    assert driver.commit([*task.winners, *driver.winners]).accepted == 2


def test_an_empty_list_drops_nothing_that_is_staged(either: sync.Hub) -> None:
    task, driver = either.consignment("night"), either.consignment("night")
    task.stage("task", 0, message(1))
    for consignment in (driver, task):
        with pytest.raises(errors.InvalidOperation, match="'task'") as caught:
            consignment.commit([])
        assert caught.value.details["writers"] == ["task"]
    assert driver.state is driver.status().state is ConsignmentState.OPEN
    assert driver.commit(task.winners).accepted == 1
    assert either.consignment("nothing").commit([]).accepted == 0


def test_whoever_names_some_leaves_out_the_others_on_purpose(either: sync.Hub) -> None:
    consignment = either.consignment("night")
    consignment.stage("a", 0, message("a"))
    consignment.stage("b", 0, message("b"))
    assert consignment.commit([Winner(writer="b", attempt=0, messages=1)]).accepted == 1
    assert collected(either) == ["b"]


def test_a_count_that_differs_leaves_it_open(either: sync.Hub) -> None:
    consignment = either.consignment("night")
    consignment.stage("w", 0, message(1))
    with pytest.raises(errors.ConsignmentIncomplete) as caught:
        consignment.commit([Winner(writer="w", attempt=0, messages=2)])
    assert caught.value.details["writers"] == [{"writer": "w", "attempt": 0, "announced": 2, "staged": 1}]
    assert consignment.state is consignment.status().state is ConsignmentState.OPEN
    assert consignment.commit().accepted == 1


@pytest.mark.parametrize("wrong", [3, "w", ["w"], [("w", 0, 1)]])
def test_what_names_no_winners_is_refused(either: sync.Hub, wrong: list[Winner]) -> None:
    consignment = either.consignment("night")
    with pytest.raises(errors.InvalidRequest):
        consignment.commit(wrong)
    assert consignment.state is ConsignmentState.OPEN


def test_much_is_staged_in_several_parcels(either: sync.Hub) -> None:
    sent = table(30_000)
    with either.consignment("night") as consignment:
        assert consignment.stage("w", 0, sent) == 30_000
        (attempt,) = consignment.status().attempts
        assert (attempt.messages, attempt.parcels > 3) == (30_000, True)
        assert consignment.stage("w", 0, sent.to_reader(1_000)) == 30_000
    assert consignment.receipt is not None
    assert consignment.receipt.accepted == 60_000


def test_an_iterator_of_messages_is_staged_as_it_goes_on(either: sync.Hub) -> None:
    with either.consignment("night") as consignment:
        assert consignment.stage("w", 0, (message("x" * 100_000) for _ in range(100))) == 100
        assert consignment.status().attempts[0].parcels == 3
    assert len(collected(either)) == 100


def test_nothing_may_be_staged_and_committed(either: sync.Hub) -> None:
    with either.consignment("night") as consignment:
        assert consignment.stage("w", 0, []) == 0
    assert consignment.receipt == Receipt(accepted=0, duplicates=0, partitions=())


@pytest.mark.parametrize("sent", [message(1), [message(1), message(2)], table(100)], ids=["one", "two", "table"])
def test_the_same_parcel_again_is_staged_once_also_without_ids(either: sync.Hub, sent: object) -> None:
    with either.consignment("night") as consignment:
        count = consignment.stage("w", 0, sent, parcel=4)
        assert consignment.stage("w", 0, sent, parcel=4) == count
        assert either.consignment("night").stage("w", 0, sent, parcel=4) == count
        with pytest.raises(errors.InvalidClientState):
            consignment.stage("w", 0, message("other"), parcel=4)
        assert consignment.stage("w", 0, sent, parcel=4) == count
    assert consignment.receipt is not None
    assert consignment.receipt.accepted == count


def test_threads_stage_side_by_side_for_one_writer(either: sync.Hub) -> None:
    with either.consignment("night") as consignment, ThreadPoolExecutor(4) as pool:
        staged = pool.map(lambda number: consignment.stage("w", 0, message(number)), range(40))
        assert sum(staged) == 40
    assert sorted(map(str, collected(either))) == sorted(map(str, range(40)))


def test_a_message_that_is_refused_refuses_its_parcel(either: sync.Hub) -> None:
    with either.consignment("night") as consignment:
        with pytest.raises(errors.InvalidMessage):
            consignment.stage("w", 0, [message(1), Message(recipient=" ", data=2)])
        consignment.stage("w", 0, message(3))
    assert collected(either) == [3]


def test_after_a_stage_that_went_half_wrong_a_commit_must_say_what_counts(either: sync.Hub) -> None:
    half = [*(message("x" * 900_000) for _ in range(8)), Message(recipient=" ")]
    consignment = either.consignment("night")
    with pytest.raises(errors.InvalidMessage):
        consignment.stage("w", 0, half)
    with pytest.raises(errors.InvalidOperation, match="attempt 0"):
        consignment.commit()
    assert consignment.stage("w", 0, half[:-1]) == 8
    consignment.stage("w", 1, half[:-1])
    assert consignment.commit().accepted == 8


def broken() -> Iterator[Message]:
    yield message("never")
    raise ZeroDivisionError


REFUSED = [message(1), Message(recipient=" ", data=2)]


@pytest.mark.parametrize("failing", [lambda: REFUSED, broken], ids=["refused", "broken"])
def test_a_stage_that_failed_stops_a_commit_that_names_nobody(
    either: sync.Hub, failing: Callable[[], Iterable[Message]]
) -> None:
    def job() -> None:
        with either.consignment("night") as consignment:
            consignment.stage("ok", 0, message("ok"))
            with pytest.raises((errors.InvalidMessage, ZeroDivisionError)):
                consignment.stage("w", 0, failing())

    with pytest.raises(errors.InvalidOperation, match="'w' staged in attempt 0"):
        job()
    consignment = either.consignment("night")
    assert consignment.state is ConsignmentState.OPEN
    assert collected(either) == []
    consignment.stage("w", 1, message("w"))
    with pytest.raises((errors.InvalidMessage, ZeroDivisionError)):
        consignment.stage("w", 2, failing())
    with pytest.raises(errors.InvalidOperation, match="attempt 2"):
        consignment.commit()
    named = [Winner(writer=writer, attempt=attempt, messages=1) for writer, attempt in (("ok", 0), ("w", 1))]
    assert consignment.commit(named).accepted == 2
    assert collected(either) == ["ok", "w"]


def test_an_error_of_the_commit_itself_leaves_it_open(either: sync.Hub) -> None:
    def job() -> None:
        with either.consignment("night") as consignment:
            consignment.stage("w", 0, Message(recipient="alice", id=ID, data=1))
            either.producer.send(Message(recipient="alice", id=ID, data=2))

    with pytest.raises(errors.MessageConflict):
        job()
    status = either.consignment("night").status()
    assert (status.state, status.staged_messages) == (ConsignmentState.OPEN, 1)


def test_an_error_that_the_hub_is_away_leaves_it_open(either: sync.Hub) -> None:
    away = errors.Unavailable("The hub does not answer.")

    def job() -> None:
        with either.consignment("night") as consignment:
            consignment.stage("w", 0, message(1))
            raise away

    with pytest.raises(errors.Unavailable) as caught:
        job()
    assert "left open" in caught.value.__notes__[0]
    assert either.consignment("night").status().staged_messages == 1


@pytest.mark.parametrize("parcel", [None, 3])
def test_what_is_no_message_is_refused_and_a_dict_is_judged_as_one(either: sync.Hub, parcel: int | None) -> None:
    consignment = either.consignment("night")
    with pytest.raises(errors.InvalidMessage, match="the field to is unknown"):
        consignment.stage("w", 0, {"recipient": "alice", "to": "bob"}, parcel=parcel)
    with pytest.raises(errors.InvalidRequest, match="A message needs a recipient"):
        consignment.stage("w", 0, "alice", parcel=parcel)
    assert consignment.status().attempts == ()


def test_a_duplicate_is_counted_and_a_conflict_leaves_it_open(either: sync.Hub) -> None:
    consignment = either.consignment("night")
    consignment.stage("w", 0, [Message(recipient="alice", id=ID, data=1), message(2)])
    either.producer.send(Message(recipient="alice", id=ID, data=1))
    receipt = consignment.commit()
    assert (receipt.accepted, receipt.duplicates) == (1, 1)
    other = either.consignment("other")
    other.stage("v", 0, Message(recipient="bob", id=ID, data=1))
    either.producer.send(Message(recipient="bob", id=ID, data=2))
    with pytest.raises(errors.MessageConflict):
        other.commit()
    assert other.status().state is ConsignmentState.OPEN


def test_a_consignment_with_a_batch_seals_it(either: sync.Hub) -> None:
    with either.consignment("night", batch=True) as consignment:
        assert consignment.batch is not None
        consignment.stage("w", 0, [message(1), message(2)])
    status = either.batches.get(consignment.batch).status()
    assert (status.key, status.state, status.items, status.pending) == ("night", BatchState.SEALED, 2, 2)
    assert either.consignment("plain").batch is None


@pytest.mark.parametrize("batch", [True, BatchWish(notify="ops")])
def test_a_batch_that_comes_too_late_is_refused(either: sync.Hub, batch: bool | BatchWish) -> None:
    task = either.consignment("night")
    with pytest.raises(errors.InvalidOperation, match="was opened before, without a batch") as caught:
        either.consignment("night", batch=batch)
    assert caught.value.details == {"consignment": task.id}
    assert "discard it" in str(caught.value)
    task.commit()
    with pytest.raises(errors.InvalidOperation, match="without a batch") as caught:
        either.consignment("night", batch=batch)
    assert "discard" not in str(caught.value)
    driver = either.consignment("other", batch=batch)
    assert driver.batch == either.consignment("other").batch == either.consignment("other", batch=True).batch
    assert driver.batch is not None


def test_a_batch_may_tell_somebody_when_all_is_collected(either: sync.Hub) -> None:
    with either.consignment("night", batch=BatchWish(notify="ops")) as consignment:
        consignment.stage("w", 0, message(1))
    for bundle in either.recipient("alice").bundles(idle=0):
        bundle.dequeue()
    told = either.recipient("ops").peek(wait=SECONDS)
    assert told is not None
    (notice,) = told.messages
    assert isinstance(notice.data, dict)
    assert (notice.data["id"], notice.data["key"]) == (consignment.batch, "night")


def test_the_secret_of_a_webhook_is_told_once(either: sync.Hub) -> None:
    wish = BatchWish(webhook=restante.Webhook(url="https://receiver.invalid/hook"))
    consignment = either.consignment("night", batch=wish)
    assert consignment.webhook_secret is not None
    assert consignment.webhook_secret.startswith("whsec_")
    assert either.consignment("night").webhook_secret is None


def test_consignments_are_listed_the_newest_first(either: sync.Hub) -> None:
    opened = [either.consignment(f"key {number}") for number in range(3)]
    opened[1].commit()
    opened[2].discard()
    assert [status.key for status in either.consignments()] == ["key 2", "key 1", "key 0"]
    assert [status.id for status in either.consignments(state="open")] == [opened[0].id]
    assert [status.id for status in either.consignments(state=ConsignmentState.COMMITTED)] == [opened[1].id]
    assert [status.id for status in either.consignments(key="key 2")] == [opened[2].id]
    with pytest.raises(errors.InvalidRequest):
        list(either.consignments(state="lost"))


@pytest.mark.parametrize("key", ["", " ", "x" * 257, 3, None])
def test_what_is_no_key_is_refused(either: sync.Hub, key: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        either.consignment(key)


@pytest.mark.parametrize(("writer", "attempt"), [("", 0), (" ", 0), ("w" * 257, 0), ("w", -1), ("w", 2**63), (7, 0)])
def test_what_names_no_parcel_is_refused(either: sync.Hub, writer: str, attempt: int) -> None:
    consignment = either.consignment("night")
    with pytest.raises(errors.InvalidRequest):
        consignment.stage(writer, attempt, message(1))
    assert consignment.status().staged_messages == 0


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_answers_that_are_lost_harm_nothing(proxy: CuttingProxy, behind: sync.Hub, before: bool) -> None:
    cut = proxy.cut_before if before else proxy.cut_after
    cut()
    consignment = behind.consignment("night")
    for number in range(3):
        cut()
        assert consignment.stage("w", 0, message(number)) == 1
    cut()
    assert consignment.stage("w", 0, table(2_000)) == 2_000
    cut()
    assert consignment.commit().accepted == 2_003
    assert collected(behind) == [0, 1, 2]
    cut()
    behind.consignment("other").discard()
    assert proxy.cuts >= 6
