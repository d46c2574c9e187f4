"""`Call`, the base of all operations, and `options`, what a request over HTTP may say of one in its query."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)

# The bounds of numbers in a request. The hub refuses others, and the description of the routes states the bounds.
_INTEGER_MAX = 2**63 - 1
Count = Annotated[int, msgspec.Meta(ge=1, le=_INTEGER_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=_INTEGER_MAX)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Home(Enum):
    """Which shard of several answers a call, or a request."""

    NAMED = "named"
    """The shard of the thing that is named; any shard, if nothing is."""
    FIRST = "first"
    """The shard that has the first partition."""
    ALL = "all"
    """No single shard, although a thing is named: a door splits the request, gathers the answers, or asks any shard."""


class Call(msgspec.Struct, Generic[Answer_co], frozen=True):
    """One operation of a hub as a value. A link answers it: `link.call(Peek("alice"))` is a `BundleAnswer` or a `Reason`."""

    home: ClassVar[Home] = Home.NAMED


class CallOption(NamedTuple):
    """A field of a call that may be left out."""

    field: str
    name: str
    """The name of the field in a query: `origin` for each of the `origins`."""
    kind: type
    """`str`, `int`, `float`, `bool`, a kind of `Enum`, `tuple` for several texts, or another type."""
    default: object


@cache
def options(kind: type[Call[Any]]) -> tuple[CallOption, ...]:
    """The fields of a call that may be left out, in their order. The others stand in the path or the body."""
    fields = msgspec.structs.fields(kind)
    return tuple(
        CallOption(one.name, one.encode_name, _plain(one.type), one.default) for one in fields if not one.required
    )


def query_names(kind: type[Call[Any]]) -> frozenset[str]:
    """The names that the query of a request for this call may hold."""
    return frozenset([option.name for option in options(kind)])


def query_of(call: Call[Any], *, without: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
    """The options of a call as the pairs of a query, less what says nothing and the fields in `without`."""
    pairs: list[tuple[str, str]] = []
    for option in options(type(call)):
        value = getattr(call, option.field)
        if option.field in without or value is None or value is False:
            continue
        if option.kind is tuple:
            pairs += [(option.name, str(each)) for each in value]
        else:
            pairs.append((option.name, _text(value)))
    return tuple(pairs)


def _text(value: object) -> str:
    if value is True:
        return "true"
    return str(value.value) if isinstance(value, Enum) else str(value)


def _plain(annotation: Any) -> type:  # noqa: ANN401 - what annotations are
    """The type of an annotation, less `None`, its bounds, and what a tuple or a `Literal` consists of."""
    of = get_origin(annotation)
    if of is Annotated:
        return _plain(get_args(annotation)[0])
    if of is Literal:
        return str
    if isinstance(of, type) and issubclass(of, tuple):
        return tuple
    left = [each for each in get_args(annotation) if each is not NoneType]
    if len(left) == 1:
        return _plain(left[0])
    return annotation if isinstance(annotation, type) else object
