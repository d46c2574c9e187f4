"""The registration of publishing, delayed messages and producers with a hub."""

from __future__ import annotations

from restante.calls.producers import ListProducers, ReadProducer
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.mailboxes.mailbox import KeptAside
from restante.hub.publishing import calls, delayed, notice_delivery
from restante.hub.publishing.delayed_memory import DelayedMemory, load_delayed
from restante.hub.publishing.producers import ProducerMemory
from restante.hub.publishing.sourced import SourceTotals
from restante.model.health.hub_metric import HubMetric, counter, gauge
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    memory = load_delayed(opening.rows, core.owned)
    core.remember(memory)
    core.memory(KeptAside).counters.append(memory.count_for)


def _metrics(core: Core) -> tuple[HubMetric, ...]:
    producers = core.memory(ProducerMemory)
    return (
        gauge(
            "restante_messages_delayed", "Messages kept aside until their visible_at.", core.memory(DelayedMemory).count
        ),
        counter("restante_producer_replays", "Numbered parcels sent again and answered as before.", producers.replays),
        counter(
            "restante_producer_fenced",
            "Producers refused because a higher owner level has taken over.",
            producers.fenced,
        ),
        counter(
            "restante_producer_refused",
            "Numbered parcels refused because of their numbers.",
            producers.refused_numbers,
        ),
        counter(
            "restante_source_skipped",
            "Messages skipped because their source is stored beyond them.",
            core.memory(SourceTotals).skipped,
        ),
    )


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadProducer, ListProducers),
    spaces=(Space.DELAYED_DUE,),
    open=_open,
    metrics=_metrics,
    tasks=(notice_delivery.TASK, delayed.TASK),
)
