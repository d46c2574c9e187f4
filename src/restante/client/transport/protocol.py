"""The calls about messages, mailboxes, producers and partitions as dialogues over HTTP. Their I/O is done by drivers."""

from __future__ import annotations

from functools import partial

import msgspec

from restante import limits
from restante.calls.call import query_of
from restante.calls.mailboxes import (
    Dequeue,
    Explain,
    FindMessage,
    ListPartitions,
    ListRecipients,
    PartitionOf,
    Peek,
    ReadHistory,
)
from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, ExpireNow, FileNow, Purge, Release, RetainNow, SetAside, Withdraw
from restante.client.transport.address import segment
from restante.client.transport.column_answers import bundle_of, history_of, table_of
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Pairs
from restante.client.transport.http_answers import (
    CountAnswer,
    Messages,
    PartitionPage,
    Whereabouts,
    carried_out,
    check_state,
    expect,
    recipients_of,
    value_of,
)
from restante.client.transport.options import Terms
from restante.client.transport.requests import (
    FOR_ARROW,
    FOR_BUNDLE,
    FOR_JSON,
    WITH_JSON,
    Dialogues,
    done,
    given,
    long,
    partition_path,
    read,
    said,
    whole_number,
)
from restante.client.transport.retries import Answered, answered
from restante.client.transport.small_protocol import explain, mailbox_path, publish_encoded
from restante.errors import BundleUnknown
from restante.model.mailboxes.answers import (
    BundleAnswer,
    Dequeued,
    HistoryPage,
    PartitionStatus,
    ProducerPage,
    ProducerState,
    Reason,
    Receipt,
    RecipientPage,
)
from restante.model.mailboxes.filters import check_purge
from restante.model.mailboxes.message_tables import to_messages
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import Many
from restante.model.publishing.message import Message
from restante.wire.live import LIVE_GAP
from restante.wire.publish import encode_publish, encode_sourced


def publish(terms: Terms, call: Publish) -> Dialogue[Receipt]:
    """Publish. Ids are made before the first attempt, so that the hub recognises a repetition."""
    encoder = encode_publish if call.source is None else encode_sourced
    encode = partial(encoder, call.sent, now_ms=terms.now_ms(), random=terms.random)
    encoded = (yield LongWork(encode)) if isinstance(call.sent, Many) else encode()
    numbers = _numbers(call.producer)
    return (
        yield from publish_encoded(
            terms,
            encoded,
            partition=call.partition,
            batch=call.batch,
            source=call.source,
            accept=call.accept,
            headers=numbers,
        )
    )


