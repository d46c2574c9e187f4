"""Rounds in doubt: the view for operators of consignments that are being committed over several shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from restante.calls.nodes import ListRounds
from restante.hub.batches.batch_counts import home_of
from restante.hub.consignments.prepared import Prepared
from restante.hub.consignments.staged_parcels import OpenRounds
from restante.hub.engine.core import Core, uuid_text
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import moment
from restante.model.shards.node_answers import DoubtState, RoundInDoubt, RoundsInDoubt, all_in_doubt
from restante.model.shards.ranges import shard_of
from restante.model.shards.rounds import RoundPhase, RoundRow

_Doubt = tuple[bytes, int, DoubtState]
"""A consignment, its round, and the state of the round."""


@dataclass(slots=True)
class DoubtsSeen:
    """The time when this process first saw each round in doubt."""

    since: dict[_Doubt, int] = field(default_factory=dict)


def note_doubts(core: Core) -> None:
    """Record new rounds in doubt with the present time, and forget finished ones. Called periodically."""
    seen, now = core.memory(DoubtsSeen), core.clock()
    seen.since = {doubt: seen.since.get(doubt, now) for doubt in _doubts(core)}


def _doubts(core: Core) -> Iterator[_Doubt]:
    for consignment, row in tuple(core.memory(OpenRounds).rows.items()):
        yield consignment, row.number, _of_home(row)
    for (_, consignment), prepared in tuple(core.memory(Prepared).rows.items()):
        if not prepared.applied:
            yield consignment, prepared.round, DoubtState.PREPARED


def _of_home(row: RoundRow) -> DoubtState:
    return DoubtState.PREPARING if row.phase is RoundPhase.PREPARING else DoubtState.DECIDED


def list_rounds(core: Core, _: ListRounds, __: Grant) -> RoundsInDoubt:
    if core.shard is None:
        return RoundsInDoubt(rounds=())
    return all_in_doubt([RoundsInDoubt(rounds=(*_at_home(core), *_prepared(core)))])


def _at_home(core: Core) -> Iterator[RoundInDoubt]:
    for consignment, row in tuple(core.memory(OpenRounds).rows.items()):
        decided = row.phase is RoundPhase.DECIDED
        partitions = tuple(row.missing if decided else row.partitions)
        messages = sum([count for partition, count, _ in row.parts if partition in partitions])
        yield _shown(core, consignment, row.number, _of_home(row), partitions, messages, row.decided_at)


def _prepared(core: Core) -> Iterator[RoundInDoubt]:
    found: dict[tuple[bytes, int], dict[int, int]] = {}
    for (partition, consignment), row in sorted(core.memory(Prepared).rows.items(), key=itemgetter(0)):
        if not row.applied:
            found.setdefault((consignment, row.round), {})[partition] = row.messages
    for (consignment, number), parts in found.items():
        yield _shown(core, consignment, number, DoubtState.PREPARED, tuple(parts), sum(parts.values()))


def _shown(
    core: Core,
    consignment: bytes,
    number: int,
    state: DoubtState,
    partitions: tuple[int, ...],
    messages: int,
    decided_at: int = 0,
) -> RoundInDoubt:
    assert core.shard is not None, "a hub that has all partitions has no rounds"
    home, ranges = home_of(core, consignment), core.shard.carrier.ranges()
    seen = core.memory(DoubtsSeen).since.get((consignment, number, state), core.clock())
    waited_for = (home,) if state is DoubtState.PREPARED else partitions
    return RoundInDoubt(
        consignment=uuid_text(consignment),
        round=number,
        state=state,
        shard=shard_of(ranges, core.owned.start),
        partitions=partitions,
        home=home,
        messages=messages,
        since=moment(decided_at or seen),
        advice=_ADVICE[state].format(_named(sorted({shard_of(ranges, own) for own in waited_for}))),
    )


def _named(shards: list[int]) -> str:
    return f"shard {shards[0]}" if len(shards) == 1 else "shards " + ", ".join(map(str, shards))


_ADVICE = {
    DoubtState.PREPARING: "Waits for {}. If it is old, see that each of them serves: then the round ends, or is decided.",
    DoubtState.DECIDED: "Decided, and nothing is lost. Waits for {} to carry it out: see that each of them serves.",
    DoubtState.PREPARED: "Asks {} every second what was decided, and holds the messages until then: see that it serves.",
}
