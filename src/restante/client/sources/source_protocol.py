"""The calls about sources as dialogues with a hub over HTTP."""

from __future__ import annotations

import msgspec

from restante.calls.call import query_of
from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import WITH_JSON, Dialogues, done, read
from restante.model.sources.source import NO_POSITION, check_position
from restante.model.sources.source_answers import SourcePage, SourceStatus


def read_source(terms: Terms, call: ReadSource) -> Dialogue[SourceStatus]:
    return (yield from read(terms, _path(call.source), SourceStatus))


def list_sources(terms: Terms, call: ListSources) -> Dialogue[SourcePage]:
    return (yield from read(terms, "/v1/sources", SourcePage, query_of(call)))


def reset_source(terms: Terms, call: ResetSource) -> Dialogue[SourceStatus]:
    position = check_position(call.position)
    said: dict[str, int | None] = {"position": None if position == NO_POSITION else position}
    if call.partition is not None:
        said["partition"] = call.partition
    body = msgspec.json.encode(said)
    request = HttpRequest("POST", f"{_path(call.source)}/reset", terms.timeout, headers=WITH_JSON, body=body)
    return value_of((yield from done(terms, request, 200)), SourceStatus, terms.address)


def delete_source(terms: Terms, call: DeleteSource) -> Dialogue[None]:
    yield from done(terms, HttpRequest("DELETE", _path(call.source), terms.timeout), 204)


def _path(source: str) -> str:
    return f"/v1/sources/{segment(source, 'source')}"


DIALOGUES: Dialogues = {
    ReadSource: read_source,
    ListSources: list_sources,
    ResetSource: reset_source,
    DeleteSource: delete_source,
}
