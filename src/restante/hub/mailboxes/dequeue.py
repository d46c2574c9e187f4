"""Dequeue: confirms that the recipient has the bundle. It is one small commit, however large the bundle is."""

from __future__ import annotations

import msgspec

from restante.errors import BundleUnknown
from restante.hub.batches.bound_messages import count_shares
from restante.hub.engine.commit_request import CommitRequest, Planned
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.outbox import put_notice
from restante.model.mailboxes.answers import Dequeued, moment
from restante.model.mailboxes.bundle import BundleRow, decode_bundle, encode_bundle
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.head import NumberRange, advanced
from restante.model.storage.keys import Cabinet, bundle_key


def request(core: Core, address: MailboxAddress, bundle_id: bytes) -> CommitRequest[Dequeued]:
    """A dequeue request, to be submitted."""
    key = bundle_key(address.hash, address.recipient, bundle_id)
    reads = (EntryKey(address.partition, Space.BUNDLE, key),)
    return Planned(lambda draft: plan(core, draft, address, bundle_id), brief=True, reads=reads)


def plan(core: Core, draft: RequestDraft, address: MailboxAddress, bundle_id: bytes) -> Dequeued:
    """Dequeue a bundle that is open, which an earlier draft of this commit may have opened."""
    row = _open_row(draft, address, bundle_id)
    now = core.clock()
    cabinet = Cabinet(row.recipient, row.origin, row.kind)
    record = ChangeRecord(
        ChangeKind.COLLECTED, now, *cabinet, row.count, (NumberRange(row.first, row.last),), row.left_out, bundle_id
    )
    number = draft.record(address.partition, address.hash, record)
    closed = msgspec.structs.replace(row, closed_at=now, change=number)
    head = advanced(draft.head(address.partition, address.hash, cabinet), row.last)
    draft.put(
        address.partition, Space.BUNDLE, bundle_key(address.hash, address.recipient, bundle_id), encode_bundle(closed)
    )
    draft.put_head(address.partition, address.hash, cabinet, msgspec.structs.replace(head, open=None))
    draft.add_waiting(address.partition, -row.count)
    put_notice(core, draft, address, bundle_id, row)
    if row.batches:
        count_shares(core, draft, address.partition, row.batches, ChangeKind.COLLECTED)
    return Dequeued(bundle_id=uuid_text(bundle_id), messages=row.count)


def _open_row(draft: RequestDraft, address: MailboxAddress, bundle_id: bytes) -> BundleRow:
    value = draft.get(address.partition, Space.BUNDLE, bundle_key(address.hash, address.recipient, bundle_id))
    row = None if value is None else decode_bundle(value)
    text = uuid_text(bundle_id)
    if row is None or row.recipient != address.recipient:
        raise BundleUnknown(f"{address.recipient} has no bundle {text}.", bundle_id=text)
    if row.closed_at:
        at = moment(row.closed_at)
        raise BundleUnknown(
            f"Bundle {text} was dequeued at {at.isoformat()}: there is nothing left to do.",
            bundle_id=text,
            dequeued_at=at,
            messages=row.count,
        )
    return row
