"""Every call about batches as a dialogue with a hub over HTTP: no input and output here, only what to say.

All of them may be repeated when an answer was lost. A new batch is opened under an id that the client proposes, and
items are added under the id of the request: so the hub knows a repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from restante.calls.batches import (
    AcknowledgeEach,
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReadProgress,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.calls.call import query_of
from restante.client.batches.acknowledgement_text import text_of, text_of_several
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import carried_out, expect, value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, WITH_JSON, Dialogues, done, long, read, said
from restante.client.transport.retries import Answered, answered
from restante.errors import BatchUnknown, OutcomeUnknown
from restante.limits import WAIT_SECONDS_MAX
from restante.model.batches.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchStatus,
    ItemGroups,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
)
from restante.model.uuid_text import made_ids

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class _Answers(msgspec.Struct, frozen=True):
    answers: tuple[Acknowledged, ...]


def open_batch(terms: Terms, call: OpenBatch) -> Dialogue[BatchOpened]:
    body = said(call)
    if call.batch_id is None and call.request_id is None:
        # Whether a key is used is known where it lies: then the hub makes the id, from one that is the same each time.
        body["request_id" if call.unique else "id"] = _made_id(terms)
    request = HttpRequest("POST", "/v1/batches", terms.timeout, headers=WITH_JSON, body=_encoder.encode(body))
    return (yield from _changed(terms, request, 201, BatchOpened))


def add_items(terms: Terms, call: AddItems) -> Dialogue[ItemGroups]:
    body = said(call, without=("batch_id",))
    if call.request_id is None:
        body["request_id"] = _made_id(terms)
    path = f"{_batch(call.batch_id)}/items"
    request = HttpRequest("POST", path, terms.timeout, headers=WITH_JSON, body=_encoder.encode(body))
    return (yield from _changed(terms, request, 201, ItemGroups))


def seal_batch(terms: Terms, call: SealBatch) -> Dialogue[Sealed]:
    request = HttpRequest("POST", f"{_batch(call.batch_id)}/seal", terms.timeout, headers=FOR_JSON)
    return (yield from _changed(terms, request, 200, Sealed))


def acknowledge_items(terms: Terms, call: AcknowledgeItems) -> Dialogue[Acknowledged]:
    """Acknowledge items in a request of their own."""
    (answer,) = yield from acknowledge(terms, (acknowledgement(call),))
    return answer


def acknowledge_each(terms: Terms, call: AcknowledgeEach) -> Dialogue[tuple[Acknowledged, ...]]:
    """Carry several acknowledgements out in one request."""
    if not call.calls:
        return ()
    return (yield from acknowledge(terms, [acknowledgement(each) for each in call.calls]))


def acknowledgement(call: AcknowledgeItems) -> bytes:
    return text_of(call.items, ranges=call.ranges, indices=call.indices)


def acknowledge(terms: Terms, calls: Sequence[bytes]) -> Dialogue[tuple[Acknowledged, ...]]:
    """Calls as `restante.client.batches.acknowledgement_text` writes them, in one request; an answer to each."""
    if len(calls) == 1:
        return ((yield from _changed(terms, _acknowledging(terms, calls[0]), 200, Acknowledged)),)
    answers = (yield from _changed(terms, _acknowledging(terms, text_of_several(calls)), 200, _Answers)).answers
    if len(answers) != len(calls):
        told = f"The hub at {terms.address.url} has answered {len(answers)} of {len(calls)} calls."
        raise OutcomeUnknown(f"{told} The calls may have been carried out; repeating them does no harm.")
    return answers


def _acknowledging(terms: Terms, body: bytes) -> HttpRequest:
    return HttpRequest("POST", "/v1/acknowledgements", terms.timeout, headers=WITH_JSON, body=body)


def batch_status(terms: Terms, call: ReadBatch) -> Dialogue[BatchStatus]:
    return (yield from read(terms, _batch(call.batch_id), BatchStatus))


def batches(terms: Terms, call: ListBatches) -> Dialogue[BatchPage]:
    return (yield from read(terms, "/v1/batches", BatchPage, query_of(call)))


def pending_items(terms: Terms, call: ListPendingItems) -> Dialogue[PendingPage]:
    return (yield from read(terms, f"{_batch(call.batch_id)}/pending", PendingPage, query_of(call)))


def batch_progress(terms: Terms, call: ReadProgress) -> Dialogue[ProgressPage]:
    return (yield from read(terms, f"{_batch(call.batch_id)}/progress", ProgressPage, query_of(call)))


def wait_batch(terms: Terms, call: WaitForBatch) -> Dialogue[BatchStatus | None]:
    """The waiting is done at the hub: the answer comes as soon as the batch is complete."""
    path = f"{_batch(call.batch_id)}/wait"
    longest = min(max(call.seconds, 0), WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        return HttpRequest("GET", path, terms.timeout + left, query=(("seconds", f"{left:.3f}"),), headers=FOR_JSON)

    answer: Answered = yield from answered(terms, attempt)
    response = expect(answer.response, terms.address, 200, 204)
    return None if response.status == 204 else value_of(response, BatchStatus, terms.address)


def delete_batch(terms: Terms, call: DeleteBatch) -> Dialogue[None]:
    """Counts as done when an earlier attempt that got no answer may have done it, and the hub knows no such batch."""
    request = HttpRequest("DELETE", _batch(call.batch_id), terms.timeout, headers=FOR_JSON)
    answer: Answered = yield from answered(terms, lambda _: request)
    try:
        expect(answer.response, terms.address, 204)
    except BatchUnknown:
        if not answer.maybe_done:
            raise


def reap_batches(terms: Terms, call: ReapBatches) -> Dialogue[Reaped]:
    request = HttpRequest("POST", "/v1/batches/reap", long(terms), headers=WITH_JSON, body=_encoder.encode(said(call)))
    return value_of((yield from done(terms, request, 200)), Reaped, terms.address)


def _changed(terms: Terms, request: HttpRequest, status: int, kind: type[T]) -> Dialogue[T]:
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, status, kind)


def _batch(batch_id: str) -> str:
    return f"/v1/batches/{segment(batch_id, 'batch id')}"


def _made_id(terms: Terms) -> str:
    (made,) = made_ids(1, terms.random, terms.now_ms())
    return made


DIALOGUES: Dialogues = {
    OpenBatch: open_batch,
    AddItems: add_items,
    SealBatch: seal_batch,
    AcknowledgeItems: acknowledge_items,
    AcknowledgeEach: acknowledge_each,
    ReadBatch: batch_status,
    ListBatches: batches,
    ListPendingItems: pending_items,
    ReadProgress: batch_progress,
    WaitForBatch: wait_batch,
    DeleteBatch: delete_batch,
    ReapBatches: reap_batches,
}
