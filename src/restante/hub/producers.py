"""Producers that number what they publish: judging the numbers, linking, showing and forgetting their state.

The state of a producer group in a partition is one small row, written in the commit that stores its parcel. The parcels
of a group are judged in their order. Small ones that follow each other may go into one commit; where the fate of one is
not sure before it is planned, those behind it are put off to the next commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from restante import limits
from restante.errors import (
    DataDamaged,
    InvalidClientState,
    InvalidRequest,
    ProducerDisconnected,
    ProducerUnknown,
    RestanteError,
)
from restante.hub.binding_arrivals import OpenBatches
from restante.hub.core import Core
from restante.hub.partitions import Partition
from restante.hub.planning import Draft
from restante.model import intake, producer
from restante.model.answers import ProducerPage, ProducerState, Receipt
from restante.model.changes import Space
from restante.model.keys import key_number, number_key
from restante.model.paging import page_size
from restante.model.parcel_digest import Digests, digests_of_columns, of_batch
from restante.model.producer import ProducerRow, Standing, standing, state_of
from restante.model.refusals import refusal

if TYPE_CHECKING:
    from restante.hub.publish import Publish

_ROWS_AT_ONCE = 1_000
_LOOK_EVERY = 3_600 * 1_000_000
_NOTHING = Receipt(accepted=0, duplicates=0, partitions=())
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ProducerRow)


@dataclass(slots=True)
class Admission:
    """What is to be stored, as far as numbers say."""

    publishes: list[Publish] = field(default_factory=list)
    followers: set[Publish] = field(default_factory=set)
    """Those whose number is the next only if the one before them in their line is stored."""
    ahead: dict[tuple[int, int], Publish | None] = field(default_factory=dict)
    """By line, what its next one has to follow; None if nothing more of it can be judged in this commit."""

    def put_off(self, request: Publish) -> bool:
        """Whether the next commit takes it."""
        request.put_off = request in self.followers
        return request.put_off


def admitted(core: Core, draft: Draft, publishes: Sequence[Publish]) -> Admission:
    """Those that are to be stored; the others are answered, or put off."""
    found, batches = Admission(), OpenBatches(core, draft)
    for request in publishes:
        if request.numbers is None:
            if not batches.refuse(request):
                found.publishes.append(request)
        elif request.line in found.ahead:
            _admit_follower(found, request, batches)
        elif _admit(core, draft, request, batches):
            found.publishes.append(request)
            found.ahead[_line(request)] = request
        else:
            found.ahead[_line(request)] = None
    return found


def _admit_follower(found: Admission, request: Publish, batches: OpenBatches) -> None:
    """A later one of a line: it is stored with the one before, or judged when that is known."""
    before = found.ahead[_line(request)]
    if before is not None and _follows(request, before):
        if batches.refuse(request):
            found.ahead[_line(request)] = None
            return
        found.publishes.append(request)
        found.followers.add(request)
        found.ahead[_line(request)] = request
    else:
        request.put_off = True
        found.ahead[_line(request)] = None


def _follows(request: Publish, before: Publish) -> bool:
    """Small ones alone: a large one is stored behind the small ones of its commit, so nothing may follow it there."""
    small = before.unit is None and request.unit is None and bool(request.messages)
    assert request.numbers is not None
    assert before.numbers is not None
    return small and producer.follows(request.numbers, before.numbers, len(before.messages))


def _line(request: Publish) -> tuple[int, int]:
    line = request.line
    assert line is not None, "who numbers is in a line"
    return line


def _admit(core: Core, draft: Draft, request: Publish, batches: OpenBatches) -> bool:
    numbers, count = request.numbers, request.count()
    assert numbers is not None, "only numbered ones are judged here"
    row: ProducerRow | None = None
    try:
        row = _known(core, request)
        where = standing(row, numbers, count)
        # A repetition is answered as it was, also if its batch has been sealed since.
        if where is Standing.NEXT and request.batch is not None:
            batches.check(request.batch)
        if where is Standing.NEXT and count:
            return True
        request.result = _NOTHING if row is None or where is Standing.NEXT else _repeated(core, draft, request, row)
    except RestanteError as error:
        request.error = error
        _count_refusal(core, draft, request, row, error)
    return False


def _repeated(core: Core, draft: Draft, request: Publish, row: ProducerRow) -> Receipt:
    """The answer to the last range once more."""
    numbers, partition = request.numbers, request.partition
    assert numbers is not None
    assert partition is not None
    digests = request.digests or _digests(core, request)
    receipt = producer.repeated(row, numbers, digests, partition)
    core.tally.replays += 1
    _put(core, draft, partition, numbers.group, producer.row_after(row, numbers, receipt, digests, core.clock()))
    return receipt


def _digests(core: Core, request: Publish) -> Digests:
    columns, faults = intake.from_messages(request.messages, claim_check_origins=core.claim_check_origins())
    if faults:
        raise refusal(faults)
    return of_batch(digests_of_columns(columns, core.deed.key), request.batch)


def _count_refusal(core: Core, draft: Draft, request: Publish, row: ProducerRow | None, error: RestanteError) -> None:
    """Attempts of those who were fenced off are remembered with the group."""
    if isinstance(error, ProducerDisconnected) and row is not None:
        core.tally.fenced += 1
        assert request.partition is not None
        assert request.numbers is not None
        _put(core, draft, request.partition, request.numbers.group, producer.row_fenced(row))
    elif isinstance(error, InvalidClientState):
        core.tally.refused_numbers += 1


def conclude(core: Core, draft: Draft, stored: Sequence[Publish]) -> None:
    """The new states of the groups whose parcels are stored."""
    numbered = [request for request in stored if request.numbers is not None and request.error is None]
    if not numbered:
        return
    now, rows = core.clock(), dict[tuple[int, int], ProducerRow]()
    for request in numbered:
        numbers, receipt, key = request.numbers, request.result, _line(request)
        assert numbers is not None
        assert receipt is not None
        assert request.digests is not None
        before = rows[key] if key in rows else _known(core, request)
        rows[key] = producer.row_after(before, numbers, receipt, request.digests, now)
    for key, row in rows.items():
        draft.put(key[0], Space.PRODUCER, number_key(key[1]), _encoder.encode(row))
    draft.applies.append(partial(_remember_all, core, rows))


def _known(core: Core, request: Publish) -> ProducerRow | None:
    """What is committed; those asked for last are remembered."""
    key = _line(request)
    row = core.producers.get(key)
    if row is None:
        value = core.store.get(key[0], Space.PRODUCER, number_key(key[1]))
        if value is not None:
            row = _decoded(value)
            _remember(core, key, row)
    return row


def _decoded(value: bytes) -> ProducerRow:
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"The state of a producer cannot be read: {error}. Run `restante doctor`.") from error


def _put(core: Core, draft: Draft, partition: int, group: int, row: ProducerRow) -> None:
    draft.put(partition, Space.PRODUCER, number_key(group), _encoder.encode(row))
    draft.applies.append(partial(_remember, core, (partition, group), row))


def _remember_all(core: Core, rows: dict[tuple[int, int], ProducerRow]) -> None:
    for key, row in rows.items():
        _remember(core, key, row)


def _remember(core: Core, key: tuple[int, int], row: ProducerRow) -> None:
    """The latest stand last, so that the first may be forgotten."""
    known = core.producers
    known.pop(key, None)
    if len(known) >= limits.PRODUCERS_REMEMBERED_MAX:
        del known[next(iter(known))]
    known[key] = row


def link(
    core: Core,
    partition: int,
    *,
    producer_group: int | None,
    owner_level: int | None,
    last_published_sequence_number: int | None,
) -> ProducerState:
    """Take a producer group up, or a new one; lower owner levels are fenced off from then on."""
    if producer_group is not None:
        producer.check_group(producer_group)
    if owner_level is not None:
        producer.check_level(owner_level)
    if last_published_sequence_number is not None:
        producer.check_sequence("last_published_sequence_number", last_published_sequence_number)

    def plan(draft: Draft) -> ProducerState | RestanteError:
        group = _new_group(core, draft, partition) if producer_group is None else producer_group
        row = _planned(draft, partition, group)
        try:
            linked = producer.row_linked(row, group, owner_level, last_published_sequence_number, core.clock())
        except ProducerDisconnected as error:
            assert row is not None, "who is unknown is not fenced off"
            core.tally.fenced += 1
            _put(core, draft, partition, group, producer.row_fenced(row))
            return error
        _put(core, draft, partition, group, linked)
        return state_of(linked, partition, group)

    answer = core.commit(plan)
    if isinstance(answer, RestanteError):
        raise answer
    return answer


def _new_group(core: Core, draft: Draft, partition: int) -> int:
    while True:
        group = int.from_bytes(core.random(8), "big") >> 1
        if _planned(draft, partition, group) is None:
            return group


def _planned(draft: Draft, partition: int, group: int) -> ProducerRow | None:
    value = draft.get(partition, Space.PRODUCER, number_key(group))
    return None if value is None else _decoded(value)


def state(core: Core, partition: int, group: int) -> ProducerState:
    producer.check_group(group)
    value = core.store.get(partition, Space.PRODUCER, number_key(group))
    if value is None:
        raise ProducerUnknown(
            f"Producer group {group} is not known in partition {partition}: it has not published there, or was forgotten."
        )
    return state_of(_decoded(value), partition, group)


def states(core: Core, partition: int, limit: int | None, after: str | None) -> ProducerPage:
    """A page of a partition's producers by their groups; `next` is the next `after`."""
    size = page_size(limit)
    start = b"" if after is None else number_key(_after(after) + 1)
    found = core.store.scan(partition, Space.PRODUCER, start=start, limit=size + 1)
    page = [state_of(_decoded(value), partition, key_number(key)) for key, value in found[:size]]
    following = str(page[-1].producer_group) if len(found) > size else None
    return ProducerPage(producers=tuple(page), next=following)


