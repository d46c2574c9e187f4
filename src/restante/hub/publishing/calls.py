"""The functions that carry out the calls about publishing and producers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.calls.shards import DeliverNotice, JudgeMessages
from restante.errors import Fault, InvalidRequest
from restante.hub.batches.part_calls import enlist_if_new
from restante.hub.engine import filing
from restante.hub.engine.commit_request import CommitRequest, RequestLine
from restante.hub.engine.core import Core, parse_uuid
from restante.hub.engine.procedures import Functions
from restante.hub.publishing import producers, sources
from restante.hub.publishing.delayed import delay_request
from restante.hub.publishing.large_publish import laid_out_elsewhere, written_ahead
from restante.hub.publishing.notice_delivery import deliver
from restante.hub.publishing.publish import check_partition, large_publish
from restante.hub.publishing.publish_request import PlainPublish, PublishRequest, ReadMessages
from restante.hub.publishing.refuse import in_conflict
from restante.hub.publishing.sent import check_messages, sent_columns, taken_apart
from restante.hub.publishing.sourced import sourced_publish
from restante.model.access.access import EVERYTHING, Grant
from restante.model.access.origin_access import check_origins
from restante.model.mailboxes.answers import ProducerPage, ProducerState, Receipt
from restante.model.producers.producer import ProducerNumbers, check_numbers
from restante.model.publishing.broadcast import has_broadcast, spread
from restante.model.publishing.delay import are_delayed, refuse_combined
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, few_or_many
from restante.model.publishing.message import Message, MessageColumns
from restante.model.sources.source import refuse_positions
from restante.model.storage.letter import Letter


def publish(core: Core, call: Publish, caller: Grant) -> Receipt:
    request = enlisted_request(core, call, caller)
    filing.relieve(core)
    with written_ahead(core, request):
        return core.submit(request)


def enlisted_request(core: Core, call: Publish, caller: Grant) -> CommitRequest[Receipt]:
    """A publish request, made in the caller's thread: if the batch is new to this shard, its home is asked first."""
    if core.shard is not None and call.batch is not None:
        enlist_if_new(core, parse_uuid(call.batch, "batch"))
    return publish_request(core, call, caller)


def publish_request(core: Core, call: Publish, caller: Grant) -> CommitRequest[Receipt]:
    """A publish request. Many messages are checked here, in the caller's thread; few are checked in their commit.

    Delayed messages are always checked here, because they are set aside and not published now.
    """
    check_partition(core, call.partition)
    if call.source is not None:
        return _sourced_request(core, call, call.source, caller)
    line = None if call.producer is None else _line(core, call.partition, call.producer, caller)
    batch = None if call.batch is None else parse_uuid(call.batch, "batch")
    match _each_for_one(call.sent):
        case Few(messages) if not any_special(messages):
            check_messages(messages)
            return PublishRequest(
                messages, partition=call.partition, numbers=call.producer, batch=batch, caller=caller, line=line
            )
        case Few() | Many() as sent:
            laid = laid_out_elsewhere(core, sent)
            if laid is not None:
                check_origins(caller, laid.arrivals.columns.origin)
                columns = laid.arrivals.columns
                return large_publish(core, columns, call.partition, call.producer, batch, caller, line, laid)
            columns = sent_columns(core, sent, caller, call.partition)
            refuse_positions(columns)
            if are_delayed(columns, core.clock()):
                return _delayed_request(core, call, columns)
            return large_publish(core, columns, call.partition, call.producer, batch, caller, line)
        case EncodedPublish():
            raise taken_apart()
        case never:
            assert_never(never)


def plain_request(
    core: Core,
    letters: Sequence[Letter],
    read: ReadMessages,
    caller: Grant,
    partition: int | None = None,
    numbers: ProducerNumbers | None = None,
) -> CommitRequest[Receipt]:
    """A publish request for a few valid, simple messages. `read` gives them as `Message`s, if they are needed."""
    line = None
    if partition is not None:
        check_partition(core, partition)
    if numbers is not None:
        line = _line(core, partition, numbers, caller)
    return PlainPublish(letters, read, caller, partition, numbers, line)


def _sourced_request(core: Core, call: Publish, source: str, caller: Grant) -> CommitRequest[Receipt]:
    """A publish by source position. Its messages become columns even if they are few."""
    if call.producer is not None:
        raise InvalidRequest("A publish is numbered by its producer, or has a source; not both.")
    sent = _each_for_one(call.sent)
    if isinstance(sent, EncodedPublish):
        raise taken_apart()
    columns = sent_columns(core, sent, caller, call.partition)
    if are_delayed(columns, core.clock()):
        raise refuse_combined("a source")
    batch = None if call.batch is None else parse_uuid(call.batch, "batch")
    return sourced_publish(core, columns, source, call.partition, batch, caller)


def _each_for_one(sent: Few | Many | EncodedPublish) -> Few | Many | EncodedPublish:
    """The same messages with each broadcast spread into one message for each recipient."""
    if isinstance(sent, Many) and isinstance(sent.content, Sequence) and has_broadcast(sent.content):
        return few_or_many(spread(sent.content))
    return sent


def any_special(messages: Sequence[object]) -> bool:
    """Whether any of these messages has a `visible_at` or a source position, so that all must become columns."""
    return any(
        isinstance(message, Message) and (message.visible_at is not None or message.source_position is not None)
        for message in messages
    )


def _delayed_request(core: Core, call: Publish, columns: MessageColumns) -> CommitRequest[Receipt]:
    if call.producer is not None or call.batch is not None:
        raise refuse_combined("a batch" if call.producer is None else "numbers of a producer")
    return delay_request(core, columns, call.partition)


def _line(core: Core, partition: int | None, numbers: ProducerNumbers, caller: Grant) -> RequestLine:
    """The line of a producer group, in which its numbers are judged."""
    check_numbers(numbers)
    if partition is None:
        raise InvalidRequest("Numbers count in one partition: name it.")
    return producers.line_of(core, caller, partition, numbers.group)


def open_link(core: Core, call: OpenLink, caller: Grant) -> ProducerState:
    check_partition(core, call.partition)
    return producers.link(core, call, caller)


def read_producer(core: Core, call: ReadProducer, caller: Grant) -> ProducerState:
    check_partition(core, call.partition)
    return producers.state(core, call.partition, call.producer_group, caller)


def list_producers(core: Core, call: ListProducers, caller: Grant) -> ProducerPage:
    check_partition(core, call.partition)
    return producers.states(core, call, caller)


def judge_messages(core: Core, call: JudgeMessages, caller: Grant) -> tuple[Fault, ...]:
    """The conflicts of messages with those stored in this shard, and among themselves."""
    if isinstance(call.sent, EncodedPublish):
        raise taken_apart()
    found = in_conflict(core, sent_columns(core, call.sent, EVERYTHING), caller=caller)
    core.store.require_owned()
    return tuple(found)


FUNCTIONS: Functions = {
    Publish: publish,
    OpenLink: open_link,
    ReadProducer: read_producer,
    ListProducers: list_producers,
    **sources.FUNCTIONS,
    DeliverNotice: deliver,
    JudgeMessages: judge_messages,
}
