"""Producers that number their messages: judging the numbers; linking, showing and forgetting the state of a group.

The state of a producer group in a partition is one small row, written in the commit that stores its parcel. Each owner has
its own groups: the key of the row is the group's number, then the owner. The parcels of a group are judged in order.
Consecutive small parcels may go into one commit. If it is uncertain whether a parcel will be stored, those after it are
put off to the next commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import msgspec

from restante import limits
from restante.calls.producers import ListProducers, OpenLink
from restante.decoders import packed_decoder
from restante.errors import (
    DataDamaged,
    InvalidClientState,
    InvalidRequest,
    ProducerDisconnected,
    ProducerUnknown,
    RestanteError,
)
from restante.hub.engine.commit_request import RequestLine
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import Partition
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing.batch_items import OpenBatches
from restante.hub.publishing.publish_request import PublishRequest
from restante.hub.publishing.refuse import whole_refusal
from restante.model.access.access import NO_OWNER, OWNER_BYTES, Grant, may_see, owner_of, spaces_of
from restante.model.mailboxes.answers import ProducerPage, ProducerState, Receipt
from restante.model.mailboxes.list_pages import page_size
from restante.model.producers import producer
from restante.model.producers.parcel_digest import Digests, digests_of_columns, of_batch
from restante.model.producers.producer import ProducerRow, Standing, key_owner, producer_key, standing, state_of
from restante.model.publishing import intake
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number, number_key

_ROWS_AT_ONCE = 1_000
_LOOK_EVERY = 3_600 * 1_000_000
_NOTHING = Receipt(accepted=0, duplicates=0, partitions=())
_OWNER = re.compile(rf"[0-9a-f]{{{2 * OWNER_BYTES}}}")
_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(ProducerRow)


@dataclass(slots=True)
class ProducerMemory:
    """The producer states of one open hub, and counts of repeated and refused publishes."""

    rows: dict[RequestLine, ProducerRow] = field(default_factory=dict)
    """The states of the groups that published last. Only the thread with the pen changes them."""
    due: dict[int, int] = field(default_factory=dict)
    """For each partition, the time before which no state can be past its retention."""
    replays: int = 0
    fenced: int = 0
    refused_numbers: int = 0


@dataclass(slots=True)
class NumberedAdmission:
    """The publishes of a commit that may be stored, judging by their numbers."""

    publishes: list[PublishRequest] = field(default_factory=list)
    followers: set[PublishRequest] = field(default_factory=set)
    """Publishes whose number is the next only if the one before them in their line is stored."""
    ahead: dict[RequestLine, PublishRequest | None] = field(default_factory=dict)
    """The request that the next one of each line must follow; None if this commit can judge no more requests of the line."""

    def put_off(self, request: PublishRequest) -> bool:
        """Put a follower off to the next commit; return whether it is one."""
        request.put_off = request in self.followers
        return request.put_off


def admitted(core: Core, draft: RequestDraft, publishes: Sequence[PublishRequest]) -> NumberedAdmission:
    """The publishes to be stored. The others get their answer here, or are put off."""
    found, batches = NumberedAdmission(), OpenBatches(core, draft)
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


def _admit_follower(found: NumberedAdmission, request: PublishRequest, batches: OpenBatches) -> None:
    """Admit a later publish of a line with the one before it, or put it off until the outcome of that one is known."""
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


def are_plainly_next(core: Core, numbered: Sequence[PublishRequest]) -> bool:
    """Whether each of these is the next of its group according to memory alone, and none needs a closer look."""
    rows, ahead = core.memory(ProducerMemory).rows, dict[RequestLine, PublishRequest]()
    for request in numbered:
        line, before = _line(request), ahead.get(_line(request))
        if before is None and not _is_next(rows.get(line), request):
            return False
        if before is not None and not _follows(request, before):
            return False
        ahead[line] = request
    return ahead.keys().isdisjoint(core.committer.parked.lines)


def _is_next(row: ProducerRow | None, request: PublishRequest) -> bool:
    assert request.numbers is not None, "only numbered ones are judged here"
    try:
        return row is not None and standing(row, request.numbers, request.count()) is Standing.NEXT
    except RestanteError:
        return False


def _follows(request: PublishRequest, before: PublishRequest) -> bool:
    """Whether a publish may follow another in one commit. Only small ones may: a commit stores its large ones last."""
    small = before.unit is None and request.unit is None and request.count() > 0
    assert request.numbers is not None
    assert before.numbers is not None
    return small and producer.follows(request.numbers, before.numbers, before.count())


def line_of(core: Core, caller: Grant, partition: int, group: int) -> RequestLine:
    """The line of a caller's group: its own, unless only a group without an owner exists that the caller may use."""
    spaces = spaces_of(caller)
    own = partition, producer_key(group, spaces[0])
    if len(spaces) == 1 or own in core.memory(ProducerMemory).rows or _is_stored(core, own):
        return own
    nobodys = partition, producer_key(group, NO_OWNER)
    return nobodys if _is_stored(core, nobodys) else own


