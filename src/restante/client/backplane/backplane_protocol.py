"""The calls about the backplane as dialogues with a hub over HTTP."""

from __future__ import annotations

from restante.calls.backplane import (
    DeleteRefusedRecord,
    ListRefusedRecords,
    ReadBackplane,
    ReadRefusedRecord,
    RepeatRefusedRecord,
)
from restante.calls.call import query_of
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, Dialogues, done, read, whole_number
from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedPage, RefusedRecord
from restante.model.mailboxes.answers import Receipt

_PATH = "/v1/backplane"


def read_backplane(terms: Terms, call: ReadBackplane) -> Dialogue[BackplaneStatus]:
    return (yield from read(terms, _PATH, BackplaneStatus, query_of(call)))


def list_refused(terms: Terms, call: ListRefusedRecords) -> Dialogue[RefusedPage]:
    return (yield from read(terms, f"{_PATH}/refused", RefusedPage, query_of(call)))


def read_refused(terms: Terms, call: ReadRefusedRecord) -> Dialogue[RefusedRecord]:
    return (yield from read(terms, _place(call), RefusedRecord))


def repeat_refused(terms: Terms, call: RepeatRefusedRecord) -> Dialogue[Receipt]:
    request = HttpRequest("POST", f"{_place(call)}/again", terms.timeout, headers=FOR_JSON)
    return value_of((yield from done(terms, request, 200)), Receipt, terms.address)


def delete_refused(terms: Terms, call: DeleteRefusedRecord) -> Dialogue[None]:
    yield from done(terms, HttpRequest("DELETE", _place(call), terms.timeout), 204)


def _place(call: ReadRefusedRecord | RepeatRefusedRecord | DeleteRefusedRecord) -> str:
    place = f"{whole_number('A partition', call.partition)}/{whole_number('A position', call.position)}"
    return f"{_PATH}/refused/{place}"


DIALOGUES: Dialogues = {
    ReadBackplane: read_backplane,
    ListRefusedRecords: list_refused,
    ReadRefusedRecord: read_refused,
    RepeatRefusedRecord: repeat_refused,
    DeleteRefusedRecord: delete_refused,
}
