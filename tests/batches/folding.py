"""Acknowledgements that were written ahead, folded when a test says so."""

from __future__ import annotations

from collections.abc import Iterator

from restante.hub.batches.batch_upkeep import fold
from restante.hub.door.hub import OpenHub
from restante.hub.engine.core import Core
from restante.model.storage.changes import Space
from restante.model.storage.keys import after_prefix


def fold_batches(hub: OpenHub) -> int:
    """Fold all that was written ahead; gives of how many batches."""
    waiting = [each for partition in hub.core.partitions for each in _written_ahead(hub.core, partition.number)]
    for batch_id in waiting:
        fold(hub.core, batch_id)
    return len(waiting)


def _written_ahead(core: Core, partition: int) -> Iterator[bytes]:
    start: bytes | None = b""
    while start is not None and (found := core.store.scan(partition, Space.BATCH_ACKNOWLEDGED, start=start, limit=1)):
        batch_id = found[0][0][:16]
        yield batch_id
        start = after_prefix(batch_id)
