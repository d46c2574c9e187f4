"""Withdraw, set aside, release, purge and expire: settling messages out of turn, and undoing it.

Each operation looks into the mailbox first, outside the committer's thread, and commits only if the heads are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.calls.removal import Purge
from restante.errors import BundleOpen, DataDamaged, MessageCollected, MessageSettled
from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.engine.core import Core, MailboxAddress, Stale, uuid_text
from restante.hub.engine.damage import tell_once
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.history import Located, find_row
from restante.hub.mailboxes.mailbox import Chunk, Opened, chunks, look
from restante.hub.mailboxes.settle import CabinetPart, change, settle
from restante.hub.removal.memory import RemovalMemory
from restante.hub.removal.move_to_end import move_to_end
from restante.model.access.access import Grant
from restante.model.columns.arrays import Numbers
from restante.model.mailboxes.filters import check_purge
from restante.model.publishing.message import ACTION_KIND, State
from restante.model.storage.change import ChangeKind
from restante.model.storage.head import Apart, Head, NumberRange, apart_of, waiting_mask, with_apart
from restante.model.storage.keys import Cabinet

CabinetParts = list[CabinetPart]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The messages of one cabinet to be settled, if its head is still the same."""

    address: MailboxAddress
    cabinet: Cabinet
    head: Head
    erasures: int
    kind: ChangeKind
    parts: CabinetParts
    waited: int
    """How many of the messages wait."""

    def fresh(self, draft: RequestDraft) -> bool:
        return _fresh(draft, self.address, self.cabinet, self.head, self.erasures)

    def plan(self, core: Core, draft: RequestDraft) -> int:
        if not self.fresh(draft):
            raise Stale
        head, now = self.head, core.clock()
        for part in self.parts:
            head = settle(core, draft, self.address, self.cabinet, head, kind=self.kind, at=now, part=part)
        draft.put_head(self.address.partition, self.address.hash, self.cabinet, head)
        if self.cabinet.kind != ACTION_KIND:
            draft.add_waiting(self.address.partition, -self.waited)
        return sum(int(chosen.sum()) for _, chosen in self.parts)


def _fresh(draft: RequestDraft, address: MailboxAddress, cabinet: Cabinet, head: Head, erasures: int) -> bool:
    unchanged = draft.head(address.partition, address.hash, cabinet) == head
    return unchanged and draft.count(address.partition).erasures == erasures


def withdraw(core: Core, address: MailboxAddress, message_id: str) -> None:
    core.look_and_commit(lambda: _withdraw(core, address, message_id))


def set_aside(core: Core, address: MailboxAddress, message_id: str) -> None:
    core.look_and_commit(lambda: _set_aside(core, address, message_id))


def release(core: Core, address: MailboxAddress, message_id: str) -> None:
    core.look_and_commit(lambda: _release(core, address, message_id))


def _withdraw(core: Core, address: MailboxAddress, message_id: str) -> None:
    found = find_row(core, address, message_id)
    if found.state in (State.WITHDRAWN, State.EXPIRED):
        _settle_expired(core, address, found)
        return
    _check_not_collected(found, message_id)
    _check_not_held(found)
    _settle_one(core, address, found, ChangeKind.WITHDRAWN)


def _set_aside(core: Core, address: MailboxAddress, message_id: str) -> None:
    found = find_row(core, address, message_id)
    _check_not_collected(found, message_id)
    if found.state is State.SET_ASIDE:
        return
    if found.state is not State.WAITING:
        _settle_expired(core, address, found)
        raise _settled(found, message_id, "set aside")
    _check_not_held(found)
    _settle_one(core, address, found, ChangeKind.SET_ASIDE)


def _release(core: Core, address: MailboxAddress, message_id: str) -> None:
    found = find_row(core, address, message_id)
    _check_not_collected(found, message_id)
    _check_not_held(found)
    if found.state is State.WAITING:
        return
    if found.state is not State.SET_ASIDE:
        raise _settled(found, message_id, "released")
    core.commit(lambda draft: _plan_release(core, draft, address, found))