def _is_stored(core: Core, line: RequestLine) -> bool:
    return core.store.get(line[0], Space.PRODUCER, line[1]) is not None


def _line(request: PublishRequest) -> RequestLine:
    line = request.line
    assert line is not None, "who numbers is in a line"
    return line


def _admit(core: Core, draft: RequestDraft, request: PublishRequest, batches: OpenBatches) -> bool:
    numbers, count = request.numbers, request.count()
    assert numbers is not None, "only numbered ones are judged here"
    row: ProducerRow | None = None
    try:
        row = _known(core, request)
        where = standing(row, numbers, count)
        # A repetition gets its first answer again, even if the batch has been sealed since.
        if where is Standing.NEXT and request.batch is not None:
            batches.check(request.batch, request)
        if where is Standing.NEXT and count:
            return True
        request.result = _NOTHING if row is None or where is Standing.NEXT else _repeated(core, draft, request, row)
    except RestanteError as error:
        request.error = error
        _count_refusal(core, draft, request, row, error)
    return False


def _repeated(core: Core, draft: RequestDraft, request: PublishRequest, row: ProducerRow) -> Receipt:
    """Repeat the receipt of the group's last range."""
    numbers, partition = request.numbers, request.partition
    assert numbers is not None
    assert partition is not None
    digests = request.digests or _digests(core, request)
    receipt = producer.repeated(row, numbers, digests, partition)
    core.memory(ProducerMemory).replays += 1
    _put(core, draft, _line(request), producer.row_after(row, numbers, receipt, digests, core.clock()))
    return receipt


def _digests(core: Core, request: PublishRequest) -> Digests:
    columns, faults = intake.from_messages(
        request.messages, claim_check_origins=claim_check_origins(core), data_bytes_max=core.settings.data_bytes_max
    )
    if faults:
        raise whole_refusal(core, columns, faults, request.partition, request.caller)
    return of_batch(digests_of_columns(columns, core.deed.key), request.batch)


def _count_refusal(
    core: Core, draft: RequestDraft, request: PublishRequest, row: ProducerRow | None, error: RestanteError
) -> None:
    """Count a refusal. Attempts of producers that are fenced off are also counted in the row of their group."""
    if isinstance(error, ProducerDisconnected) and row is not None:
        core.memory(ProducerMemory).fenced += 1
        _put(core, draft, _line(request), producer.row_fenced(row))
    elif isinstance(error, InvalidClientState):
        core.memory(ProducerMemory).refused_numbers += 1


def conclude(core: Core, draft: RequestDraft, stored: Sequence[PublishRequest]) -> None:
    """Write the new states of the groups whose parcels are stored."""
    numbered = [request for request in stored if request.numbers is not None and request.error is None]
    if not numbered:
        return
    now, rows = core.clock(), dict[RequestLine, ProducerRow]()
    for request in numbered:
        numbers, receipt, key = request.numbers, request.result, _line(request)
        assert numbers is not None
        assert receipt is not None
        assert request.digests is not None
        before = rows[key] if key in rows else _known(core, request)
        rows[key] = producer.row_after(before, numbers, receipt, request.digests, now)
    for line, row in rows.items():
        draft.put(line[0], Space.PRODUCER, line[1], _encoder.encode(row))
    draft.applies.append(partial(_remember_all, core, rows))


def _known(core: Core, request: PublishRequest) -> ProducerRow | None:
    """The committed state of a line, from memory or else from the store."""
    key = _line(request)
    row = core.memory(ProducerMemory).rows.get(key)
    if row is None:
        value = core.store.get(key[0], Space.PRODUCER, key[1])
        if value is not None:
            row = _decoded(value)
            _remember(core, key, row)
    return row


def _decoded(value: bytes) -> ProducerRow:
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"The state of a producer cannot be read: {error}. Run `restante doctor`.") from error


def _put(core: Core, draft: RequestDraft, line: RequestLine, row: ProducerRow) -> None:
    draft.put(line[0], Space.PRODUCER, line[1], _encoder.encode(row))
    draft.applies.append(partial(_remember, core, line, row))


def _remember_all(core: Core, rows: dict[RequestLine, ProducerRow]) -> None:
    for key, row in rows.items():
        _remember(core, key, row)


def _remember(core: Core, key: RequestLine, row: ProducerRow) -> None:
    """Put a state last in `rows`, and forget the first, which is the least recent, when there are too many."""
    known = core.memory(ProducerMemory).rows
    known.pop(key, None)
    if len(known) >= limits.PRODUCERS_REMEMBERED_MAX:
        del known[next(iter(known))]
    known[key] = row


