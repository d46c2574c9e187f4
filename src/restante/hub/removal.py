"""Withdraw, set aside, release, purge and expire: messages settled, or unsettled, out of turn.

Each looks first, outside the committer's thread, and commits only if the heads are still as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.errors import BundleOpen, MessageCollected, MessageUnknown
from restante.hub.core import Address, Core, Stale, uuid_text
from restante.hub.history import Located, find_row
from restante.hub.mailbox import Chunk, Opened, chunks, look
from restante.hub.moving import move_to_end
from restante.hub.planning import Draft
from restante.hub.settling import change, settle
from restante.model.change import ChangeKind
from restante.model.head import EMPTY_HEAD, Apart, Head, Numbers, Range, apart_of, waiting_mask, with_apart
from restante.model.keys import Cabinet
from restante.model.message import State

Parts = list[tuple[Numbers, NDArray[np.bool_]]]
"""Neighbouring numbers of a cabinet, and which of them are to be settled."""


def withdraw(core: Core, address: Address, message_id: str) -> None:
    core.look_and_commit(lambda: _withdraw(core, address, message_id))


def set_aside(core: Core, address: Address, message_id: str) -> None:
    core.look_and_commit(lambda: _set_aside(core, address, message_id))


def release(core: Core, address: Address, message_id: str) -> None:
    core.look_and_commit(lambda: _release(core, address, message_id))


def _withdraw(core: Core, address: Address, message_id: str) -> None:
    found, head = _find(core, address, message_id)
    if found.state in (State.WITHDRAWN, State.EXPIRED):
        _settle_expired(core, address, found, head)
        return
    _check_not_collected(found, message_id)
    _check_not_held(found, head)
    _settle_one(core, address, found, head, ChangeKind.WITHDRAWN, waited=found.state is State.WAITING)


def _set_aside(core: Core, address: Address, message_id: str) -> None:
    found, head = _find(core, address, message_id)
    _check_not_collected(found, message_id)
    if found.state is State.SET_ASIDE:
        return
    if found.state is not State.WAITING:
        _settle_expired(core, address, found, head)
        raise MessageUnknown(f"Message {message_id} is {found.state.value}: it cannot be set aside.", id=message_id)
    _check_not_held(found, head)
    _settle_one(core, address, found, head, ChangeKind.SET_ASIDE, waited=True)


def _release(core: Core, address: Address, message_id: str) -> None:
    found, head = _find(core, address, message_id)
    _check_not_collected(found, message_id)
    if found.state is State.WAITING:
        return
    if found.state is not State.SET_ASIDE:
        raise MessageUnknown(f"Message {message_id} is {found.state.value}: it cannot be released.", id=message_id)
    reached = max(head.head, head.open.last if head.open is not None else 0)
    in_place = found.number > reached

    def plan(draft: Draft) -> None:
        _check_head(draft, address, found.cabinet, head)
        own = (Range(found.number, found.number),)
        record = change(found.cabinet, ChangeKind.RELEASED, core.clock(), 1, own)
        if in_place:
            draft.record(address.partition, address.hash, record)
        else:
            moved = msgspec.structs.replace(record, moved=True)
            draft.put_record(address.partition, address.hash, move_to_end(core, draft, address, found), moved)
        apart = with_apart(head.apart, own, None if in_place else Apart.MOVED)
        draft.put_head(address.partition, address.hash, found.cabinet, msgspec.structs.replace(head, apart=apart))
        draft.add_waiting(address.partition, 1)

    core.commit(plan)


def _find(core: Core, address: Address, message_id: str) -> tuple[Located, Head]:
    found = find_row(core, address, message_id)
    return found, core.heads(address).get(found.cabinet, EMPTY_HEAD)


def _check_not_collected(found: Located, message_id: str) -> None:
    if found.state is State.COLLECTED:
        raise MessageCollected(f"Message {message_id} has been collected.", id=message_id)


def _check_not_held(found: Located, head: Head) -> None:
    mark = head.open
    if found.state is State.WAITING and mark is not None and mark.first <= found.number <= mark.last:
        text = uuid_text(mark.bundle_id)
        raise BundleOpen(f"The message is in the open bundle {text}. Have it dequeued first.", bundle_id=text)


def _check_head(draft: Draft, address: Address, cabinet: Cabinet, head: Head) -> None:
    if draft.head(address.partition, address.hash, cabinet) != head:
        raise Stale


def _settle_expired(core: Core, address: Address, found: Located, head: Head) -> None:
    """A message past its time that nobody has settled yet is settled now."""
    if found.state is State.EXPIRED and bool(waiting_mask(head, found.chunk.numbers)[0]):
        _settle_one(core, address, found, head, ChangeKind.EXPIRED, waited=True)


def _settle_one(core: Core, address: Address, found: Located, head: Head, kind: ChangeKind, *, waited: bool) -> None:
    chosen = np.ones(1, np.bool_)
    _commit_settled(core, address, found.cabinet, head, kind, [(found.chunk.numbers, chosen)], 1 if waited else 0)


def _commit_settled(
    core: Core,
    address: Address,
    cabinet: Cabinet,
    head: Head,
    kind: ChangeKind,
    parts: Parts,
    waited: int,
) -> None:
    core.commit(lambda draft: _plan_settled(core, draft, address, cabinet, head, kind, parts, waited))


def _plan_settled(
    core: Core,
    draft: Draft,
    address: Address,
    cabinet: Cabinet,
    head: Head,
    kind: ChangeKind,
    parts: Parts,
    waited: int,
) -> None:
    _check_head(draft, address, cabinet, head)
    new, now = head, core.clock()
    for numbers, chosen in parts:
        new = settle(draft, address, cabinet, new, kind=kind, at=now, numbers=numbers, chosen=chosen)
    draft.put_head(address.partition, address.hash, cabinet, new)
    draft.add_waiting(address.partition, -waited)


Chooser = Callable[[Chunk, Head], tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""Says which rows of a chunk are to be settled, and which of those wait."""


