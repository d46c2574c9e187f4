"""Putting a message at the end of its cabinet: a mailbag of one, under the number of the change that released it."""

from __future__ import annotations

import numpy as np

from restante.hub.batches.binding import bind_moved
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.live_mail import Elsewhere
from restante.hub.engine.mailbags import put_mailbag
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.row_reads import with_data
from restante.hub.mailboxes.history import Located
from restante.hub.mailboxes.message_columns import message_columns
from restante.model.publishing.arrival import arrive, mailbags


def move_to_end(core: Core, draft: RequestDraft, address: MailboxAddress, found: Located) -> int:
    """Store the message again under the next sequence number, which is given."""
    piece = with_data(core.store, found.chunk.stored, found.chunk.row, found.chunk.records)
    columns = message_columns([piece], found.cabinet)
    arrivals = arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count)
    number = draft.take_numbers(address.partition, 1)
    published_at = int(piece.records["published_at"][0])
    segments = mailbags(arrivals, np.zeros(1, np.int64), published_at=published_at, key=core.deed.key)
    put_mailbag(core, draft, segments, number, 1)
    fingerprint, numbers = arrivals.fingerprint, np.array([number], np.int64)
    draft.arrived.append(fingerprint)
    draft.applies.append(lambda: core.partitions[address.partition].remember(fingerprint, numbers))
    draft.mail.append(Elsewhere(np.array([address.hash], np.uint64)))
    bind_moved(core, draft, address.partition, found.number, number)
    return number