def link(core: Core, call: OpenLink, caller: Grant) -> ProducerState:
    """Link to a producer group, or to a new one. Lower owner levels are fenced off from then on."""
    partition, producer_group, owner_level = call.partition, call.producer_group, call.owner_level
    if producer_group is not None:
        producer.check_group(producer_group)
    if owner_level is not None:
        producer.check_level(owner_level)
    if call.last_published_sequence_number is not None:
        producer.check_sequence("last_published_sequence_number", call.last_published_sequence_number)
    taken = None if producer_group is None else line_of(core, caller, partition, producer_group)

    def plan(draft: RequestDraft) -> ProducerState | RestanteError:
        line = _new_line(core, draft, partition, caller) if taken is None else taken
        row, group = _planned(draft, line), key_number(line[1])
        try:
            linked = producer.row_linked(row, group, owner_level, call.last_published_sequence_number, core.clock())
        except ProducerDisconnected as error:
            assert row is not None, "who is unknown is not fenced off"
            core.memory(ProducerMemory).fenced += 1
            _put(core, draft, line, producer.row_fenced(row))
            return error
        _put(core, draft, line, linked)
        return _state_of(line, linked)

    answer = core.commit(plan)
    if isinstance(answer, RestanteError):
        raise answer
    return answer


def _new_line(core: Core, draft: RequestDraft, partition: int, caller: Grant) -> RequestLine:
    while True:
        line = partition, producer_key(int.from_bytes(core.random(8), "big") >> 1, owner_of(caller))
        if _planned(draft, line) is None:
            return line


def _planned(draft: RequestDraft, line: RequestLine) -> ProducerRow | None:
    value = draft.get(line[0], Space.PRODUCER, line[1])
    return None if value is None else _decoded(value)


def _state_of(line: RequestLine, row: ProducerRow) -> ProducerState:
    partition, key = line
    return state_of(row, partition, key_number(key), key_owner(key))


def state(core: Core, partition: int, group: int, caller: Grant) -> ProducerState:
    """The state of the caller's own group of this number, or else of the first such group that the caller may see."""
    producer.check_group(group)
    line = line_of(core, caller, partition, group)
    for key, value in (
        *core.store.scan(partition, Space.PRODUCER, start=line[1], end=line[1] + b"\0"),
        *core.store.scan(partition, Space.PRODUCER, start=number_key(group), end=number_key(group + 1)),
    ):
        if key == line[1] or may_see(caller, key_owner(key)):
            return _state_of((partition, key), _decoded(value))
    raise ProducerUnknown(
        f"Producer group {group} is not known in partition {partition}: it has not published there, or was forgotten."
    )


def states(core: Core, call: ListProducers, caller: Grant) -> ProducerPage:
    """A page of a partition's producers by their groups; `next` is the next `after`."""
    size, start = page_size(call.limit), b"" if call.after is None else _after(call.after)
    found = list(islice(_visible(core, call.partition, caller, start), size + 1))
    page = [_state_of((call.partition, key), _decoded(value)) for key, value in found[:size]]
    return ProducerPage(producers=tuple(page), next=_token(found[size - 1][0]) if len(found) > size else None)


def _visible(core: Core, partition: int, caller: Grant, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows from key `start` on that the caller may see."""
    while page := core.store.scan(partition, Space.PRODUCER, start=start, limit=_ROWS_AT_ONCE):
        yield from ((key, value) for key, value in page if may_see(caller, key_owner(key)))
        start = page[-1][0] + b"\0"


def _token(key: bytes) -> str:
    owner = key_owner(key).hex()
    return f"{key_number(key)}-{owner}" if owner else str(key_number(key))


def _after(token: str) -> bytes:
    """The first key after the one that a token names."""
    number, _, owner = token.partition("-")
    right = number.isascii() and number.isdecimal() and len(number) <= 19 and int(number) <= limits.PRODUCER_GROUP_MAX
    if not right or not (_OWNER.fullmatch(owner) or number == token):
        raise InvalidRequest(f"after must be the `next` of the page before, not {token!r}.", parameter="after")
    return producer_key(int(number), bytes.fromhex(owner)) + b"\0"


def forget(core: Core, partition: Partition) -> None:
    """Delete the states of groups that have been unused for longer than `producer_retention_seconds`."""
    kept = int(core.settings.producer_retention_seconds * 1_000_000)
    if core.clock() < core.memory(ProducerMemory).due.get(partition.number, 0):
        return
    oldest, start = core.clock(), b""
    while page := core.store.scan(partition.number, Space.PRODUCER, start=start, limit=_ROWS_AT_ONCE):
        rows = [(key, value, _decoded(value).active_at) for key, value in page]
        old = [(key, value) for key, value, active_at in rows if active_at + kept <= core.clock()]
        if old:
            core.commit(lambda draft, old=old: _delete_unchanged(core, draft, partition.number, old))  # type: ignore[misc]
        oldest = min([oldest, *(active_at for _, _, active_at in rows if active_at + kept > core.clock())])
        start = page[-1][0] + b"\0"
    # States are kept for at least a day, so deleting one an hour late does no harm, and examining all of them takes a while.
    core.memory(ProducerMemory).due[partition.number] = max(oldest + kept, core.clock() + _LOOK_EVERY)


def _delete_unchanged(core: Core, draft: RequestDraft, partition: int, entries: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in entries:
        if draft.get(partition, Space.PRODUCER, key) == value:
            draft.delete(partition, Space.PRODUCER, key)
            draft.applies.append(partial(core.memory(ProducerMemory).rows.pop, (partition, key), None))
