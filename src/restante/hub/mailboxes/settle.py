"""Settling messages out of turn: writes the change record, the entry in the head's `apart`, and the counts of batches."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante.hub.action_rows.settled_rows import note_settled
from restante.hub.batches.bound_messages import count_settled
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.model.columns.arrays import Numbers
from restante.model.publishing.message import ACTION_KIND
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.head import Apart, Head, NumberRange, apart_of, ranges_of, with_apart
from restante.model.storage.keys import Cabinet

CabinetPart = tuple[Numbers, NDArray[np.bool_]]
"""Neighbouring numbers of a cabinet, and a mask of those to be settled."""

_APART = {
    ChangeKind.EXPIRED: Apart.EXPIRED,
    ChangeKind.WITHDRAWN: Apart.WITHDRAWN,
    ChangeKind.SET_ASIDE: Apart.SET_ASIDE,
}


def settle(
    core: Core,
    draft: RequestDraft,
    address: MailboxAddress,
    cabinet: Cabinet,
    head: Head,
    *,
    kind: ChangeKind,
    at: int,
    part: CabinetPart,
) -> Head:
    """Settle the chosen of a cabinet's neighbouring numbers; return the new head, which the caller puts.

    Neighbours that are apart for the same reason share one range, so that the list stays short.
    """
    numbers, chosen = part
    before = apart_of(head, numbers)
    record = change(cabinet, kind, at, int(chosen.sum()), ranges_of(chosen, numbers))
    aside = ranges_of(chosen & (before == Apart.SET_ASIDE), numbers)
    draft.record(address.partition, address.hash, msgspec.structs.replace(record, aside=aside) if aside else record)
    count_settled(core, draft, address.partition, numbers[chosen], kind)
    if cabinet.kind == ACTION_KIND:
        note_settled(core, draft, address, numbers[chosen].tolist(), kind, at)
    why = _APART[kind]
    joined = ranges_of(chosen | (before == why), numbers)
    return msgspec.structs.replace(head, apart=with_apart(head.apart, joined, why))


def change(cabinet: Cabinet, kind: ChangeKind, at: int, count: int, ranges: tuple[NumberRange, ...]) -> ChangeRecord:
    return ChangeRecord(kind, at, cabinet.recipient, cabinet.origin, cabinet.kind, count, ranges)
