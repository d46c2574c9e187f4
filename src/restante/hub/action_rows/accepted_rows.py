"""Rows for the actions that a commit stores, which may come as a few letters or as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.action_rows.recent_actions import RecentAction
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.model.actions.action_kind import ACTION_KIND, name_and_text
from restante.model.actions.action_row import ActionRow, action_id_key, action_key, encode_action
from restante.model.columns.arrow import binaries_of, column_of, strings_of
from restante.model.publishing.arrival import Arrivals
from restante.model.publishing.message import HEALTH_ORIGIN
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key
from restante.model.storage.letter import Letter


def accept_letters(
    core: Core,
    draft: RequestDraft,
    letters: Sequence[Letter],
    addresses: Sequence[MailboxAddress],
    ids: Sequence[bytes],
    numbers: Sequence[int],
    now: int,
) -> None:
    """Put the rows of the actions among a few letters."""
    names: list[str] = []
    for letter, address, own_id, number in zip(letters, addresses, ids, numbers, strict=True):
        if letter.kind == ACTION_KIND:
            name, text = name_and_text(letter.properties)
            row = ActionRow(letter.recipient, letter.origin, own_id, text, name, now)
            _put(draft, address.partition, address.hash, number, row)
            draft.add_waiting(address.partition, -1)
            recent = RecentAction(number, address.hash, own_id, letter, name, now)
            draft.applies.append(partial(core.memory(ActionMemory).recent.add, address.partition, recent))
            names += [name] if letter.origin != HEALTH_ORIGIN else []
    count_accepted(core, draft, names)


def accept_columns(
    core: Core, draft: RequestDraft, arrivals: Arrivals, rows: NDArray[np.int64], numbers: NDArray[np.int64], now: int
) -> None:
    """Put the rows of actions that came as columns. `rows` are their indices; `numbers` has the number of every arrival."""
    columns = arrivals.columns
    own = columns.take(rows)
    hashes = arrivals.recipient_hash[columns.recipient.codes[rows]].tolist()
    partitions, names = arrivals.partition[rows].tolist(), []
    recipients = strings_of(own.recipient.values.take(column_of(own.recipient.codes)))
    origins = strings_of(own.origin.values.take(column_of(own.origin.codes)))
    stored = binaries_of(own.properties)
    for index, number in enumerate(numbers[rows].tolist()):
        name, text = name_and_text(stored[index])
        own_id = own.id[index].tobytes()
        row = ActionRow(recipients[index], origins[index], own_id, text, name, now)
        _put(draft, partitions[index], hashes[index], number, row)
        names += [name] if row.origin != HEALTH_ORIGIN else []
    for partition, count in Counter(partitions).items():
        draft.add_waiting(partition, -count)
        last = draft.count(partition).visible
        draft.applies.append(partial(core.memory(ActionMemory).recent.forget, partition, last))
    count_accepted(core, draft, names)


def _put(draft: RequestDraft, partition: int, recipient_hash: int, number: int, row: ActionRow) -> None:
    draft.put(partition, Space.ACTION, action_key(recipient_hash, number), encode_action(row))
    draft.put(partition, Space.ACTION_ID, action_id_key(row.id, recipient_hash), number_key(number))


def count_accepted(core: Core, draft: RequestDraft, names: Sequence[str]) -> None:
    draft.applies.append(lambda: core.memory(ActionMemory).count_accepted(names))
