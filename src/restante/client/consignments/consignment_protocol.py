"""Every call about consignments as a dialogue with a hub over HTTP: no input and output here, only what to say.

All of them may be repeated when an answer was lost: a consignment is known by its key, a parcel by writer, attempt and
number, and a commit answers the same again. So the ids of messages that have none are left to the hub.
"""

from __future__ import annotations

from functools import partial

import msgspec

from restante.calls.call import query_of
from restante.calls.consignments import (
    BeginConsignment,
    CommitConsignment,
    DiscardConsignment,
    ListConsignments,
    ReadConsignment,
    StageParcel,
)
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork
from restante.client.transport.http_answers import carried_out
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, WITH_JSON, Dialogues, done, given, long, read, said
from restante.client.transport.retries import Answered, answered
from restante.model.consignments.consignment_answers import (
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    Staged,
)
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Many
from restante.wire.publish import encode_stage

_encoder = msgspec.json.Encoder()


def open_consignment(terms: Terms, call: BeginConsignment) -> Dialogue[ConsignmentOpened]:
    request = HttpRequest(
        "POST", "/v1/consignments", terms.timeout, headers=WITH_JSON, body=_encoder.encode(said(call))
    )
    answer: Answered = yield from answered(terms, lambda _: request)
    status = 200 if answer.response.status == 200 else 201
    opened = carried_out(answer.response, terms.address, status, ConsignmentOpened)
    return msgspec.structs.replace(opened, created=status == 201)


def stage(terms: Terms, call: StageParcel) -> Dialogue[Staged]:
    encode = partial(encode_stage, call.sent)
    content_type, body = (yield LongWork(encode)) if isinstance(call.sent, Many) else encode()
    request = HttpRequest(
        "POST",
        f"{_consignment(call.consignment_id)}/parcels",
        terms.timeout,
        query=given(writer=call.writer, attempt=call.attempt, parcel=call.parcel),
        headers=(*FOR_JSON, ("Content-Type", content_type)),
        body=body,
    )
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 201, Staged)


def commit_consignment(terms: Terms, call: CommitConsignment) -> Dialogue[Receipt]:
    body = _encoder.encode(said(call, without=("consignment_id",)))
    path = f"{_consignment(call.consignment_id)}/commit"
    request = HttpRequest("POST", path, long(terms), headers=WITH_JSON, body=body)
    answer: Answered = yield from answered(terms, lambda _: request)
    return carried_out(answer.response, terms.address, 200, Receipt)


def discard_consignment(terms: Terms, call: DiscardConsignment) -> Dialogue[None]:
    request = HttpRequest("DELETE", _consignment(call.consignment_id), terms.timeout, headers=FOR_JSON)
    yield from done(terms, request, 204)


def consignment(terms: Terms, call: ReadConsignment) -> Dialogue[ConsignmentDetails]:
    return (yield from read(terms, _consignment(call.consignment_id), ConsignmentDetails))


def consignments(terms: Terms, call: ListConsignments) -> Dialogue[ConsignmentPage]:
    return (yield from read(terms, "/v1/consignments", ConsignmentPage, query_of(call)))


def _consignment(consignment_id: str) -> str:
    return f"/v1/consignments/{segment(consignment_id, 'consignment id')}"


DIALOGUES: Dialogues = {
    BeginConsignment: open_consignment,
    StageParcel: stage,
    CommitConsignment: commit_consignment,
    DiscardConsignment: discard_consignment,
    ReadConsignment: consignment,
    ListConsignments: consignments,
}
