"""The calls about producers, carried out."""

from __future__ import annotations

from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.hub.engine.core import Core
from restante.hub.engine.functions import Functions
from restante.hub.publishing import producers
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import ProducerPage, ProducerState


def open_link(core: Core, call: OpenLink, caller: Grant) -> ProducerState:
    check_partition(core, call.partition)
    return producers.link(
        core,
        call.partition,
        producer_group=call.producer_group,
        owner_level=call.owner_level,
        last_published_sequence_number=call.last_published_sequence_number,
        caller=caller,
    )


def read_producer(core: Core, call: ReadProducer, caller: Grant) -> ProducerState:
    check_partition(core, call.partition)
    return producers.state(core, call.partition, call.producer_group, caller)


def list_producers(core: Core, call: ListProducers, caller: Grant) -> ProducerPage:
    check_partition(core, call.partition)
    return producers.states(core, call.partition, call.limit, call.after, caller)


FUNCTIONS: Functions = {OpenLink: open_link, ReadProducer: read_producer, ListProducers: list_producers}
