"""The registration of consignments with a hub."""

from __future__ import annotations

from functools import partial

from restante.calls.consignments import ListConsignments, ReadConsignment
from restante.hub.batches.memory import BatchMemory
from restante.hub.consignments import calls, consignments, rounds
from restante.hub.consignments.prepared import load_prepared, promised_for
from restante.hub.consignments.staged_parcels import load_room, load_rounds
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.mailboxes.mailbox import KeptAside
from restante.model.health.hub_metric import HubMetric, counter, gauge
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    room = load_room(opening.rows, core.owned)
    core.remember(room)
    core.remember(load_rounds(opening.rows, core.owned))
    load_prepared(core, opening.rows)
    core.memory(BatchMemory).needs.append(room.keeps_batch)
    if core.shard is not None:
        core.memory(KeptAside).counters.append(partial(promised_for, core))


def _begin(core: Core, opening: Opening) -> None:
    consignments.tidy_leftovers(core, opening.rows)


def _metrics(core: Core) -> tuple[HubMetric, ...]:
    totals = calls.consignment_totals(core)
    return (
        gauge("restante_consignments_open", "Consignments that are open.", totals.open),
        gauge("restante_staged_messages", "Messages that open consignments have staged.", totals.staged_messages),
        gauge("restante_staged_bytes", "Bytes that open consignments have staged.", totals.staged_bytes),
        counter("restante_consignments_committed", "Consignments committed.", totals.committed),
    )


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadConsignment, ListConsignments),
    spaces=(
        *(Space.CONSIGNMENT, Space.CONSIGNMENT_ROUND, Space.CONSIGNMENT_PARCEL),
        *(Space.STAGED_PART, Space.PREPARED),
    ),
    open=_open,
    begin=_begin,
    metrics=_metrics,
    tasks=(rounds.TASK, rounds.PARKED_TASK),
    chores=(consignments.keep,),
)
