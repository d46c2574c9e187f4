"""Which partition a call is about: the shard that has it carries the call out."""

from __future__ import annotations

from typing import Any

from restante.calls.batches import OpenBatch
from restante.calls.call import Call, Home
from restante.calls.consignments import BeginConsignment
from restante.model.groups.group import GROUPS_HOME
from restante.model.storage.partition import partition_of

assert GROUPS_HOME == 0, "groups are at home in the first partition"
_IDS = ("batch_id", "consignment_id")
_NAMED = ("recipient", *_IDS)


def home_of_call(call: Call[Any], partition_count: int) -> int | None:
    """The partition that a call is about; None, if it is about several, or about none."""
    if call.home is Home.ALL:
        return None
    partition = getattr(call, "partition", None)
    if partition is not None:
        return int(partition)
    if call.home is Home.FIRST or "group" in call.__struct_fields__:
        return GROUPS_HOME
    if isinstance(call, BeginConsignment):
        return _home(call.key, partition_count)
    if isinstance(call, OpenBatch) and call.batch_id is None:
        return None if call.key is None else _home(call.key, partition_count)
    field = next((one for one in _NAMED if one in call.__struct_fields__), None)
    name = None if field is None else getattr(call, field)
    return _home(name.lower() if field in _IDS and isinstance(name, str) else name, partition_count)


def _home(name: object, partition_count: int) -> int | None:
    """The home of a name; None for what is no name: the hub says what is wrong with it."""
    try:
        return partition_of(name, partition_count) if isinstance(name, str) else None
    except UnicodeEncodeError:
        return None
