"""Every call of the surface as a dialogue with a hub over HTTP: no input and output here, only what to say."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import partial

import msgspec

from restante import limits
from restante.client.address import segment
from restante.client.answering import (
    Count,
    Messages,
    PartitionPage,
    Whereabouts,
    bundle_of,
    carried_out,
    expect,
    history_of,
    recipients_of,
    table_of,
    value_of,
)
from restante.client.asking import check_batch_id
from restante.client.exchange import Dialogue, Pairs, Request, Work
from restante.client.options import Terms
from restante.client.requesting import (
    FOR_ARROW,
    FOR_JSON,
    WITH_JSON,
    done,
    given,
    long,
    partition_path,
    read,
    whole_number,
)
from restante.client.retrying import Answered, answered
from restante.errors import BundleUnknown, InvalidRequest
from restante.model.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    ProducerPage,
    ProducerState,
    Receipt,
    RecipientPage,
)
from restante.model.intake import is_few
from restante.model.message import Message, State
from restante.model.outtake import to_messages
from restante.model.producer import ProducerNumbers
from restante.wire.live import LIVE_GAP
from restante.wire.publish import Encoded, encode_publish


def publish(
    terms: Terms,
    sent: object,
    *,
    partition: int | None = None,
    producer: ProducerNumbers | None = None,
    batch: str | None = None,
) -> Dialogue[Receipt]:
    """The ids are made before the first attempt, so that a repetition finds what an earlier one stored."""
    if isinstance(sent, Encoded):
        content_type, body = sent
    else:
        encode = partial(encode_publish, sent, now_ms=terms.now_ms(), random=terms.random)
        content_type, body = encode() if is_few(sent) else (yield Work(encode))
    path = "/v1/messages" if partition is None else f"{partition_path(partition)}/parcels"
    headers = (*FOR_JSON, ("Content-Type", content_type), *_numbers(producer), *_batch(batch))
    request = Request("POST", path, terms.timeout, headers=headers, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 201, Receipt)


def open_link(
    terms: Terms,
    partition: int,
    *,
    producer_group: int | None = None,
    owner_level: int | None = None,
    last_published_sequence_number: int | None = None,
) -> Dialogue[ProducerState]:
    asked = {
        "producer_group": producer_group,
        "owner_level": owner_level,
        "last_published_sequence_number": last_published_sequence_number,
    }
    body = msgspec.json.encode({name: value for name, value in asked.items() if value is not None})
    request = Request("POST", f"{partition_path(partition)}/links", terms.timeout, headers=WITH_JSON, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 201, ProducerState)


def producer_state(terms: Terms, partition: int, producer_group: int) -> Dialogue[ProducerState]:
    path = f"{partition_path(partition)}/producers/{whole_number('A producer group', producer_group)}"
    return (yield from read(terms, path, ProducerState))


def producer_states(
    terms: Terms, partition: int, *, limit: int | None = None, after: str | None = None
) -> Dialogue[ProducerPage]:
    query = given(limit=limit, after=after)
    return (yield from read(terms, f"{partition_path(partition)}/producers", ProducerPage, query))


def peek(  # noqa: PLR0913 - all that a peek may say
    terms: Terms,
    recipient: str,
    *,
    origins: Collection[str] = (),
    origin_groups: Collection[str] = (),
    bundle_id: str | None = None,
    format: str | None = None,  # the contract's name
    max_messages: int | None = None,
    max_weight: int | None = None,
    wait: float = 0,
) -> Dialogue[BundleAnswer | None]:
    """The waiting is done at the hub: the answer comes as soon as there is one."""
    path = f"{_mailbox(recipient)}/peek"
    asked = (
        *_origins(origins, origin_groups),
        *given(bundle_id=bundle_id, format=format, max_messages=max_messages, max_weight=max_weight),
    )
    longest = min(max(wait, 0), limits.WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> Request:
        left = max(longest - elapsed, 0)
        query = (*asked, ("wait", f"{left:.3f}")) if left else asked
        # An origin that delivers late is waited for, too.
        timeout = terms.timeout + left + limits.CONTENT_SECONDS_MAX
        return Request("GET", path, timeout, query=query, headers=FOR_ARROW)

    answer = yield from answered(terms, attempt)
    return bundle_of(expect(answer.response, terms.address, 200, 204), recipient, terms.address)


def dequeue(terms: Terms, recipient: str, bundle_id: str) -> Dialogue[Dequeued]:
    """Counts as done when an earlier attempt that got no answer may have done it, and the hub says it is done."""
    path = f"{_mailbox(recipient)}/bundles/{segment(bundle_id, 'bundle_id')}"
    request = Request("DELETE", path, terms.timeout, headers=FOR_JSON)
    answer: Answered = yield from answered(terms, lambda _: request)
    try:
        return value_of(expect(answer.response, terms.address, 200), Dequeued, terms.address)
    except BundleUnknown as error:
        count = error.details.get("messages")
        if answer.maybe_done and "dequeued_at" in error.details and isinstance(count, int):
            return Dequeued(bundle_id=bundle_id.lower(), messages=count)
        raise


def explain(
    terms: Terms, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
) -> Dialogue[Explanation]:
    path = f"{_mailbox(recipient)}/explain"
    return (yield from read(terms, path, Explanation, _origins(origins, origin_groups)))


def history(
    terms: Terms,
    recipient: str,
    *,
    after: int | None = None,
    before: int | None = None,
    state: State | None = None,
    limit: int | None = None,
    live_gap: int | None = None,
) -> Dialogue[HistoryPage]:
    """A page of history. `live_gap` is how many messages are missing that were not pushed; the hub counts such gaps."""
    query = given(after=after, before=before, state=None if state is None else State(state).value, limit=limit)
    path = f"{_mailbox(recipient)}/messages"
    headers = (*FOR_ARROW, (LIVE_GAP, str(live_gap))) if live_gap else FOR_ARROW
    response = yield from done(terms, Request("GET", path, terms.timeout, query=query, headers=headers), 200)
    make = partial(history_of, response, terms.address)
    page: HistoryPage = make() if len(response.body) <= limits.MIB else (yield Work(make))
    return page


def find(terms: Terms, recipient: str, message_id: str) -> Dialogue[Message]:
    path = _message(recipient, message_id)
    response = yield from done(terms, Request("GET", path, terms.timeout, headers=FOR_ARROW), 200)
    (message,) = to_messages(table_of(response, terms.address))
    return message


def withdraw(terms: Terms, recipient: str, message_id: str) -> Dialogue[None]:
    yield from done(terms, Request("DELETE", _message(recipient, message_id), terms.timeout), 204)


def set_aside(terms: Terms, recipient: str, message_id: str) -> Dialogue[None]:
    yield from done(terms, Request("POST", f"{_message(recipient, message_id)}/set-aside", terms.timeout), 204)


def release(terms: Terms, recipient: str, message_id: str) -> Dialogue[None]:
    yield from done(terms, Request("POST", f"{_message(recipient, message_id)}/release", terms.timeout), 204)


def purge(
    terms: Terms,
    recipient: str,
    *,
    origin: str | None = None,
    kind: str | None = None,
    before: datetime | None = None,
    dry_run: bool = False,
) -> Dialogue[int]:
    if before is not None and before.tzinfo is None:
        raise InvalidRequest("before must say its time zone.")
    asked = {"origin": origin, "kind": kind, "before": before, "dry_run": dry_run or None}
    body = msgspec.json.encode({name: value for name, value in asked.items() if value is not None})
    request = Request("POST", f"{_mailbox(recipient)}/purge", long(terms), headers=WITH_JSON, body=body)
    response = yield from done(terms, request, 200)
    return value_of(response, Messages, terms.address).messages


def erase(terms: Terms, recipient: str, *, dry_run: bool = False) -> Dialogue[int]:
    query = (("dry_run", "true"),) if dry_run else ()
    request = Request("DELETE", _mailbox(recipient), long(terms), query=query, headers=FOR_JSON)
    response = yield from done(terms, request, 200)
    return value_of(response, Messages, terms.address).messages


def recipients(
    terms: Terms, *, order: str = "waiting", limit: int | None = None, after: str | None = None
) -> Dialogue[RecipientPage]:
    query = given(order=order, limit=limit, after=after)
    request = Request("GET", "/v1/recipients", terms.timeout, query=query, headers=FOR_JSON)
    return recipients_of((yield from done(terms, request, 200)), terms.address)


def partitions(terms: Terms) -> Dialogue[tuple[PartitionStatus, ...]]:
    """All of them, page by page."""
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


def partition_of(terms: Terms, recipient: str) -> Dialogue[int]:
    where = yield from read(terms, f"{_mailbox(recipient)}/partition", Whereabouts)
    return where.partition


def maintain(terms: Terms, work: str) -> Dialogue[int]:
    """File, expire or retain, now."""
    request = Request("POST", f"/v1/maintenance/{work}", long(terms), headers=FOR_JSON)
    return value_of((yield from done(terms, request, 200)), Count, terms.address).count


def _mailbox(recipient: str) -> str:
    return f"/v1/recipients/{segment(recipient, 'recipient')}"


def _message(recipient: str, message_id: str) -> str:
    return f"{_mailbox(recipient)}/messages/{segment(message_id, 'message id')}"


def _numbers(producer: ProducerNumbers | None) -> Pairs:
    """Who publishes under which numbers, as headers."""
    if producer is None:
        return ()
    numbers = (
        ("Restante-Producer-Group", str(producer.group)),
        ("Restante-Owner-Level", str(producer.owner_level)),
        ("Restante-Published-Sequence", str(producer.published_sequence)),
    )
    return (*numbers, ("Restante-Made-Anew", "true")) if producer.made_anew else numbers


def _batch(batch: str | None) -> Pairs:
    """Whose items the messages become, as a header."""
    if batch is None:
        return ()
    check_batch_id(batch)
    return (("Restante-Batch", batch),)


def _origins(origins: Collection[str], origin_groups: Collection[str]) -> Pairs:
    return (*(("origin", name) for name in origins), *(("origin_group", name) for name in origin_groups))
