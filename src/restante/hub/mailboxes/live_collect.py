"""Collecting by number: a connected client confirms all messages up to a number, and these are dequeued.

Each commit opens a bundle of messages that wait up to the number, and dequeues it at once, so that batches, origins and the
feed treat it like any other bundle. While another bundle is open, nothing is collected.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from restante.errors import BundleOpen, InvalidRequest
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes import dequeue
from restante.hub.mailboxes.mailbox import Opened, look_for_mail
from restante.hub.mailboxes.peek import PeekWish, choose, fill, open_planned
from restante.model.mailboxes.bundle import BundleBounds, Filling
from restante.model.storage.keys import Cabinet


def collect(core: Core, address: MailboxAddress, number: int) -> int:
    """Dequeue all messages up to this number; return how many."""
    if not 0 <= number < 2**63:
        raise InvalidRequest(f"sequence_number must be a whole number, 0 or more, not {number}.")
    total = 0
    while count := core.look_and_commit(partial(_collect_some, core, address, number)):
        total += count
    return total


def _collect_some(core: Core, address: MailboxAddress, number: int) -> int:
    """Collect one bundle of messages up to the number; return how many, 0 if none waits."""
    now, opened = core.clock(), look_for_mail(core, address)
    cabinets = _collected_so(core, opened)
    _check_none_open(opened, cabinets)
    chosen = choose(core, opened, cabinets, now)
    if chosen is None or chosen[1] > number:
        return 0
    cabinet, _ = chosen
    filling = Filling(opened.head(cabinet), now, BundleBounds(before=number + 1))
    fill(core, opened.places[cabinet], filling)
    bundle_id = core.new_uuid()

    def plan(draft: RequestDraft) -> int:
        open_planned(core, draft, opened, cabinet, filling, bundle_id, PeekWish())
        return dequeue.plan(core, draft, address, bundle_id).messages

    return core.commit(plan)


def _collected_so(core: Core, opened: Opened) -> list[Cabinet]:
    settings, cabinets = core.settings, opened.cabinets()
    found = [cabinet for cabinet in cabinets if settings.live_collect(settings.group_of(cabinet.origin))]
    if not found and (cabinets or not any(group.live_collect for group in settings.origin_groups.values())):
        raise InvalidRequest(
            "None of this recipient's origin groups is collected over a live connection: peek and dequeue, or set "
            "live_collect = true for the group."
        )
    return found


def _check_none_open(opened: Opened, cabinets: Collection[Cabinet]) -> None:
    for cabinet in cabinets:
        mark = opened.head(cabinet).open
        if mark is not None:
            text = uuid_text(mark.bundle_id)
            raise BundleOpen(f"Bundle {text} is open. Dequeue it before you collect by number.", bundle_id=text)