def _plan_release(core: Core, draft: RequestDraft, address: MailboxAddress, found: Located) -> None:
    """Release a message into its place, or to the end if the head or an open bundle has passed its place.

    Mail that is collected by number also goes to the end: a connected client is past the place, and would collect the message
    without having seen it. Actions always go to the end, because groups are past their place.
    """
    head = found.head
    if not _fresh(draft, address, found.cabinet, head, found.erasures):
        raise Stale
    in_place = found.number > max(head.head, head.open.last if head.open is not None else 0)
    in_place = in_place and not core.settings.live_collect(core.settings.group_of(found.cabinet.origin))
    is_action = found.cabinet.kind == ACTION_KIND
    in_place = in_place and not is_action
    own = (NumberRange(found.number, found.number),)
    record = change(found.cabinet, ChangeKind.RELEASED, core.clock(), 1, own)
    if in_place:
        draft.record(address.partition, address.hash, record)
    else:
        moved = msgspec.structs.replace(record, moved=True)
        draft.put_record(address.partition, address.hash, move_to_end(core, draft, address, found), moved)
    apart = with_apart(head.apart, own, None if in_place else Apart.MOVED)
    draft.put_head(address.partition, address.hash, found.cabinet, msgspec.structs.replace(head, apart=apart))
    if not is_action:
        draft.add_waiting(address.partition, 1)
    # The message may have expired meanwhile, so expiry must examine its drawer again.
    blob = found.chunk.stored.blob.number
    draft.applies.append(lambda: core.memory(RemovalMemory).expiries_of(address.partition).pop(blob, None))


def _check_not_collected(found: Located, message_id: str) -> None:
    if found.state is State.COLLECTED:
        raise MessageCollected(f"Message {message_id} has been collected.", id=message_id)


def _settled(found: Located, message_id: str, done: str) -> MessageSettled:
    state = found.state.value
    return MessageSettled(f"Message {message_id} is {state}: it cannot be {done} any more.", id=message_id, state=state)


def _check_not_held(found: Located) -> None:
    mark = found.head.open
    if found.state is State.WAITING and mark is not None and mark.first <= found.number <= mark.last:
        text = uuid_text(mark.bundle_id)
        raise BundleOpen(f"The message is in the open bundle {text}. Have it dequeued first.", bundle_id=text)


def _settle_expired(core: Core, address: MailboxAddress, found: Located) -> None:
    """Settle a message that is past its time and not settled yet."""
    if found.state is State.EXPIRED and bool(waiting_mask(found.head, found.chunk.numbers)[0]):
        _settle_one(core, address, found, ChangeKind.EXPIRED)


def _settle_one(core: Core, address: MailboxAddress, found: Located, kind: ChangeKind) -> None:
    parts = [(found.chunk.numbers, np.ones(1, np.bool_))]
    waited = 0 if found.state is State.SET_ASIDE else 1
    settlement = Settlement(address, found.cabinet, found.head, found.erasures, kind, parts, waited)
    core.commit(lambda draft: settlement.plan(core, draft))


Chooser = Callable[[Chunk, Head], tuple[NDArray[np.bool_], NDArray[np.bool_]]]
"""A function that returns masks of the rows of a chunk to be settled, and of those among them that wait."""


