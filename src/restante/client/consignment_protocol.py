"""Every call about consignments as a dialogue with a hub over HTTP: no input and output here, only what to say.

All of them may be repeated when an answer was lost: a consignment is known by its key, a parcel by writer, attempt and
number, and a commit answers the same again. So the ids of messages that have none are left to the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from restante.client.address import segment
from restante.client.answering import carried_out
from restante.client.exchange import Dialogue, Request, Work
from restante.client.options import Terms
from restante.client.requesting import FOR_JSON, WITH_JSON, done, given, long, read
from restante.client.retrying import Answered, answered
from restante.model.answers import Receipt
from restante.model.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    Staged,
    Winner,
)
from restante.model.intake import is_few
from restante.wire.publish import encode_stage

_encoder = msgspec.json.Encoder()


class _Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    secret: str | None = None


class _Wish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    webhook: _Hook | None = None
    notify: str | None = None


class _Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    batch: bool | _Wish | UnsetType = UNSET


def open_consignment(terms: Terms, key: str, *, batch: bool | BatchWish = False) -> Dialogue[ConsignmentOpened]:
    body = _encoder.encode(_Opening(key=key, batch=_wish(batch=batch)))
    request = Request("POST", "/v1/consignments", terms.timeout, headers=WITH_JSON, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    status = 200 if answer.response.status == 200 else 201
    opened = carried_out(answer.response, terms.address, status, ConsignmentOpened)
    return msgspec.structs.replace(opened, created=status == 201)


def stage(
    terms: Terms, consignment_id: str, sent: object, *, writer: str, attempt: int, parcel: int
) -> Dialogue[Staged]:
    encode = partial(encode_stage, sent)
    content_type, body = encode() if is_few(sent) else (yield Work(encode))
    request = Request(
        "POST",
        f"{_consignment(consignment_id)}/parcels",
        terms.timeout,
        query=given(writer=writer, attempt=attempt, parcel=parcel),
        headers=(*FOR_JSON, ("Content-Type", content_type)),
        body=body,
    )
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 201, Staged)


def commit_consignment(terms: Terms, consignment_id: str, writers: Sequence[Winner]) -> Dialogue[Receipt]:
    body = _encoder.encode({"writers": list(writers)})
    path = f"{_consignment(consignment_id)}/commit"
    request = Request("POST", path, long(terms), headers=WITH_JSON, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 200, Receipt)


def discard_consignment(terms: Terms, consignment_id: str) -> Dialogue[None]:
    request = Request("DELETE", _consignment(consignment_id), terms.timeout, headers=FOR_JSON)
    yield from done(terms, request, 204)


def consignment(terms: Terms, consignment_id: str) -> Dialogue[ConsignmentDetails]:
    return (yield from read(terms, _consignment(consignment_id), ConsignmentDetails))


def consignments(
    terms: Terms,
    *,
    state: ConsignmentState | None = None,
    key: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Dialogue[ConsignmentPage]:
    query = given(state=None if state is None else state.value, key=key, limit=limit, after=after)
    return (yield from read(terms, "/v1/consignments", ConsignmentPage, query))


def _wish(*, batch: bool | BatchWish) -> bool | _Wish | UnsetType:
    if not isinstance(batch, BatchWish):
        return batch or UNSET
    hook = batch.webhook
    return _Wish(webhook=None if hook is None else _Hook(url=hook.url, secret=hook.secret), notify=batch.notify)


def _consignment(consignment_id: str) -> str:
    return f"/v1/consignments/{segment(consignment_id, 'consignment id')}"
