"""The type of a JSON body is made of the fields of its call, and the call of the body."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restante.calls.batches import OpenBatch
from restante.calls.groups import DefineGroup
from restante.calls.removal import Purge
from restante.decoders import json_decoder
from restante.server.connections.exchange import Exchange
from restante.server.openapi.parts import QueryText
from restante.server.openapi.places import query
from restante.server.requests.call_bodies import CallBody, body_of
from restante.server.requests.options import asked
from restante.server.routes import batches, consignments, groups, jobs, producers, removal

MODULES = (batches, consignments, groups, jobs, producers, removal)
BODIES = [body for module in MODULES for body in vars(module).values() if isinstance(body, CallBody)]


def asking(query: str = "") -> Exchange:
    """A request with this query; its body is read elsewhere."""
    no_body: Any = None
    return Exchange({"path": "/", "headers": [], "query_string": query.encode()}, no_body, no_body)


def made(body: CallBody[Any], text: bytes, query: str = "", /, **given: object) -> object:
    return body.call(asking(query), json_decoder(body.shape).decode(text), **given)


def test_every_route_whose_body_is_a_calls_has_one() -> None:
    assert len(BODIES) == 13
    assert len({body.shape.__name__ for body in BODIES}) == 13


def test_a_body_has_the_fields_under_their_names_on_the_wire() -> None:
    body = body_of(OpenBatch, "Opening", "A batch.")
    assert body.shape.__struct_fields__[:3] == ("id", "request_id", "key")
    assert made(body, b"{}") == OpenBatch()
    assert made(body, b'{"id": "a", "key": "night", "unique": true}') == OpenBatch(
        batch_id="a", key="night", unique=True
    )


def test_fields_in_the_path_and_in_the_query_are_unknown_in_the_body() -> None:
    body = body_of(DefineGroup, "Definition", "A group.", given=("group",), query=("change",))
    assert body.query == {"change"}
    assert made(body, b'{"kinds": ["a"]}', group="g") == DefineGroup("g", kinds=("a",))
    assert made(body, b"{}", "change=true", group="g") == DefineGroup("g", change=True)
    for text in (b'{"group": "g"}', b'{"change": true}'):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            made(body, text, group="g")


def test_what_may_not_be_null_may_be_left_out() -> None:
    body = body_of(Purge, "Purging", "A purge.", given=("recipient",), nullable=False)
    assert made(body, b'{"kind": "a"}', recipient="ada") == Purge("ada", kind="a")
    with pytest.raises(msgspec.ValidationError, match="Expected `str`, got `null`"):
        made(body, b'{"kind": null}', recipient="ada")


def test_a_field_may_have_the_name_of_a_parameter() -> None:
    awkward: Any = msgspec.defstruct("Awkward", [("kind", str), ("sent", str, ""), ("exchange", str, "")])
    given = {"kind": "a", "sent": "b"}
    assert asked(asking("exchange=c"), awkward, **given) == awkward("a", "b", "c")
    body = body_of(awkward, "Trying", "A try.", given=tuple(given))
    assert body.call(asking(), body.shape(exchange="c"), **given) == awkward("a", "b", "c")
    told = QueryText(text="Any.", example="a")
    assert [one.name for one in query(awkward, kind=told, sent=told, exchange=told)] == ["kind", "sent", "exchange"]


def test_only_fields_of_the_call_can_be_elsewhere() -> None:
    with pytest.raises(AssertionError, match="DefineGroup has not all of"):
        body_of(DefineGroup, "Definition", "A group.", given=("name",))
