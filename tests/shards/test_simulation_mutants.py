"""Each rule, taken away, breaks a promise in some simulated world: so the simulation looks.

A mutant names the parts of the worlds in which it is looked for, and the seed with which the search begins: one that is known
to find it, so that the search is short. When the code changes, another one may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from restante.calls.shards import EndRound
from restante.client.groups.holdings import Holdings, TakenPage
from restante.errors import Unavailable
from restante.hub.batches import batch_counts, batch_parts, part_calls
from restante.hub.batches import subject as batches
from restante.hub.consignments import prepared, rounds
from restante.hub.consignments import subject as consigning
from restante.hub.consignments.staged_parcels import OpenRounds
from restante.hub.door import open_store
from restante.hub.door.hub import OpenHub
from restante.hub.door.opening_rows import BlobsAhead, OpeningRows
from restante.hub.engine import commit_outcomes
from restante.hub.engine.commit_outcomes import Outcomes
from restante.hub.engine.core import Core
from restante.hub.engine.plan import CommitPlan, RequestDraft
from restante.hub.engine.procedures import Procedure
from restante.hub.groups import shard_groups
from restante.hub.groups.group_rows import position_so_far
from restante.hub.mailboxes.live_mail import LivePost
from restante.hub.publishing import producers
from restante.hub.publishing.publish_request import PublishRequest
from restante.model.batches.batch import Counts
from restante.model.groups import group_position
from restante.model.groups.group_position import PositionRow
from restante.model.live.committed_mail import Elsewhere, Mail
from restante.model.producers.producer import ProducerNumbers, ProducerRow, Standing, standing
from restante.model.shards.batch_parts import EnlistedPart, total_at_home
from restante.model.shards.group_parts import PartitionMove
from restante.model.shards.rounds import RoundPhase, RoundRow, phase_for
from restante.model.storage.changes import Changes
from restante.ports.store import StoreReader
from restante.stores.memory import MemoryStore
from tests.shards import simulation
from tests.shards.simulated_worlds import Part, play

SEEDS = 120


class Mutant(NamedTuple):
    """Where a rule stands, what stands there instead, and where that is looked for."""

    place: object
    name: str
    instead: Callable[..., Any]
    parts: frozenset[Part]
    seed: int = 0


def _nothing(*_: Any) -> None:
    """What a mutant does in place of a rule."""


# --- Batches and consignments -----------------------------------------------------------------------------------------


def _not_awaited(_core: Core, _batch: bytes) -> Procedure[None]:
    yield from ()


def _impatient(core: Core, consignment: bytes, number: int, partitions: tuple[int, ...]) -> Procedure[None]:
    """Who gets no answer from home lets go."""
    try:
        yield from _inquire(core, consignment, number, partitions)
    except Unavailable:
        core.commit(lambda draft: prepared._plan_end(core, EndRound(consignment, number, partitions), draft))


_inquire = prepared._inquiring


def _told_early(by_hand: Counts, parts: Iterable[EnlistedPart]) -> Counts:
    return total_at_home(by_hand, [part for part in parts if part.final is not None])


def _forgotten(row: RoundRow | None, number: int, partitions: tuple[int, ...]) -> RoundPhase:
    phase = phase_for(row, number, partitions)
    return RoundPhase.ENDED if phase is RoundPhase.DECIDED else phase


# --- Owners -----------------------------------------------------------------------------------------------------------


def _same_fence(self: MemoryStore, partition_count: int, *, first: int = 0) -> int:
    fences = self._durable.fences
    fences.update({number: fences.get(number, 1) for number in range(first, partition_count)})
    return fences[first]


def _rows_of_then(self: OpeningRows, store: StoreReader, partitions: range, ahead: BlobsAhead) -> None:
    """The rows as they were when the heir looked, although their owner went on."""
    _open(self, store, partitions, ahead)
    kept = vars(ahead).setdefault("then", (self._rows, self._blobs))
    self._rows, self._blobs = kept


_open = OpeningRows.__init__


# --- Producers --------------------------------------------------------------------------------------------------------


def _remembered(core: Core, request: PublishRequest) -> ProducerRow | None:
    """What memory has, and nothing else."""
    return core.memory(producers.ProducerMemory).rows.get(producers._line(request))


def _unfenced(row: ProducerRow | None, numbers: ProducerNumbers, count: int) -> Standing:
    if row is not None and numbers.owner_level < row.owner_level:
        return Standing.NEXT
    return standing(row, numbers, count)


# --- Live -------------------------------------------------------------------------------------------------------------


def _announced_first(self: Outcomes, plan: CommitPlan, changes: Changes) -> None:
    self._bring_up(plan)
    commit_outcomes._store(plan.store, changes)


def _unlooked(self: OpenHub, recipient: str) -> int:
    return self.core.partitions[self.core.address(recipient).partition].counters.visible


_announce = LivePost.announce


def _without_consignments(self: LivePost, mail: Sequence[Mail]) -> None:
    _announce(self, [item for item in mail if not isinstance(item, Elsewhere)])


# --- Groups -----------------------------------------------------------------------------------------------------------


def _moved_at_any_rate(core: Core, draft: RequestDraft, name: str, move: PartitionMove) -> PositionRow:
    before = position_so_far(core, draft, name, move.partition)
    return _moved(core, draft, name, msgspec.structs.replace(move, generation=before.generation))


_moved = shard_groups._moved


def _done_when_taken(self: Holdings) -> TakenPage | None:
    page = _take(self)
    if page is not None:
        page.holding.done = page.position
    return page


_take = Holdings.take


def _given_as_before(row: PositionRow, member_id: bytes, _now: int) -> PositionRow:
    return msgspec.structs.replace(row, holder=member_id)


HOME, PRODUCERS = frozenset({Part.HOME}), frozenset({Part.PRODUCERS})
FOLLOWERS, GROUPS = frozenset({Part.HOME, Part.FOLLOWERS}), frozenset({Part.GROUPS})

MUTANTS = {
    "a fence is not checked": Mutant(MemoryStore, "_require_fences", _nothing, HOME, 11),
    "a fence is not raised": Mutant(MemoryStore, "raise_fences", _same_fence, HOME, 7),
    "blob numbers are without the fence": Mutant(open_store, "_number_by_fence", _nothing, HOME, 7),
    "nobody looks at the lease": Mutant(simulation.OwnersStore, "require_owned", _nothing, HOME, 69),
    "rows that were read ahead are good": Mutant(OpeningRows, "__init__", _rows_of_then, HOME | {Part.MOVES}),
    "the closing of parts is not awaited": Mutant(part_calls, "closing", _not_awaited, HOME),
    "a part reports before it applies": Mutant(batch_parts, "_is_promised", lambda *_: False, HOME, 34),
    "a batch is complete too early": Mutant(batch_counts, "total_at_home", _told_early, HOME),
    "a hold is let go by time": Mutant(prepared, "_inquiring", _impatient, HOME, 80),
    "a decision is forgotten": Mutant(rounds, "phase_for", _forgotten, HOME, 32),
    "rounds are forgotten by the next owner": Mutant(consigning, "load_rounds", lambda *_: OpenRounds(), HOME, 1),
    "holds are forgotten by the next owner": Mutant(consigning, "load_prepared", _nothing, HOME, 1),
    "work on batches is forgotten by the next owner": Mutant(
        batches, "load_part_work", lambda *_: batch_parts.PartWork(), HOME
    ),
    "explain knows nothing of what is decided": Mutant(consigning, "promised_for", lambda *_: 0, HOME),
    "a number is forgotten by the next owner": Mutant(producers, "_known", _remembered, PRODUCERS),
    "a producer that was taken over goes on": Mutant(producers, "standing", _unfenced, PRODUCERS, 1),
    "what is pushed is not stored yet": Mutant(Outcomes, "store", _announced_first, FOLLOWERS, 71),
    "a follower is taken by who has lost the lease": Mutant(OpenHub, "visible_sequence", _unlooked, FOLLOWERS, 90),
    "a consignment is not announced": Mutant(LivePost, "announce", _without_consignments, FOLLOWERS, 3),
    "a generation is not checked": Mutant(group_position, "check_generation", _nothing, GROUPS, 44),
    "a generation is not raised": Mutant(shard_groups, "given", _given_as_before, GROUPS),
    "a late move is carried out": Mutant(shard_groups, "_moved", _moved_at_any_rate, GROUPS, 4),
    "a position is written before its page is handled": Mutant(Holdings, "take", _done_when_taken, GROUPS),
    "a lease of a member never ends": Mutant(simulation, "end_leases", lambda _: 0, GROUPS, 7),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_rule_that_is_taken_away_is_missed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, instead, parts, seed = MUTANTS[mutant]
    monkeypatch.setattr(place, name, instead)
    with pytest.raises(AssertionError, match="seed"):
        play(range(seed, seed + SEEDS), parts)
