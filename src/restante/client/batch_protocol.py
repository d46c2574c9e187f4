"""Every call about batches as a dialogue with a hub over HTTP: no input and output here, only what to say.

All of them may be repeated when an answer was lost. A new batch is opened under an id that the client proposes, and
items are added under the id of the request: so the hub knows a repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from restante.client.acknowledgement_text import text_of_several
from restante.client.address import segment
from restante.client.answering import carried_out, expect, value_of
from restante.client.exchange import Dialogue, Request
from restante.client.options import Terms
from restante.client.requesting import FOR_JSON, WITH_JSON, done, given, long, read
from restante.client.retrying import Answered, answered
from restante.errors import BatchUnknown, OutcomeUnknown
from restante.limits import WAIT_SECONDS_MAX
from restante.model.batch_answers import (
    Acknowledged,
    BatchOpened,
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    ItemGroups,
    PendingPage,
    ProgressPage,
    Reaped,
    Sealed,
    Webhook,
)
from restante.wire.publish import made_ids

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class _Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    key: str | UnsetType = UNSET
    unique: bool = False
    counting: Counting = Counting.EXACT
    webhook: dict[str, str] | UnsetType = UNSET
    notify: str | UnsetType = UNSET


class _Answers(msgspec.Struct, frozen=True):
    answers: tuple[Acknowledged, ...]


def open_batch(
    terms: Terms,
    *,
    key: str | None = None,
    unique: bool = False,
    counting: Counting = Counting.EXACT,
    webhook: Webhook | None = None,
    notify: str | None = None,
    batch_id: str | None = None,
) -> Dialogue[BatchOpened]:
    asked = _Opening(
        id=_made_id(terms) if batch_id is None else batch_id,
        key=UNSET if key is None else key,
        unique=unique,
        counting=counting,
        webhook=UNSET if webhook is None else _told(webhook),
        notify=UNSET if notify is None else notify,
    )
    request = Request("POST", "/v1/batches", terms.timeout, headers=WITH_JSON, body=_encoder.encode(asked))
    return (yield from _changed(terms, request, 201, BatchOpened))


def add_items(terms: Terms, batch_id: str, count: int, *, request_id: str | None = None) -> Dialogue[ItemGroups]:
    body = _encoder.encode({"count": count, "request_id": _made_id(terms) if request_id is None else request_id})
    request = Request("POST", f"{_batch(batch_id)}/items", terms.timeout, headers=WITH_JSON, body=body)
    return (yield from _changed(terms, request, 201, ItemGroups))


def seal_batch(terms: Terms, batch_id: str) -> Dialogue[Sealed]:
    request = Request("POST", f"{_batch(batch_id)}/seal", terms.timeout, headers=FOR_JSON)
    return (yield from _changed(terms, request, 200, Sealed))


def acknowledge(terms: Terms, calls: Sequence[bytes]) -> Dialogue[tuple[Acknowledged, ...]]:
    """Calls as `restante.client.acknowledgement_text` writes them, in one request; an answer to each."""
    if len(calls) == 1:
        return ((yield from _changed(terms, _acknowledging(terms, calls[0]), 200, Acknowledged)),)
    answers = (yield from _changed(terms, _acknowledging(terms, text_of_several(calls)), 200, _Answers)).answers
    if len(answers) != len(calls):
        told = f"The hub at {terms.address.url} has answered {len(answers)} of {len(calls)} calls."
        raise OutcomeUnknown(f"{told} They may have been carried out; to do it again does no harm.")
    return answers


def _acknowledging(terms: Terms, body: bytes) -> Request:
    return Request("POST", "/v1/acknowledgements", terms.timeout, headers=WITH_JSON, body=body)


def batch_status(terms: Terms, batch_id: str) -> Dialogue[BatchStatus]:
    return (yield from read(terms, _batch(batch_id), BatchStatus))


def batches(
    terms: Terms,
    *,
    state: BatchState | None = None,
    key: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Dialogue[BatchPage]:
    query = given(state=None if state is None else state.value, key=key, limit=limit, after=after)
    return (yield from read(terms, "/v1/batches", BatchPage, query))


def pending_items(
    terms: Terms, batch_id: str, *, limit: int | None = None, after: str | None = None
) -> Dialogue[PendingPage]:
    return (yield from read(terms, f"{_batch(batch_id)}/pending", PendingPage, given(limit=limit, after=after)))


def batch_progress(
    terms: Terms, batch_id: str, *, waiting: bool = False, limit: int | None = None, after: str | None = None
) -> Dialogue[ProgressPage]:
    query = given(waiting="true" if waiting else None, limit=limit, after=after)
    return (yield from read(terms, f"{_batch(batch_id)}/progress", ProgressPage, query))


def wait_batch(terms: Terms, batch_id: str, seconds: float) -> Dialogue[BatchStatus | None]:
    """The waiting is done at the hub: the answer comes as soon as the batch is complete."""
    path = f"{_batch(batch_id)}/wait"
    longest = min(max(seconds, 0), WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> Request:
        left = max(longest - elapsed, 0)
        return Request("GET", path, terms.timeout + left, query=(("seconds", f"{left:.3f}"),), headers=FOR_JSON)

    answer: Answered = yield from answered(terms, attempt)
    response = expect(answer.response, terms.address, 200, 204)
    return None if response.status == 204 else value_of(response, BatchStatus, terms.address)


def delete_batch(terms: Terms, batch_id: str) -> Dialogue[None]:
    """Counts as done when an earlier attempt that got no answer may have done it, and the hub knows no such batch."""
    request = Request("DELETE", _batch(batch_id), terms.timeout, headers=FOR_JSON)
    answer: Answered = yield from answered(terms, lambda _: request)
    try:
        expect(answer.response, terms.address, 204)
    except BatchUnknown:
        if not answer.maybe_done:
            raise


def reap_batches(terms: Terms, *, dry_run: bool = False) -> Dialogue[Reaped]:
    body = _encoder.encode({"dry_run": True} if dry_run else {})
    request = Request("POST", "/v1/batches/reap", long(terms), headers=WITH_JSON, body=body)
    return value_of((yield from done(terms, request, 200)), Reaped, terms.address)


def _changed(terms: Terms, request: Request, status: int, kind: type[T]) -> Dialogue[T]:
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, status, kind)


def _batch(batch_id: str) -> str:
    return f"/v1/batches/{segment(batch_id, 'batch id')}"


def _made_id(terms: Terms) -> str:
    (made,) = made_ids(1, terms.random, terms.now_ms())
    return made


def _told(webhook: Webhook) -> dict[str, str]:
    return {"url": webhook.url} if webhook.secret is None else {"url": webhook.url, "secret": webhook.secret}
