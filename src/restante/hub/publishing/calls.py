"""The calls about publishing and producers, carried out."""

from __future__ import annotations

from typing import assert_never

from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.errors import InvalidRequest
from restante.hub.engine import filing
from restante.hub.engine.committer import Line
from restante.hub.engine.core import Core, parse_uuid
from restante.hub.engine.functions import Functions
from restante.hub.publishing import producers
from restante.hub.publishing.publish import check_partition, large_publish
from restante.hub.publishing.publish_request import PublishRequest
from restante.hub.publishing.sent import check_messages, sent_columns, taken_apart
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import ProducerPage, ProducerState, Receipt
from restante.model.producers.producer import check_numbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many


def publish(core: Core, call: Publish, caller: Grant) -> Receipt:
    request = publish_request(core, call, caller)
    filing.relieve(core)
    return core.submit(request)


def publish_request(core: Core, call: Publish, caller: Grant) -> PublishRequest:
    """A publish, to be submitted. Many messages are checked here, in the caller's thread; few with their commit."""
    check_partition(core, call.partition)
    line = None if call.producer is None else _line(core, call, caller)
    batch = None if call.batch is None else parse_uuid(call.batch, "batch")
    match call.sent:
        case Few(messages):
            check_messages(messages)
            return PublishRequest(
                messages, partition=call.partition, numbers=call.producer, batch=batch, caller=caller, line=line
            )
        case Many() as many:
            columns = sent_columns(core, many, caller, call.partition)
            return large_publish(core, columns, call.partition, call.producer, batch, caller, line)
        case EncodedPublish():
            raise taken_apart()
        case never:
            assert_never(never)


def _line(core: Core, call: Publish, caller: Grant) -> Line:
    """In which the numbers of a producer count."""
    assert call.producer is not None, "only a numbered publish is in a line"
    check_numbers(call.producer)
    if call.partition is None:
        raise InvalidRequest("Numbers count in one partition: name it.")
    return producers.line_of(core, caller, call.partition, call.producer.group)


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


FUNCTIONS: Functions = {
    Publish: publish,
    OpenLink: open_link,
    ReadProducer: read_producer,
    ListProducers: list_producers,
}
