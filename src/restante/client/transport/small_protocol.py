"""The calls whose requests and answers are only JSON, so that a program that makes no others need not import Arrow."""

from __future__ import annotations

from restante.calls.call import query_of
from restante.calls.mailboxes import Explain
from restante.client.surface.arguments import check_batch_id
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest, Pairs
from restante.client.transport.http_answers import carried_out
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, partition_path, read
from restante.client.transport.retries import Answered, answered
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import Explanation, Receipt
from restante.model.publishing.few_or_many import EncodedPublish


def publish_encoded(
    terms: Terms,
    sent: EncodedPublish,
    *,
    partition: int | None = None,
    batch: str | None = None,
    source: str | None = None,
    accept: Accept | None = None,
    headers: Pairs = (),
) -> Dialogue[Receipt]:
    path = "/v1/messages" if partition is None else f"{partition_path(partition)}/parcels"
    beside = (*_batch(batch), *_source(source), *_accept(accept))
    headers = (*FOR_JSON, ("Content-Type", sent.content_type), *headers, *beside)
    request = HttpRequest("POST", path, terms.timeout, headers=headers, body=sent.body)
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 202 if accept is Accept.ACCEPTED else 201, Receipt)


def explain(terms: Terms, call: Explain) -> Dialogue[Explanation]:
    return (yield from read(terms, f"{mailbox_path(call.recipient)}/explain", Explanation, query_of(call)))


def mailbox_path(recipient: str) -> str:
    return f"/v1/recipients/{segment(recipient, 'recipient')}"


def _batch(batch: str | None) -> Pairs:
    """The header for the batch that the messages become items of."""
    if batch is None:
        return ()
    check_batch_id(batch)
    return (("Restante-Batch", batch),)


def _accept(accept: Accept | None) -> Pairs:
    """The header that says when to answer a publish."""
    return () if accept is None else (("Restante-Accept", accept.value),)


def _source(source: str | None) -> Pairs:
    """The header for the source of the messages."""
    if source is None:
        return ()
    return (("Restante-Source", segment(source, "source")),)
