"""JSON bodies of calls: the type of a body is made of the fields of its call, and the call of a body.

Routes decode bodies into these types, and OpenAPI has their schemas. A route writes the struct of its body by hand only if
that has other fields than the call, or fields of other types.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, TypeVar, Union, get_args

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from restante.calls.call import Call
from restante.server.connections.exchange import Exchange
from restante.server.requests.options import options_asked

C = TypeVar("C", bound=Call[Any])


@dataclass(frozen=True, slots=True)
class CallBody(Generic[C]):
    """The body of a call. Make one with `body_of`, once."""

    kind: type[C]
    shape: type[msgspec.Struct]
    """The type of the body: the fields of the call that it holds, under their names on the wire."""
    fields: tuple[tuple[str, str], ...]
    """The names of these fields in the call and on the wire."""
    query: frozenset[str]
    """The names that the query may hold beside the body."""

    def call(self, exchange: Exchange, sent: msgspec.Struct, /, **given: object) -> C:
        """The call of a decoded body; its other fields are `given`, or read from the query."""
        said = {field: getattr(sent, name) for field, name in self.fields}
        said = {field: value for field, value in said.items() if value is not UNSET}
        return self.kind(**said, **options_asked(exchange, self.kind, self.query), **given)


def body_of(
    kind: type[C],
    name: str,
    text: str,
    *,
    given: tuple[str, ...] = (),
    query: tuple[str, ...] = (),
    nullable: bool = True,
) -> CallBody[C]:
    """The body of a call, named and described as in OpenAPI: all fields of the call but those in `query` and those `given`.

    The route gives what stands in the path, or follows from a header. In a body that is not nullable, null is no option.
    """
    fields = msgspec.structs.fields(kind)
    apart = {*given, *query}
    assert apart <= {one.name for one in fields}, f"{kind.__name__} has not all of {sorted(apart)}"
    within = [one for one in fields if one.name not in apart]
    shape = msgspec.defstruct(
        name,
        [_field(one, nullable=nullable) for one in within],
        namespace={"__doc__": text},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    names = tuple((one.name, one.encode_name) for one in within)
    return CallBody(kind, shape, names, frozenset(one.encode_name for one in fields if one.name in query))


def _field(own: msgspec.structs.FieldInfo, *, nullable: bool) -> tuple[str, Any] | tuple[str, Any, Any]:
    if own.required:
        return own.encode_name, own.type
    if nullable or NoneType not in get_args(own.type):
        assert own.default is not NODEFAULT, f"{own.name} has a plain default, or the body a struct of its own"
        return own.encode_name, own.type, own.default
    left = tuple(each for each in get_args(own.type) if each is not NoneType)
    return own.encode_name, Union[(*left, UnsetType)], UNSET
