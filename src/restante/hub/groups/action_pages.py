"""Pages for a member of a group with actions: waiting actions whose names belong to its group, or to no group.

Settled actions and those of other groups are left out. Of an action whose name belongs to no group, a member gets what it takes
to report that: the name, and neither the data nor other properties. Each row says whether the name belongs to the group (`owner`), and
how often the action was tried and how many workers died of it, as far as the hub knows (`attempts`, `deaths`), because a
worker's own knowledge may be out of date.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from restante.hub.action_rows.action_memory import ActionMemory, HandedAction
from restante.hub.engine.core import Core
from restante.hub.groups.memory import GroupMemory
from restante.model.actions.action_kind import ACTION_KIND, ACTION_PROPERTY
from restante.model.actions.action_row import action_key, decode_action
from restante.model.actions.settled_heads import is_open
from restante.model.columns.arrow import column_of, numbers_of, string_array
from restante.model.columns.properties import MAP_TYPE
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.head import EMPTY_HEAD, Head, decode_head
from restante.model.storage.keys import Cabinet, cabinet_key

OWNERS = ("group", "nobody")
_OWNER_TEXTS = string_array(OWNERS)


def handed_out(core: Core, group: str, partition: int, generation: int, table: pa.Table) -> pa.Table:
    """The actions of a page that this group must do, or must report as unknown because no group has declared them."""
    rows, owners, actions = waiting_rows(core, group, partition, table)
    actions = [
        action._replace(group="" if owner else group, generation=generation)
        for action, owner in zip(actions, owners, strict=True)
    ]
    memory = core.memory(ActionMemory)
    memory.hand_out(partition, actions)
    attempts = [_attempts(memory, partition, action.number) for action in actions]
    deaths = _deaths(core, partition, actions)
    shown = _without_content(table.take(column_of(np.array(rows, np.int64))), owners, actions)
    return _with_columns(shown, owners, attempts, deaths)


def waiting_rows(
    core: Core, group: str, partition: int, table: pa.Table
) -> tuple[list[int], list[int], list[HandedAction]]:
    """The waiting rows that do not belong to another group, with the owner (an index into `OWNERS`) and the action of each."""
    numbers: list[int] = numbers_of(table["sequence_number"]).tolist()
    names = [action_name(properties) for properties in table["properties"].to_pylist()]
    recipients, origins = _texts(table, "recipient"), _texts(table, "origin")
    taken, heads = core.memory(GroupMemory).actions(), _Heads(core, partition)
    rows, owners, actions, now = [], [], [], core.clock()
    for row, (number, name) in enumerate(zip(numbers, names, strict=True)):
        owner = taken.get(name) if name is not None else None
        if owner not in (None, group):
            continue
        recipient_hash, head = heads.of(recipients[row], origins[row])
        if is_open(head, number):
            rows.append(row)
            owners.append(0 if owner == group else 1)
            actions.append(HandedAction(number, recipient_hash, recipients[row], origins[row], name or "", now))
    return rows, owners, actions


def _texts(table: pa.Table, column: str) -> list[str]:
    found = table[column].to_pylist()
    return cast("list[str]", found)


def action_name(properties: list[tuple[str, str]] | None) -> str | None:
    """The name of an action, from the properties in a row of the feed."""
    return dict(properties or ()).get(ACTION_PROPERTY)


def _attempts(memory: ActionMemory, partition: int, number: int) -> int:
    found = memory.under_way.get((partition, number))
    return 0 if found is None else found.attempts


def _deaths(core: Core, partition: int, actions: Sequence[HandedAction]) -> list[int]:
    """How many workers died of each action. For actions from before the hub was opened, the rows are read."""
    memory = core.memory(ActionMemory)
    last = memory.opened.get(partition, 0)
    older = {
        EntryKey(partition, Space.ACTION, action_key(action.recipient_hash, action.number)): action.number
        for action in actions
        if action.number <= last
    }
    stored = core.store.get_many(tuple(older)) if older else {}
    rows = {older[key]: decode_action(value).deaths for key, value in stored.items()}
    return [memory.died.get((partition, action.number), rows.get(action.number, 0)) for action in actions]


class _Heads:
    """The heads of the cabinets of a page, each read once."""

    def __init__(self, core: Core, partition: int) -> None:
        self._core = core
        self._partition = partition
        self._known: dict[tuple[str, str], tuple[int, Head]] = {}

    def of(self, recipient: str, origin: str) -> tuple[int, Head]:
        found = self._known.get((recipient, origin))
        if found is None:
            recipient_hash = self._core.locate(recipient).hash
            key = cabinet_key(recipient_hash, Cabinet(recipient, origin, ACTION_KIND))
            value = self._core.store.get(self._partition, Space.HEAD, key)
            head = EMPTY_HEAD if value is None else decode_head(value)
            found = self._known[recipient, origin] = (recipient_hash, head)
        return found


def _without_content(table: pa.Table, owners: list[int], actions: Sequence[HandedAction]) -> pa.Table:
    """The rows, without the content of those that belong to no group."""
    if not any(owners):
        return table
    names = [[(ACTION_PROPERTY, action.name)] if action.name else None for action in actions]
    places = column_of(np.arange(len(owners)) + np.array(owners) * len(owners))
    for name, instead in (
        ("data", pa.nulls(len(owners), table.schema.field("data").type)),
        ("properties", pa.array(names, MAP_TYPE)),
    ):
        # Bytes below a null would be sent, so the rows are taken from both and the others' bytes are not copied.
        column = pa.concat_arrays([*table[name].chunks, instead]).take(places)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


def _with_columns(table: pa.Table, owners: list[int], attempts: list[int], deaths: list[int]) -> pa.Table:
    codes = pa.array(owners, pa.int32())
    owner = pa.DictionaryArray.from_arrays(codes, _OWNER_TEXTS)
    table = table.append_column("owner", owner)
    table = table.append_column("attempts", pa.array(attempts, pa.int64()))
    return table.append_column("deaths", pa.array(deaths, pa.int64()))
