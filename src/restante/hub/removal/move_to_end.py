"""Moving a message to the end of its cabinet: it becomes a mailbag of one, with the number of the change that releases it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from restante.hub.action_rows.settled_rows import move_action
from restante.hub.batches.bound_messages import bind_moved
from restante.hub.engine.committed_runs import put_mailbag
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import with_data
from restante.hub.mailboxes.history import Located
from restante.hub.mailboxes.live_mail import LiveMail
from restante.hub.mailboxes.message_columns import message_columns
from restante.model.live.committed_mail import Elsewhere
from restante.model.publishing.arrival import arrive, mailbags
from restante.model.publishing.message import ACTION_KIND, MessageColumns


def move_to_end(core: Core, draft: RequestDraft, address: MailboxAddress, found: Located) -> int:
    """Store the message again under the next sequence number; return the number."""
    piece = with_data(core.store, found.chunk.stored, found.chunk.row, found.chunk.records)
    columns = message_columns([piece], found.cabinet)
    is_action = found.cabinet.kind == ACTION_KIND
    if is_action:
        columns = _alive(core, columns)
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    number = draft.take_numbers(address.partition, 1)
    published_at = int(piece.records["published_at"][0])
    segments = mailbags(arrivals, np.zeros(1, np.int64), published_at=published_at, key=core.deed.key)
    put_mailbag(core, draft, segments, number, 1)
    fingerprint, numbers = arrivals.fingerprint, np.array([number], np.int64)
    draft.arrived.append(fingerprint)
    draft.applies.append(lambda: core.partitions[address.partition].remember(fingerprint, numbers))
    if is_action:
        move_action(core, draft, address, found.number, number)
    else:
        draft.note(LiveMail).mail.append(Elsewhere(np.array([address.hash], np.uint64)))
    bind_moved(core, draft, address.partition, found.number, number)
    return number


def _alive(core: Core, columns: MessageColumns) -> MessageColumns:
    """The columns of an action. If its time is over, it gets the default time again, because it is to be done again."""
    now = core.clock()
    if int(columns.expires_at[0]) > now:
        return columns
    seconds = min(core.settings.actions.expires_seconds, core.settings.groups.hold_seconds)
    return replace(columns, expires_at=np.array([now + int(seconds * 1_000_000)], np.int64))
