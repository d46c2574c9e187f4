"""Explain: what waits in a mailbox, and why a peek gives its answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from restante.calls.mailboxes import Explain
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.mailboxes.mailbox import Opened, chunks, count_aside, first_number, look_for_mail, requested
from restante.hub.mailboxes.peek import empty_reason, free_cabinets
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import Explanation, OpenBundle, Reason, Waiting, moment
from restante.model.mailboxes.bundle import decode_bundle
from restante.model.mailboxes.filters import check_filters
from restante.model.storage.changes import Space
from restante.model.storage.head import OpenMark, waiting_mask
from restante.model.storage.keys import Cabinet, bundle_key

_TEXTS = {
    Reason.READY: "A peek answers messages now.",
    Reason.NOTHING_WAITING: "Everything was collected, has expired, was withdrawn or set aside; nothing waits.",
    Reason.NOT_YET_VISIBLE: (
        "Nothing waits now: messages for this recipient are delayed until their visible_at, or are of a consignment that is "
        "being committed."
    ),
    Reason.BUNDLE_OPEN_IN_GROUP: "A bundle of another origin in the same origin group is open: dequeue it first.",
    Reason.ORIGIN_DID_NOT_DELIVER: "The origin did not deliver the content of the open bundle: peek again to ask it.",
    Reason.RECIPIENT_UNKNOWN: "No message for this recipient within the retention.",
}


@dataclass(frozen=True, slots=True)
class Backlog:
    """The waiting messages of a cabinet: their count, the publishing time of the oldest, and the first number."""

    messages: int
    oldest: int
    first: int


def explain_mailbox(core: Core, call: Explain, _: Grant) -> Explanation:
    check_filters("origin", call.origins)
    address = core.address(call.recipient)
    with core.pins.reading():
        opened = look_for_mail(core, address)
        cabinets = requested(core, opened, frozenset(call.origins), frozenset(call.origin_groups))
        now = core.clock()
        backlogs = {cabinet: backlog(core, opened, cabinet, now) for cabinet in cabinets}
        waiting = {cabinet: found for cabinet, found in backlogs.items() if found.messages}
        reason = _reason(core, opened, cabinets, now)
    ordered = sorted(waiting.items(), key=lambda entry: entry[1].first)
    return Explanation(
        reason=reason,
        text=_TEXTS[reason],
        waiting=tuple(
            Waiting(origin=c.origin, kind=c.kind, messages=found.messages, oldest=moment(found.oldest))
            for c, found in ordered
        ),
        open_bundles=_open_bundles(core, opened),
        not_yet_visible=count_aside(core, address),
    )


def backlog(core: Core, opened: Opened, cabinet: Cabinet, now: int) -> Backlog:
    """The backlog of messages that wait and have not expired. Messages in an open bundle count as waiting, expired or not."""
    head = opened.head(cabinet)
    count, oldest, first = 0, 2**63 - 1, 0
    places = opened.places.get(cabinet, [])
    for chunk in chunks(core, places, after=head.head):
        numbers = chunk.numbers
        mark = head.open
        held = (
            (numbers >= mark.first) & (numbers <= mark.last) if mark is not None else np.zeros(len(numbers), np.bool_)
        )
        waits = waiting_mask(head, numbers) & (held | (chunk.records["expires_at"] > now))
        if waits.any():
            first = first if count else int(numbers[np.argmax(waits)])
            oldest = min(oldest, int(chunk.records["published_at"][waits].min()))
        count += int(waits.sum())
    return Backlog(count, oldest, first)


def _reason(core: Core, opened: Opened, cabinets: Collection[Cabinet], now: int) -> Reason:
    open_ones = [cabinet for cabinet in cabinets if opened.head(cabinet).open is not None]
    if open_ones:
        return _open_reason(core, opened, open_ones)
    free = free_cabinets(core, opened, cabinets)
    if any(first_number(core, opened, cabinet, now) is not None for cabinet in free):
        return Reason.READY
    return empty_reason(core, opened, cabinets, now)


def _open_reason(core: Core, opened: Opened, cabinets: Collection[Cabinet]) -> Reason:
    """The reason when these cabinets have an open bundle: ready, unless its origin failed to deliver the content."""
    marks = [mark for cabinet in cabinets if (mark := opened.head(cabinet).open) is not None]
    mark = min(marks, key=lambda mark: mark.first)
    address = opened.address
    key = bundle_key(address.hash, address.recipient, mark.bundle_id)
    value = core.store.get(address.partition, Space.BUNDLE, key)
    failed = value is not None and decode_bundle(value).undelivered_at
    if failed and core.store.get(address.partition, Space.CONTENT, key) is None:
        return Reason.ORIGIN_DID_NOT_DELIVER
    return Reason.READY


def _open_bundles(core: Core, opened: Opened) -> tuple[OpenBundle, ...]:
    marks = [(mark, cabinet) for cabinet, head in opened.heads.items() if (mark := head.open) is not None]
    return tuple(
        OpenBundle(
            bundle_id=uuid_text(mark.bundle_id),
            origin=cabinet.origin,
            origin_group=core.settings.group_of(cabinet.origin),
            messages=mark.count,
            opened_at=moment(mark.opened_at),
            taken_by=_taken_by(core, opened.address, mark),
        )
        for mark, cabinet in sorted(marks, key=lambda entry: entry[0].first)
    )


def _taken_by(core: Core, address: MailboxAddress, mark: OpenMark) -> str | None:
    key = bundle_key(address.hash, address.recipient, mark.bundle_id)
    value = core.store.get(address.partition, Space.BUNDLE, key)
    return None if value is None else decode_bundle(value).taken_by or None