def purge(
    core: Core, address: Address, *, origin: str | None, kind: str | None, before: int | None, dry_run: bool
) -> int:
    """Withdraw what waits or is set aside; what is in an open bundle stays."""

    def choose(chunk: Chunk, head: Head) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        waits = waiting_mask(head, chunk.numbers) & ~_held(head, chunk.numbers)
        waits &= chunk.records["expires_at"] > core.clock()
        chosen = waits | (apart_of(head, chunk.numbers) == Apart.SET_ASIDE)
        if before is not None:
            chosen &= chunk.records["published_at"] < before
        return chosen, waits & chosen

    with core.pins.reading():
        cabinets = list(look(core, address).places)
    wanted = [c for c in cabinets if origin in (None, c.origin) and kind in (None, c.kind)]
    return sum(
        core.look_and_commit(
            partial(_settle_cabinet, core, address, cabinet, ChangeKind.WITHDRAWN, choose, dry_run=dry_run)
        )
        for cabinet in wanted
    )


def _held(head: Head, numbers: Numbers) -> NDArray[np.bool_]:
    mark = head.open
    return np.zeros(len(numbers), np.bool_) if mark is None else (numbers >= mark.first) & (numbers <= mark.last)


def expire_cabinets(core: Core, cabinets: Sequence[tuple[Address, Cabinet]], now: int) -> int:
    """Settle what has expired in some cabinets, in one commit, but for what open bundles keep.

    A cabinet whose head changes meanwhile is passed over: the next round finds it again.
    """

    def choose(chunk: Chunk, head: Head) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        chosen = waiting_mask(head, chunk.numbers) & ~_held(head, chunk.numbers)
        chosen &= chunk.records["expires_at"] <= now
        return chosen, chosen

    chosen = []
    for address, cabinet in cabinets:
        opened = look(core, address)
        parts, waited = _chosen(core, opened, cabinet, choose, due=now)
        if parts:
            chosen.append((address, cabinet, opened.head(cabinet), parts, waited))
    return core.commit(lambda draft: _plan_expired(core, draft, chosen)) if chosen else 0


def _plan_expired(core: Core, draft: Draft, chosen: Sequence[tuple[Address, Cabinet, Head, Parts, int]]) -> int:
    settled = 0
    for address, cabinet, head, parts, waited in chosen:
        if draft.head(address.partition, address.hash, cabinet) == head:
            _plan_settled(core, draft, address, cabinet, head, ChangeKind.EXPIRED, parts, waited)
            settled += waited
    return settled


def _chosen(
    core: Core, opened: Opened, cabinet: Cabinet, choose: Chooser, *, due: int | None = None
) -> tuple[Parts, int]:
    """The rows of a cabinet that are to be settled, and how many of them wait."""
    head = opened.head(cabinet)
    places = opened.places.get(cabinet, [])
    parts, waited = [], 0
    for chunk in chunks(core, [p for p in places if due is None or p.earliest_expiry <= due]):
        chosen, waits = choose(chunk, head)
        if chosen.any():
            parts.append((chunk.numbers, chosen))
            waited += int(waits.sum())
    return parts, waited


def _settle_cabinet(
    core: Core, address: Address, cabinet: Cabinet, kind: ChangeKind, choose: Chooser, *, dry_run: bool
) -> int:
    opened = look(core, address)
    parts, waited = _chosen(core, opened, cabinet, choose)
    count = sum(int(chosen.sum()) for _, chosen in parts)
    if count and not dry_run:
        _commit_settled(core, address, cabinet, opened.head(cabinet), kind, parts, waited)
    return count
