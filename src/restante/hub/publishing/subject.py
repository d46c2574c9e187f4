"""The registration of publishing, delayed messages and producers with a hub."""

from __future__ import annotations

from restante.calls.producers import ListProducers, ReadProducer
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.mailboxes.mailbox import KeptAside
from restante.hub.publishing import calls, delayed, notice_delivery
from restante.hub.publishing.delayed_memory import load_delayed
from restante.model.storage.changes import Space


def _open(core: Core, opening: Opening) -> None:
    memory = load_delayed(opening.rows, core.owned)
    core.remember(memory)
    core.memory(KeptAside).counters.append(memory.count_for)


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(ReadProducer, ListProducers),
    spaces=(Space.DELAYED_DUE,),
    open=_open,
    tasks=(notice_delivery.TASK, delayed.TASK),
)
