"""The backplane as operators look at it: how far it is stored, and what of it was refused."""

from __future__ import annotations

from collections.abc import Iterator

from restante.calls.backplane import ListRefusedRecords, ReadBackplane
from restante.errors import InvalidRequest, Unavailable
from restante.hub.backplane.doorway import door_metrics
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.engine.core import Core
from restante.hub.engine.health_sources import HealthSources
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Functions
from restante.model.access.access import Grant
from restante.model.backplane.backplane_answers import BackplaneStatus, LogProgress, RefusedPage, RefusedRecord
from restante.model.backplane.poison import decode_poison, key_position, poison_key, shown
from restante.model.health.bounds import flag
from restante.model.health.hub_metric import HubMetric, counter
from restante.model.health.tree import HealthLeaf
from restante.model.mailboxes.list_pages import page_size
from restante.model.sources.source import NO_POSITION
from restante.model.storage.changes import Space
from restante.ports.backplane import LogEnds

_ROWS_AT_ONCE = 20
"""A row may have as many bytes as a record."""


def read_backplane(core: Core, call: ReadBackplane, caller: Grant) -> BackplaneStatus:
    del call, caller
    memory = core.memory(BackplaneMemory)
    totals, ends = memory.totals, _ends(core, memory)
    return BackplaneStatus(
        topic=None if memory.backplane is None else memory.backplane.name,
        failure=failure_of(memory),
        waiting=0 if memory.doorway is None else memory.doorway.waiting,
        lost=0 if memory.doorway is None else memory.doorway.lost,
        records=totals.records,
        messages=totals.messages,
        duplicates=totals.duplicates,
        skipped=totals.skipped,
        refused=totals.refused,
        missed=totals.gaps,
        partitions=tuple(
            LogProgress(
                partition=partition,
                position=None if position == NO_POSITION else position,
                lag=max(0, ends[partition].next - position - 1) if partition in ends else None,
            )
            for partition, position in sorted(memory.stored.items())
        ),
    )


def failure_of(memory: BackplaneMemory) -> str | None:
    """Why nothing is taken, or nothing stored, if that is so."""
    if memory.backplane is None:
        return None
    return memory.unfit or memory.failure or memory.backplane.failure()


def _ends(core: Core, memory: BackplaneMemory) -> dict[int, LogEnds]:
    if memory.backplane is None or failure_of(memory) is not None:
        return {}
    try:
        return memory.backplane.ends(core.owned)
    except Unavailable:
        return {}


def list_refused(core: Core, call: ListRefusedRecords, caller: Grant) -> RefusedPage:
    del caller
    size, after = page_size(call.limit), _place(call.after)
    found: list[RefusedRecord] = []
    for record in _refused(core, after):
        if len(found) == size:
            last = found[-1]
            return RefusedPage(records=tuple(found), next=f"{last.partition}:{last.position}")
        found.append(record)
    return RefusedPage(records=tuple(found), next=None)


def _place(token: str | None) -> tuple[int, int]:
    if token is None:
        return -1, -1
    partition, sign, position = token.partition(":")
    if not (sign and partition.isdecimal() and position.isdecimal() and len(token) < 32):
        raise InvalidRequest(f"after must be the `next` of the page before, not {token[:64]!r}.", parameter="after")
    return int(partition), int(position)


def _refused(core: Core, after: tuple[int, int]) -> Iterator[RefusedRecord]:
    for partition in core.owned:
        if partition < after[0]:
            continue
        start = poison_key(after[1] + 1) if partition == after[0] else b""
        while page := core.store.scan(partition, Space.BACKPLANE_POISON, start=start, limit=_ROWS_AT_ONCE):
            for key, value in page:
                yield shown(partition, key_position(key), decode_poison(value))
            start = page[-1][0] + b"\0"


def forget_poison(core: Core) -> int:
    """Drop refused records that are older than collected messages may be."""
    if core.memory(BackplaneMemory).backplane is None:
        return 0
    before = core.clock() - round(core.settings.collected_retention_seconds * 1_000_000)
    old: list[tuple[int, bytes]] = []
    for partition in core.owned:
        for key, value in core.store.scan(partition, Space.BACKPLANE_POISON, start=b"", limit=_ROWS_AT_ONCE):
            if decode_poison(value).refused_at < before:
                old.append((partition, key))

    def plan(draft: RequestDraft) -> None:
        for partition, key in old:
            draft.delete(partition, Space.BACKPLANE_POISON, key)

    if old:
        core.commit(plan)
    return len(old)


def measure_backplane(core: Core) -> None:
    """A leaf of health, on hubs that have a backplane."""
    memory = core.memory(BackplaneMemory)
    if memory.backplane is not None:
        core.memory(HealthSources).register_parts("doors", lambda: (_leaf(memory),))


def _leaf(memory: BackplaneMemory) -> HealthLeaf:
    missed = memory.totals.gaps
    gone = f"The log removed {missed} records before they were stored. Raise its retention." if missed else None
    away = failure_of(memory)
    readings = (
        flag("away", None if away is None else f"Publishes are not taken or stored: {away}"),
        flag("missed", gone),
    )
    return HealthLeaf(component="doors", part="backplane", readings=readings)


def backplane_metrics(core: Core) -> tuple[HubMetric, ...]:
    """All are 0 on hubs that have no backplane."""
    memory = core.memory(BackplaneMemory)
    totals, doorway = memory.totals, memory.doorway
    return (
        counter("restante_backplane_records", "Records read from the backplane.", totals.records),
        counter("restante_backplane_messages", "Messages stored from the backplane.", totals.messages),
        counter("restante_backplane_skipped", "Records that were stored before.", totals.skipped),
        counter("restante_backplane_refused", "Records that could not be stored, and are kept.", totals.refused),
        *(door_metrics(0, 0) if doorway is None else doorway.metrics()),
    )


FUNCTIONS: Functions = {
    ReadBackplane: read_backplane,
    ListRefusedRecords: list_refused,
}
