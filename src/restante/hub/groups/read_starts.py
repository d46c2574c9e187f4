"""Where the next pages of a member begin."""

from __future__ import annotations

from collections.abc import Sequence

from restante.errors import GenerationStale
from restante.hub.groups.memory import KnownGroup
from restante.model.groups.group_answers import ReadAfter


def starts_of(known: KnownGroup, member_id: bytes, after: Sequence[ReadAfter]) -> list[int]:
    """The starts of each partition. All must be the member's under their generations; nothing up to a checkpoint is handed out."""
    rows = [known.positions[each.partition] for each in after]
    stale = [
        {"partition": each.partition, "generation": row.generation}
        for each, row in zip(after, rows, strict=True)
        if row.generation != each.generation or row.holder != member_id
    ]
    if stale:
        named = ", ".join(str(each["partition"]) for each in stale)
        raise GenerationStale(
            f"Partitions were given to somebody since: {named}. Ask with a heartbeat what is yours.", stale=stale
        )
    return [max(each.position, row.position) for each, row in zip(after, rows, strict=True)]
