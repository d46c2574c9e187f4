"""Decoders of JSON and of MessagePack for a type, made by one thread at a time.

msgspec lays a struct out when its first decoder is made, and shows that layout to other threads before its fields are filled
in: a second thread that decodes the same struct in that moment, or one that holds it, reads through a null pointer. So
decoders are made here alone, under one lock, and once for each type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
DecodeHook = Callable[[type, Any], Any]


@overload
def json_decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...  # noqa: ANN401 - a union of types
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of JSON into a type."""
    return _json_decoder(kind)


@overload
def packed_decoder(kind: type[_T], dec_hook: DecodeHook | None = None) -> msgspec.msgpack.Decoder[_T]: ...
@overload
def packed_decoder(kind: Any, dec_hook: DecodeHook | None = None) -> msgspec.msgpack.Decoder[Any]: ...  # noqa: ANN401 - a union of types
def packed_decoder(kind: Any, dec_hook: DecodeHook | None = None) -> msgspec.msgpack.Decoder[Any]:
    """The decoder of MessagePack into a type."""
    return _packed_decoder(kind, dec_hook)


@overload
def converted(value: object, kind: type[_T], *, strict: bool = True) -> _T: ...
@overload
def converted(value: object, kind: Any, *, strict: bool = True) -> Any: ...  # noqa: ANN401 - a union of types
def converted(value: object, kind: Any, *, strict: bool = True) -> Any:
    """A value made of plain containers, as a type."""
    _json_decoder(kind)
    return msgspec.convert(value, kind, strict=strict)


def new_json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - what annotations are
    """A decoder of JSON into a type that a program names; it need not be hashable."""
    with _one_at_a_time:
        return msgspec.json.Decoder(kind)


@cache
def _packed_decoder(kind: Any, dec_hook: DecodeHook | None) -> msgspec.msgpack.Decoder[Any]:  # noqa: ANN401 - a type
    with _one_at_a_time:
        return msgspec.msgpack.Decoder(kind, dec_hook=dec_hook)


_json_decoder = cache(new_json_decoder)
_one_at_a_time = RLock()
