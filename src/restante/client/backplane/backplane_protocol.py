"""The calls about the backplane as dialogues with a hub over HTTP."""

from __future__ import annotations

from restante.calls.backplane import DeleteRefusedRecord, ListRefusedRecords, ReadBackplane
from restante.calls.call import query_of
from restante.client.transport.dialogues import Dialogues
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.options import Terms
from restante.client.transport.requests import done, read, whole_number
from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedPage

_PATH = "/v1/backplane"


def read_backplane(terms: Terms, call: ReadBackplane) -> Dialogue[BackplaneStatus]:
    return (yield from read(terms, _PATH, BackplaneStatus, query_of(call)))


def list_refused(terms: Terms, call: ListRefusedRecords) -> Dialogue[RefusedPage]:
    return (yield from read(terms, f"{_PATH}/refused", RefusedPage, query_of(call)))


def delete_refused(terms: Terms, call: DeleteRefusedRecord) -> Dialogue[None]:
    place = f"{whole_number('A partition', call.partition)}/{whole_number('A position', call.position)}"
    yield from done(terms, HttpRequest("DELETE", f"{_PATH}/refused/{place}", terms.timeout), 204)


DIALOGUES: Dialogues = {
    ReadBackplane: read_backplane,
    ListRefusedRecords: list_refused,
    DeleteRefusedRecord: delete_refused,
}
