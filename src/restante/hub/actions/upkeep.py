"""Housekeeping of actions: results, and the texts of problems, go after a while."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.model.storage.changes import Space
from restante.model.storage.keys import number_key

_ROWS_AT_ONCE = 1_000


def forget_texts(core: Core) -> int:
    """A chore: results and texts that are past their retention; gives how many. What became of an action stays known."""
    before = core.clock() - int(core.settings.outcome_retention_seconds * 1_000_000)
    return sum(_forget_in(core, partition, before) for partition in core.owned)


def _forget_in(core: Core, partition: int, before: int) -> int:
    forgotten = 0
    while before >= 0:
        end = number_key(before + 1)
        found = core.store.scan(partition, Space.ACTION_TEXTS, end=end, limit=_ROWS_AT_ONCE)
        if found:
            core.commit(partial(_delete, partition, [key for key, _ in found]))
        forgotten += len(found)
        if len(found) < _ROWS_AT_ONCE:
            break
    return forgotten


def _delete(partition: int, keys: Sequence[bytes], draft: RequestDraft) -> None:
    for key in keys:
        draft.delete(partition, Space.ACTION_TEXTS, key)
