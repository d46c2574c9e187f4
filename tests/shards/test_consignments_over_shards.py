"""A consignment over several shards is delivered in all of them or in none; what is held meanwhile waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from hashlib import blake2b

import pytest

from restante import Message
from restante.calls.batches import OpenBatch, ReadBatch, SealBatch
from restante.calls.consignments import BeginConsignment, CommitConsignment, DiscardConsignment, ReadConsignment
from restante.calls.mailboxes import Dequeue, Explain, Peek
from restante.calls.nodes import ListRounds
from restante.calls.publishing import Publish
from restante.calls.removal import Erase
from restante.calls.shards import (
    ApplyConsignment,
    AskRound,
    CloseBatchParts,
    EndRound,
    NoteParcel,
    PrepareConsignment,
    StagePart,
)
from restante.errors import ConsignmentClosed, ConsignmentIncomplete, ConsignmentUnknown, MessageConflict, Unavailable
from restante.hub.batches import part_calls
from restante.hub.consignments import rounds
from restante.hub.consignments.prepared import Prepared
from restante.hub.consignments.rounds_in_doubt import note_doubts
from restante.hub.engine.core import parse_uuid
from restante.hub.engine.procedures import Ask, run
from restante.hub.publishing.holds import Holds
from restante.model.batches.batch_answers import BatchState
from restante.model.consignments.consignment import Attempt
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.model.mailboxes.answers import BundleAnswer, Reason, Receipt
from restante.model.publishing.few_or_many import few_or_many
from restante.model.shards.node_answers import DoubtState, all_in_doubt
from restante.model.shards.ranges import shard_of
from restante.model.storage.changes import Space
from restante.model.storage.partition import partition_of
from restante.model.storage.run import RunState, decode_run
from tests.shards.world import PARTITIONS, QuietHub, Shards, names
from tests.waiting import wait_until

KEY = names(1, 1)[0]
NEAR, FAR, AWAY = names(1, 2), names(4, 2), names(7, 2)
ALL = (NEAR[0], FAR[0], AWAY[0])


@pytest.fixture
def shards() -> Iterator[Shards]:
    with Shards(3) as opened:
        yield opened


def own_id(number: int) -> str:
    return f"018f4e2a-0000-7000-8000-{number:012}"


def letter(recipient: str, number: int, text: str = "hello") -> Message:
    return Message(recipient=recipient, text=text, id=own_id(number))


def begun(shards: Shards, key: str = KEY, *, batch: bool = False) -> str:
    return shards.of(key).call(BeginConsignment(key, batch)).id


def own_batch(shards: Shards, consignment: str) -> str:
    batch = shards.of(consignment).call(ReadConsignment(consignment)).batch
    assert batch is not None
    return batch


def stage(shards: Shards, consignment: str, messages: list[Message], parcel: int = 0, writer: str = "w") -> int:
    """As a door does it: each shard gets its part, then home hears of the parcel."""
    digest = blake2b(repr(messages).encode(), digest_size=16).digest()
    parts: dict[int, list[Message]] = {}
    for message in messages:
        own = shards.hubs.index(shards.of(message.recipient))
        parts.setdefault(own, []).append(message)
    staged = [
        shards.hubs[number].call(StagePart(consignment, few_or_many(own), writer, 0, parcel, digest))
        for number, own in parts.items()
    ]
    runs = tuple(run_ for part in staged for run_ in part.runs)
    counts = sum(part.messages for part in staged), sum(part.length for part in staged)
    return shards.of(consignment).call(NoteParcel(consignment, writer, 0, parcel, digest, *counts, runs)).staged


def commit(shards: Shards, consignment: str, messages: int, writer: str = "w") -> Receipt:
    return shards.of(consignment).call(
        CommitConsignment(consignment, [Winner(writer=writer, attempt=0, messages=messages)])
    )


def collect(shards: Shards, recipient: str) -> int:
    hub, messages = shards.of(recipient), 0
    while isinstance(bundle := hub.call(Peek(recipient)), BundleAnswer):
        messages += hub.call(Dequeue(recipient, bundle.bundle_id)).messages
    return messages


def settle(shards: Shards) -> None:
    for hub in shards.hubs:
        run(hub.core, rounds.between_shards(hub.core))
        run(hub.core, part_calls.between_shards(hub.core))


def held(shards: Shards) -> int:
    return sum(len(own) for hub in shards.hubs for own in hub.core.memory(Holds).by_partition.values())


def rows(shards: Shards, space: Space) -> int:
    return sum(len(hub.core.store.scan(partition, space)) for hub in shards.hubs for partition in hub.core.owned)


def staged_runs(shards: Shards) -> int:
    return sum(
        decode_run(value).state is RunState.STAGED
        for hub in shards.hubs
        for partition in hub.core.owned
        for _, value in hub.core.store.scan(partition, Space.RUN)
    )


def word_to_prepare(shards: Shards, partition: int) -> PrepareConsignment:
    """The first word that was sent to prepare something in a partition."""
    words = [call for call in shards.carried if isinstance(call, PrepareConsignment)]
    return next(word for word in words if word.runs[0].partition == partition)


def everybody(text: str = "hello") -> list[Message]:
    return [letter(name, number, text) for number, name in enumerate(ALL)]


def test_a_consignment_is_seen_in_all_shards_when_it_is_committed(shards: Shards) -> None:
    consignment = begun(shards)
    assert stage(shards, consignment, everybody()) == 3
    assert stage(shards, consignment, everybody()) == 3
    assert [collect(shards, name) for name in ALL] == [0, 0, 0]
    receipt = commit(shards, consignment, 3)
    assert (receipt.accepted, receipt.duplicates) == (3, 0)
    assert [own.partition for own in receipt.partitions] == [1, 4, 7]
    assert commit(shards, consignment, 3) == receipt
    assert shards.of(consignment).call(ReadConsignment(consignment)).receipt == receipt
    assert [collect(shards, name) for name in ALL] == [1, 1, 1]
    assert held(shards) == 0


def test_nothing_is_left_of_rounds_and_parts(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    stage(shards, consignment, [letter(FAR[1], 9)], writer="loser")
    commit(shards, consignment, 3)
    settle(shards)
    assert rows(shards, Space.PREPARED) == 0
    for hub in shards.hubs:
        staged = hub.core.memory(Prepared).staged
        staged.update(dict.fromkeys(staged, 0))
    settle(shards)
    assert rows(shards, Space.STAGED_PART) == 0
    assert staged_runs(shards) == 0


def test_what_was_announced_must_be_staged(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    with pytest.raises(ConsignmentIncomplete):
        commit(shards, consignment, 4)
    assert commit(shards, consignment, 3).accepted == 3


def test_duplicates_are_left_out_and_a_conflict_refuses_all(shards: Shards) -> None:
    shards.of(FAR[0]).call(Publish.of([letter(FAR[0], 1)]))
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    receipt = commit(shards, consignment, 3)
    assert (receipt.accepted, receipt.duplicates) == (2, 1)
    other = begun(shards, NEAR[1])
    stage(shards, other, [letter(AWAY[1], 20)])
    shards.of(AWAY[1]).call(Publish.of([letter(AWAY[1], 20, "another")]))
    stage(shards, other, [letter(NEAR[1], 21)], parcel=1)
    with pytest.raises(MessageConflict):
        commit(shards, other, 2)
    assert held(shards) == 0
    assert collect(shards, NEAR[1]) == 0
    assert shards.of(other).call(ReadConsignment(other)).state is ConsignmentState.OPEN


def test_a_batch_of_a_consignment_is_complete_when_all_is_collected(shards: Shards) -> None:
    shards.of(FAR[0]).call(Publish.of([letter(FAR[0], 1)]))
    consignment = begun(shards, batch=True)
    batch = own_batch(shards, consignment)
    shards.of(AWAY[1]).call(Publish.of([letter(AWAY[1], 30)], batch=batch))
    stage(shards, consignment, everybody())
    commit(shards, consignment, 3)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.pending, status.duplicates, status.state) == (3, 3, 1, BatchState.SEALED)
    for name in (*ALL, AWAY[1]):
        assert collect(shards, name) == 1
    wait_until(lambda: shards.of(batch).call(ReadBatch(batch)).state is BatchState.COMPLETE)


def test_the_batch_is_not_complete_before_everything_is_applied(shards: Shards) -> None:
    consignment = begun(shards, batch=True)
    batch = own_batch(shards, consignment)
    stage(shards, consignment, everybody())
    shards.lose = (ApplyConsignment, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    assert shards.of(consignment).call(ReadConsignment(consignment)).receipt is None
    shards.hubs[1].call(CloseBatchParts(parse_uuid(batch, "batch"), (4,)))
    collect(shards, NEAR[0])
    for hub in shards.hubs:
        run(hub.core, part_calls.between_shards(hub.core))
    assert shards.of(batch).call(ReadBatch(batch)).state is BatchState.SEALED
    shards.lose = ()
    settle(shards)
    for name in ALL:
        collect(shards, name)
    wait_until(lambda: shards.of(batch).call(ReadBatch(batch)).state is BatchState.COMPLETE)


@pytest.mark.parametrize("ends", ["recorded", "ended"])
def test_a_word_that_comes_late_and_holds_what_is_collected_does_not_keep_a_batch_from_its_end(ends: str) -> None:
    with Shards(3, kind=QuietHub) as shards:
        consignment = begun(shards, batch=True)
        batch = own_batch(shards, consignment)
        stage(shards, consignment, everybody())
        if ends == "ended":
            shards.lose = (PrepareConsignment,)
            with pytest.raises(Unavailable):
                commit(shards, consignment, 3)
            shards.lose = ()
        commit(shards, consignment, 3)
        settle(shards)
        shards.of(FAR[0]).call(word_to_prepare(shards, 4))
        for name in ALL:
            assert collect(shards, name) == 1
        assert held(shards) == 1
        settle(shards)
        settle(shards)
        assert held(shards) == 0
        status = shards.of(batch).call(ReadBatch(batch))
        assert (status.state, status.items, status.collected) == (BatchState.COMPLETE, 3, 3)


def test_a_batch_that_was_sealed_while_a_round_held_messages_is_complete_after_the_round_has_ended() -> None:
    with Shards(3, kind=QuietHub) as shards:
        consignment = begun(shards, batch=True)
        batch = own_batch(shards, consignment)
        shards.of(FAR[1]).call(Publish.of([letter(FAR[1], 30)], batch=batch))
        assert collect(shards, FAR[1]) == 1
        stage(shards, consignment, everybody())
        shards.lose_answers, shards.lose = (PrepareConsignment,), (EndRound, AskRound)
        with pytest.raises(Unavailable):
            commit(shards, consignment, 3)
        assert shards.of(batch).call(SealBatch(batch)).complete is False
        shards.lose_answers = shards.lose = ()
        settle(shards)
        settle(shards)
        status = shards.of(batch).call(ReadBatch(batch))
        assert (status.state, status.items, status.collected) == (BatchState.COMPLETE, 1, 1)


def test_nobody_waits_for_a_message_that_was_erased_before_its_duplicate_was_applied(shards: Shards) -> None:
    shards.of(FAR[0]).call(Publish.of([letter(FAR[0], 1)]))
    consignment = begun(shards, batch=True)
    batch = own_batch(shards, consignment)
    stage(shards, consignment, [*everybody(), letter(FAR[1], 50), letter(FAR[1], 50)])
    shards.lose = (ApplyConsignment, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 5)
    assert shards.of(FAR[0]).call(Erase(FAR[0])) == 1
    shards.lose = ()
    settle(shards)
    status = shards.of(batch).call(ReadBatch(batch))
    assert (status.items, status.duplicates, status.duplicates_waiting) == (3, 2, 1)
    for name in (NEAR[0], FAR[1], AWAY[0]):
        assert collect(shards, name) == 1
    wait_until(lambda: shards.of(batch).call(ReadBatch(batch)).state is BatchState.COMPLETE)
    assert shards.of(batch).call(ReadBatch(batch)).duplicates_waiting == 0


def test_a_decision_is_carried_out_after_a_restart_of_everybody(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose = (ApplyConsignment, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    assert shards.of(consignment).call(ReadConsignment(consignment)).state is ConsignmentState.COMMITTED
    shards.lose = ()
    for number in range(3):
        shards.reopen(number)
    receipt = commit(shards, consignment, 3)
    assert receipt.accepted == 3
    assert [collect(shards, name) for name in ALL] == [1, 1, 1]
    with pytest.raises(ConsignmentClosed):
        stage(shards, consignment, everybody(), parcel=1)


def test_an_answer_that_is_lost_is_asked_for_again(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose_answers = (ApplyConsignment, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    shards.lose_answers = ()
    shards.reopen(1)
    receipt = commit(shards, consignment, 3)
    assert [own.partition for own in receipt.partitions] == [1, 4, 7]
    assert [collect(shards, name) for name in ALL] == [1, 1, 1]


def test_a_round_that_a_shard_did_not_answer_is_ended_and_its_holds_go(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose_answers, shards.lose = (PrepareConsignment,), (EndRound, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    assert held(shards) == 1
    assert shards.of(FAR[0]).call(Explain(FAR[0])).not_yet_visible == 1
    shards.reopen(1)
    assert held(shards) == 1
    shards.lose_answers = shards.lose = ()
    settle(shards)
    assert held(shards) == 0
    assert shards.of(FAR[0]).call(Explain(FAR[0])).not_yet_visible == 0
    assert commit(shards, consignment, 3).accepted == 3


def test_what_is_decided_and_not_applied_is_not_yet_visible_and_operators_see_the_round(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose = (ApplyConsignment, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    explained = shards.of(AWAY[0]).call(Explain(AWAY[0]))
    assert (explained.reason, explained.not_yet_visible) == (Reason.NOT_YET_VISIBLE, 1)
    found = all_in_doubt(hub.call(ListRounds()) for hub in shards.hubs).rounds
    home = partition_of(consignment, PARTITIONS)
    seen = {(own.shard, own.state, own.partitions, own.messages) for own in found}
    assert {own.home for own in found} == {home}
    assert {own.consignment for own in found} == {consignment}
    assert (1, DoubtState.PREPARED, (4,), 1) in seen
    assert (2, DoubtState.PREPARED, (7,), 1) in seen
    (decided,) = (own for own in found if own.state is DoubtState.DECIDED)
    assert {4, 7} <= set(decided.partitions)
    assert "shards" in decided.advice
    shards.lose = ()
    settle(shards)
    assert all_in_doubt(hub.call(ListRounds()) for hub in shards.hubs).rounds == ()
    assert shards.of(AWAY[0]).call(Explain(AWAY[0])).reason is Reason.READY


def test_a_round_in_doubt_is_known_since_it_was_first_seen(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose_answers, shards.lose = (PrepareConsignment,), (EndRound, AskRound)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    note_doubts(shards.hubs[1].core)
    (first,) = shards.hubs[1].call(ListRounds()).rounds
    (again,) = shards.hubs[1].call(ListRounds()).rounds
    assert first.since == again.since
    assert first.advice.startswith(f"Asks shard {shards.hubs.index(shards.of(consignment))} ")


def test_a_home_that_died_while_it_prepared_ends_the_round(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    home = shards.of(consignment).core
    own = parse_uuid(consignment, "consignment")
    row, runs, batch = rounds.begin(home, own, {Attempt("w", 0): 3})
    procedure = rounds.voting(home, own, row, runs, batch)
    step = next(procedure)
    assert isinstance(step, Ask)
    shards.owner(step.partition).call(step.call)
    assert held(shards) == 1
    procedure.close()
    shards.reopen(shards.hubs.index(shards.of(consignment)))
    settle(shards)
    settle(shards)
    assert held(shards) == 0
    assert commit(shards, consignment, 3).accepted == 3


@pytest.mark.parametrize("ends", ["decided", "ended"])
def test_a_publish_of_what_is_held_waits_for_the_end_of_the_round(shards: Shards, ends: str) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose = (ApplyConsignment, AskRound) if ends == "decided" else (EndRound, AskRound)
    shards.lose_answers = () if ends == "decided" else (PrepareConsignment,)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    answers: list[Receipt] = []
    sender = threading.Thread(target=lambda: answers.append(shards.of(FAR[0]).call(Publish.of([letter(FAR[0], 1)]))))
    sender.start()
    assert shards.of(FAR[1]).call(Publish.of([letter(FAR[1], 40)])).accepted == 1
    assert sender.is_alive()
    shards.lose = shards.lose_answers = ()
    settle(shards)
    sender.join()
    (receipt,) = answers
    assert (receipt.accepted, receipt.duplicates) == ((0, 1) if ends == "decided" else (1, 0))
    assert collect(shards, FAR[0]) == 1


def test_who_waits_for_what_is_held_is_refused_in_the_end(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    shards.lose, shards.lose_answers = (EndRound, AskRound), (PrepareConsignment,)
    with pytest.raises(Unavailable):
        commit(shards, consignment, 3)
    failures: list[Exception] = []

    def send() -> None:
        try:
            shards.of(FAR[0]).call(Publish.of([letter(FAR[0], 1)]))
        except Unavailable as error:
            failures.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    wait_until(lambda: shards.of(FAR[0]).core.committer.parked.requests)
    shards.of(FAR[0]).core.committer.refuse_parked(0)
    sender.join()
    assert "held" in str(failures[0])
    assert held(shards) == 1


def test_two_consignments_with_the_same_messages_deliver_them_once(shards: Shards) -> None:
    first, second = begun(shards), begun(shards, AWAY[1])
    stage(shards, first, everybody())
    stage(shards, second, list(reversed(everybody())))
    answers: dict[str, Receipt] = {}
    threads = [
        threading.Thread(target=lambda own=own: answers.update({own: commit(shards, own, 3)}))
        for own in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((one.accepted, one.duplicates) for one in answers.values()) == [(0, 3), (3, 0)]
    assert [collect(shards, name) for name in ALL] == [1, 1, 1]


def test_a_discarded_consignment_leaves_nothing(shards: Shards) -> None:
    consignment = begun(shards, batch=True)
    stage(shards, consignment, everybody())
    shards.of(consignment).call(DiscardConsignment(consignment))
    with pytest.raises(ConsignmentClosed):
        commit(shards, consignment, 3)
    for hub in shards.hubs:
        staged = hub.core.memory(Prepared).staged
        staged.update(dict.fromkeys(staged, 0))
    settle(shards)
    assert rows(shards, Space.STAGED_PART) == 0
    assert staged_runs(shards) == 0


def test_a_part_of_a_consignment_that_nobody_knows_is_refused(shards: Shards) -> None:
    with pytest.raises(ConsignmentUnknown):
        shards.of(FAR[0]).call(StagePart(own_id(5), few_or_many([letter(FAR[0], 1)]), "w", 0, 0, bytes(16)))


def test_ids_of_a_consignment_and_its_batch_are_at_home_with_its_key(shards: Shards) -> None:
    consignment = begun(shards, batch=True)
    batch = shards.of(KEY).call(ReadConsignment(consignment)).batch
    assert batch is not None
    assert shards.of(consignment) is shards.of(KEY) is shards.of(batch)
    assert shard_of(shards.ranges(), 1) == 0
    assert shards.of(KEY).call(OpenBatch(key=KEY)).id != batch
    assert PARTITIONS == 8
    assert shards.of(KEY).call(Peek(KEY)) is Reason.RECIPIENT_UNKNOWN