def open_link(terms: Terms, call: OpenLink) -> Dialogue[ProducerState]:
    path, body = f"{partition_path(call.partition)}/links", msgspec.json.encode(said(call, without=("partition",)))
    request = HttpRequest("POST", path, terms.timeout, headers=WITH_JSON, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    check_state(answer.response, terms.address)
    return carried_out(answer.response, terms.address, 201, ProducerState)


def producer_state(terms: Terms, call: ReadProducer) -> Dialogue[ProducerState]:
    path = f"{partition_path(call.partition)}/producers/{whole_number('A producer group', call.producer_group)}"
    return (yield from read(terms, path, ProducerState))


def producer_states(terms: Terms, call: ListProducers) -> Dialogue[ProducerPage]:
    return (yield from read(terms, f"{partition_path(call.partition)}/producers", ProducerPage, query_of(call)))


def peek(terms: Terms, call: Peek) -> Dialogue[BundleAnswer | Reason]:
    """Peek. The hub waits, and answers as soon as there is a bundle."""
    path = f"{mailbox_path(call.recipient)}/peek"
    asked = query_of(call, without=("wait",))
    longest = min(max(call.wait, 0), limits.WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        query = (*asked, ("wait", f"{left:.3f}")) if left else asked
        # Add the time that an origin may take to deliver.
        timeout = terms.timeout + left + limits.CONTENT_SECONDS_MAX
        return HttpRequest("GET", path, timeout, query=query, headers=FOR_BUNDLE)

    answer = yield from answered(terms, attempt)
    return bundle_of(expect(answer.response, terms.address, 200, 204), call.recipient, terms.address)


def dequeue(terms: Terms, call: Dequeue) -> Dialogue[Dequeued]:
    """Dequeue. If an earlier attempt got no answer, and the hub now says that the bundle was dequeued, it is a success."""
    path = f"{mailbox_path(call.recipient)}/bundles/{segment(call.bundle_id, 'bundle_id')}"
    request = HttpRequest("DELETE", path, terms.timeout, headers=FOR_JSON)
    answer: Answered = yield from answered(terms, lambda _: request)
    try:
        return value_of(expect(answer.response, terms.address, 200), Dequeued, terms.address)
    except BundleUnknown as error:
        count = error.details.get("messages")
        if answer.maybe_done and "dequeued_at" in error.details and isinstance(count, int):
            return Dequeued(bundle_id=call.bundle_id.lower(), messages=count)
        raise


def history(terms: Terms, call: ReadHistory) -> Dialogue[HistoryPage]:
    query = query_of(call, without=("live_gap",))
    path = f"{mailbox_path(call.recipient)}/messages"
    headers = (*FOR_ARROW, (LIVE_GAP, str(call.live_gap))) if call.live_gap else FOR_ARROW
    response = yield from done(terms, HttpRequest("GET", path, terms.timeout, query=query, headers=headers), 200)
    make = partial(history_of, response, terms.address)
    page: HistoryPage = make() if len(response.body) <= limits.MIB else (yield LongWork(make))
    return page


def find(terms: Terms, call: FindMessage) -> Dialogue[Message]:
    response = yield from done(terms, HttpRequest("GET", _message(call), terms.timeout, headers=FOR_ARROW), 200)
    (message,) = to_messages(table_of(response, terms.address))
    return message


def withdraw(terms: Terms, call: Withdraw) -> Dialogue[None]:
    yield from done(terms, HttpRequest("DELETE", _message(call), terms.timeout), 204)


def set_aside(terms: Terms, call: SetAside) -> Dialogue[None]:
    yield from done(terms, HttpRequest("POST", f"{_message(call)}/set-aside", terms.timeout), 204)


def release(terms: Terms, call: Release) -> Dialogue[None]:
    yield from done(terms, HttpRequest("POST", f"{_message(call)}/release", terms.timeout), 204)


def purge(terms: Terms, call: Purge) -> Dialogue[int]:
    check_purge(origin=call.origin, kind=call.kind, before=call.before, everything=call.all, dry_run=call.dry_run)
    body = msgspec.json.encode(said(call, without=("recipient",)))
    request = HttpRequest("POST", f"{mailbox_path(call.recipient)}/purge", long(terms), headers=WITH_JSON, body=body)
    response = yield from done(terms, request, 200)
    return value_of(response, Messages, terms.address).messages


def erase(terms: Terms, call: Erase) -> Dialogue[int]:
    request = HttpRequest("DELETE", mailbox_path(call.recipient), long(terms), query=query_of(call), headers=FOR_JSON)
    response = yield from done(terms, request, 200)
    return value_of(response, Messages, terms.address).messages


def recipients(terms: Terms, call: ListRecipients) -> Dialogue[RecipientPage]:
    request = HttpRequest("GET", "/v1/recipients", terms.timeout, query=query_of(call), headers=FOR_JSON)
    return recipients_of((yield from done(terms, request, 200)), terms.address)


def partitions(terms: Terms, _: ListPartitions) -> Dialogue[tuple[PartitionStatus, ...]]:
    """List all partitions, page by page."""
    found: list[PartitionStatus] = []
    after: str | None = None
    while len(found) < limits.PARTITIONS_MAX:
        query = given(limit=limits.PAGE_MAX, after=after)
        page = yield from read(terms, "/v1/partitions", PartitionPage, query)
        found += page.partitions
        after = page.next
        if after is None or not page.partitions:
            break
    return tuple(found)


def partition_of(terms: Terms, call: PartitionOf) -> Dialogue[int]:
    where = yield from read(terms, f"{mailbox_path(call.recipient)}/partition", Whereabouts)
    return where.partition


def file(terms: Terms, _: FileNow) -> Dialogue[int]:
    return (yield from _maintain(terms, "file"))


def expire(terms: Terms, _: ExpireNow) -> Dialogue[int]:
    return (yield from _maintain(terms, "expire"))


def retain(terms: Terms, _: RetainNow) -> Dialogue[int]:
    return (yield from _maintain(terms, "retain"))


def _maintain(terms: Terms, work: str) -> Dialogue[int]:
    request = HttpRequest("POST", f"/v1/maintenance/{work}", long(terms), headers=FOR_JSON)
    return value_of((yield from done(terms, request, 200)), CountAnswer, terms.address).count


def _message(call: FindMessage | Withdraw | SetAside | Release) -> str:
    return f"{mailbox_path(call.recipient)}/messages/{segment(call.message_id, 'message id')}"


def _numbers(producer: ProducerNumbers | None) -> Pairs:
    """The headers for the producer group, level and number of a publish."""
    if producer is None:
        return ()
    numbers = (
        ("Restante-Producer-Group", str(producer.group)),
        ("Restante-Owner-Level", str(producer.owner_level)),
        ("Restante-Published-Sequence", str(producer.published_sequence)),
    )
    return (*numbers, ("Restante-Made-Anew", "true")) if producer.made_anew else numbers


DIALOGUES: Dialogues = {
    Publish: publish,
    OpenLink: open_link,
    ReadProducer: producer_state,
    ListProducers: producer_states,
    Peek: peek,
    Dequeue: dequeue,
    Explain: explain,
    ReadHistory: history,
    FindMessage: find,
    Withdraw: withdraw,
    SetAside: set_aside,
    Release: release,
    Purge: purge,
    Erase: erase,
    ListRecipients: recipients,
    ListPartitions: partitions,
    PartitionOf: partition_of,
    FileNow: file,
    ExpireNow: expire,
    RetainNow: retain,
}