def purge(core: Core, call: Purge, _: Grant) -> int:
    """Withdraw messages that wait or are set aside, except those in an open bundle; return how many."""
    check_purge(origin=call.origin, kind=call.kind, before=call.before, everything=call.all, dry_run=call.dry_run)
    before = None if call.before is None else round((call.before - _EPOCH).total_seconds() * 1_000_000)
    address = core.address(call.recipient)

    def choose(chunk: Chunk, head: Head) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        waits = waiting_mask(head, chunk.numbers) & ~_held(head, chunk.numbers)
        waits &= chunk.records["expires_at"] > core.clock()
        chosen = waits | (apart_of(head, chunk.numbers) == Apart.SET_ASIDE)
        if before is not None:
            chosen &= chunk.records["published_at"] < before
        return chosen, waits & chosen

    with core.pins.reading():
        cabinets = list(look(core, address).places)
    wanted = [c for c in cabinets if call.origin in (None, c.origin) and call.kind in (None, c.kind)]
    return sum(
        core.look_and_commit(
            partial(_settle_cabinet, core, address, cabinet, ChangeKind.WITHDRAWN, choose, dry_run=call.dry_run)
        )
        for cabinet in wanted
    )


def _held(head: Head, numbers: Numbers) -> NDArray[np.bool_]:
    mark = head.open
    return np.zeros(len(numbers), np.bool_) if mark is None else (numbers >= mark.first) & (numbers <= mark.last)


def expire_cabinets(
    core: Core, cabinets: Sequence[tuple[MailboxAddress, Cabinet]], now: int
) -> tuple[int, set[Cabinet]]:
    """Settle the expired messages of some cabinets in one commit, except those in open bundles; return how many.

    A cabinet that is damaged, or whose head changes meanwhile, is skipped, and returned: the next round must find it again.
    """

    def choose(chunk: Chunk, head: Head) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        chosen = waiting_mask(head, chunk.numbers) & ~_held(head, chunk.numbers)
        chosen &= chunk.records["expires_at"] <= now
        return chosen, chosen

    def choose_actions(
        address: MailboxAddress, chunk: Chunk, head: Head
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Choose like `choose`, but no action that is running."""
        chosen, _ = choose(chunk, head)
        due = chunk.numbers[chosen].tolist()
        running = core.memory(ActionMemory).running(address.partition, address.hash, due)
        chosen &= ~np.isin(chunk.numbers, list(running))
        return chosen, chosen

    settlements, unread = [], set()
    for address, cabinet in cabinets:
        try:
            chooser = partial(choose_actions, address) if cabinet.kind == ACTION_KIND else choose
            settlement = _settlement(core, look(core, address), cabinet, ChangeKind.EXPIRED, chooser, due=now)
        except DataDamaged as error:
            tell_once(core.partitions[address.partition], f"Expiry in some mailboxes of {address.partition}", error)
            unread.add(cabinet)
            continue
        if settlement.parts:
            settlements.append(settlement)
    if not settlements:
        return 0, unread

    def plan(draft: RequestDraft) -> tuple[int, set[Cabinet]]:
        fresh = [settlement.fresh(draft) for settlement in settlements]
        settled = sum(s.plan(core, draft) for s, unchanged in zip(settlements, fresh, strict=True) if unchanged)
        return settled, unread | {s.cabinet for s, unchanged in zip(settlements, fresh, strict=True) if not unchanged}

    return core.commit(plan)


def _settlement(
    core: Core, opened: Opened, cabinet: Cabinet, kind: ChangeKind, choose: Chooser, *, due: int | None = None
) -> Settlement:
    """The settlement of the rows of a cabinet that `choose` selects."""
    head = opened.head(cabinet)
    places = opened.places.get(cabinet, [])
    parts, waited = [], 0
    for chunk in chunks(core, [p for p in places if due is None or p.earliest_expiry <= due]):
        chosen, waits = choose(chunk, head)
        if chosen.any():
            parts.append((chunk.numbers, chosen))
            waited += int(waits.sum())
    return Settlement(opened.address, cabinet, head, opened.erasures, kind, parts, waited)


def _settle_cabinet(
    core: Core, address: MailboxAddress, cabinet: Cabinet, kind: ChangeKind, choose: Chooser, *, dry_run: bool
) -> int:
    settlement = _settlement(core, look(core, address), cabinet, kind, choose)
    if settlement.parts and not dry_run:
        return core.commit(lambda draft: settlement.plan(core, draft))
    return sum(int(chosen.sum()) for _, chosen in settlement.parts)