def _after(token: str) -> int:
    if not (token.isascii() and token.isdecimal() and len(token) <= 19 and int(token) <= limits.PRODUCER_GROUP_MAX):
        raise InvalidRequest(f"after must be the `next` of the page before, not {token!r}.", parameter="after")
    return int(token)


def forget(core: Core, partition: Partition) -> None:
    """The state of producers that nobody has used for as long as it is kept goes."""
    kept = int(core.settings.producer_retention_seconds * 1_000_000)
    if core.clock() < core.producers_due.get(partition.number, 0):
        return
    oldest, start = core.clock(), b""
    while page := core.store.scan(partition.number, Space.PRODUCER, start=start, limit=_ROWS_AT_ONCE):
        rows = [(key, value, _decoded(value).active_at) for key, value in page]
        old = [(key, value) for key, value, active_at in rows if active_at + kept <= core.clock()]
        if old:
            core.commit(lambda draft, old=old: _delete_unchanged(core, draft, partition.number, old))  # type: ignore[misc]
        oldest = min([oldest, *(active_at for _, _, active_at in rows if active_at + kept > core.clock())])
        start = page[-1][0] + b"\0"
    # A state is kept for a day at least, so an hour more does no harm; and looking at all of them takes a while.
    core.producers_due[partition.number] = max(oldest + kept, core.clock() + _LOOK_EVERY)


def _delete_unchanged(core: Core, draft: Draft, partition: int, entries: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in entries:
        if draft.get(partition, Space.PRODUCER, key) == value:
            draft.delete(partition, Space.PRODUCER, key)
            draft.applies.append(partial(core.producers.pop, (partition, key_number(key)), None))
