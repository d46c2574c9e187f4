"""The doctor on several shards: sound at any moment of what is done over all of them, and no rule between them broken unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import pytest

from restante.calls.batches import DeleteBatch, SealBatch
from restante.calls.consignments import DiscardConsignment
from restante.calls.shards import (
    ApplyConsignment,
    AskRound,
    CloseBatchParts,
    EndRound,
    LookUpConsignment,
    PrepareConsignment,
    ReportBatchParts,
)
from restante.cluster.joined_shards import JoinedShards
from restante.errors import RestanteError
from restante.hub.doctor.doctor import Report, examine
from restante.model.batches.batch import decode_counts, encode_counts
from restante.model.shards.batch_parts import PartState, decode_enlisted, encode_part
from restante.model.shards.rounds import decode_prepared, decode_round, encode_round
from restante.model.storage.changes import Changes, EntryKey, Space
from tests.shards.test_batches_over_shards import FAR, NEAR, collect, opened, publish
from tests.shards.test_batches_over_shards import settle as settle_batches
from tests.shards.test_consignments_over_shards import begun, commit, everybody, settle, stage
from tests.shards.world import QuietHub, Shards


@pytest.fixture
def shards() -> Iterator[Shards]:
    """The doctor looks at one moment: so nothing is done beside it."""
    with Shards(3, kind=QuietHub) as found:
        yield found


def examined(shards: Shards) -> Report:
    return examine(JoinedShards(shards.ranges(), shards.stores, ExitStack()))


def each_examined(shards: Shards) -> list[Report]:
    """Each shard for itself, without what the others have."""
    return [examine(store, owned=own) for store, own in zip(shards.stores, shards.ranges(), strict=True)]


def assert_sound(shards: Shards) -> Report:
    report = examined(shards)
    for one in (report, *each_examined(shards)):
        assert one.sound, one.findings
    return report


def cut_off(shards: Shards, *calls: type) -> None:
    """From now on these do not arrive: what is done over several shards stops half-way."""
    shards.lose = calls


def attempted(doing: Callable[[], object]) -> None:
    with pytest.raises(RestanteError):
        doing()


def test_a_batch_is_sound_before_and_after_its_parts_are_closed(shards: Shards) -> None:
    batch = opened(shards)
    for name in (NEAR[0], FAR[0]):
        publish(shards, batch, name, 3)
    assert_sound(shards)
    cut_off(shards, CloseBatchParts, ReportBatchParts)
    attempted(lambda: shards.of(batch).call(SealBatch(batch)))
    assert_sound(shards)
    assert collect(shards, FAR[0]) == 3
    assert_sound(shards)
    cut_off(shards, ReportBatchParts)
    settle_batches(shards)
    assert collect(shards, NEAR[0]) == 3
    assert_sound(shards)
    cut_off(shards)
    settle_batches(shards)
    assert assert_sound(shards).notes == 0
    cut_off(shards, CloseBatchParts)
    attempted(lambda: shards.of(batch).call(DeleteBatch(batch)))
    assert_sound(shards)
    cut_off(shards)
    settle_batches(shards)
    assert_sound(shards)


def test_a_consignment_is_sound_at_every_stop_of_its_rounds(shards: Shards) -> None:
    consignment = begun(shards, batch=True)
    stage(shards, consignment, everybody())
    assert_sound(shards)
    cut_off(shards, ApplyConsignment, AskRound, CloseBatchParts, LookUpConsignment)
    attempted(lambda: commit(shards, consignment, 3))
    assert_sound(shards)
    for number in range(3):
        shards.reopen(number)
    assert_sound(shards)
    cut_off(shards, LookUpConsignment)
    settle(shards)
    assert examined(shards).notes
    cut_off(shards)
    for number in range(3):
        shards.reopen(number)
    settle(shards)
    assert assert_sound(shards).notes == 0


def test_a_round_that_came_to_nothing_leaves_notes_and_no_problems(shards: Shards) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    cut_off(shards, EndRound, AskRound, ApplyConsignment, LookUpConsignment)
    shards.lose_answers = (PrepareConsignment,)
    attempted(lambda: commit(shards, consignment, 3))
    shards.lose_answers = ()
    report = assert_sound(shards)
    assert any("Its round is over" in finding.detail for finding in report.findings)
    shards.of(consignment).call(DiscardConsignment(consignment))
    report = assert_sound(shards)
    assert any("was discarded" in finding.detail for finding in report.findings)


def change(shards: Shards, space: Space, edited: Callable[[bytes], bytes | None]) -> EntryKey:
    """Change a row of a space in the last partition that has one."""
    for number, own in reversed(list(enumerate(shards.ranges()))):
        for partition in reversed(own):
            for key, value in shards.stores[number].scan(partition, space):
                entry, changes = EntryKey(partition, space, key), Changes()
                changes.entries[entry] = edited(value)
                changes.fences[partition] = shards.hubs[number].core.fence
                shards.stores[number].commit(changes)
                return entry
    raise AssertionError(f"there is no row of {space.name}")


def problems(shards: Shards) -> str:
    return " ".join(finding.detail for finding in examined(shards).findings if finding.severity.value == "problem")


def closed(value: bytes) -> bytes:
    return encode_part(msgspec.structs.replace(decode_enlisted(value), state=PartState.CLOSED))


@pytest.mark.parametrize(
    ("space", "edited", "said"),
    [
        pytest.param(Space.BATCH_ENLISTED, lambda _: None, "knows nothing of it", id="no home row of a part"),
        pytest.param(Space.BATCH_ENLISTED, closed, "has not closed its part", id="closed at home alone"),
        pytest.param(Space.BATCH, lambda _: None, "There is no batch", id="no batch"),
    ],
)
def test_a_broken_rule_of_batches_over_shards_is_found(
    shards: Shards, space: Space, edited: Callable[[bytes], bytes | None], said: str
) -> None:
    batch = opened(shards)
    for name in (NEAR[0], FAR[0]):
        publish(shards, batch, name, 3)
    change(shards, space, edited)
    assert said in problems(shards)


def test_a_count_other_than_reported_is_found(shards: Shards) -> None:
    batch = opened(shards)
    publish(shards, batch, FAR[0], 3)
    shards.of(batch).call(SealBatch(batch))
    collect(shards, FAR[0])
    settle_batches(shards)
    assert_sound(shards)
    change(
        shards, Space.BATCH_COUNT, lambda value: encode_counts(msgspec.structs.replace(decode_counts(value), added=9))
    )
    assert "counts otherwise than it reported" in problems(shards)


def lower(value: bytes) -> bytes:
    row = decode_round(value)
    return encode_round(msgspec.structs.replace(row, number=row.number - 1))


def another_round(value: bytes) -> bytes:
    row = decode_prepared(value)
    return encode_round(msgspec.structs.replace(row, round=row.round - 1))


@pytest.mark.parametrize(
    ("space", "edited", "said"),
    [
        pytest.param(Space.CONSIGNMENT_ROUND, lambda _: None, "a hold without a round", id="no round"),
        pytest.param(Space.CONSIGNMENT_ROUND, lower, "a hold without a round", id="an earlier round"),
        pytest.param(Space.PREPARED, lambda _: None, "messages are lost", id="decided and not prepared"),
        pytest.param(Space.PREPARED, another_round, "messages are lost", id="prepared for another round"),
        pytest.param(Space.CONSIGNMENT, lambda _: None, "There is no consignment", id="no consignment"),
        pytest.param(Space.STAGED_PART, lambda _: b"x", "part of a parcel", id="a part that is none"),
    ],
)
def test_a_broken_rule_of_rounds_is_found(
    shards: Shards, space: Space, edited: Callable[[bytes], bytes | None], said: str
) -> None:
    consignment = begun(shards)
    stage(shards, consignment, everybody())
    cut_off(shards, ApplyConsignment, AskRound, LookUpConsignment)
    attempted(lambda: commit(shards, consignment, 3))
    change(shards, space, edited)
    found = " ".join(f"{finding.what} {finding.detail}" for finding in examined(shards).findings)
    assert not examined(shards).sound
    assert said in found
