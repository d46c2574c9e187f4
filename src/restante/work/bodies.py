"""Typed bodies: the body of an action is checked before its handler is called.

A body is JSON. It becomes a msgspec struct, a dataclass, a pydantic model where that is installed, or whatever else
msgspec can make of JSON.
"""

from __future__ import annotations

import types
import typing
from typing import Any, Protocol, TypeGuard, runtime_checkable

import msgspec

from restante.decoders import new_json_decoder

NULL = b"null"


class BodyMisfit(ValueError):
    """The body is no JSON, or does not fit the type. It says where, and never what the body holds."""


class NoBody(Exception):
    """The body is JSON's null, which the handler does not take."""


@runtime_checkable
class _Model(Protocol):
    """The methods of a class of pydantic."""

    def model_validate_json(self, data: bytes) -> Any: ...  # noqa: ANN401 - the model
    def model_json_schema(self, *, ref_template: str) -> dict[str, Any]: ...


class BodyType:
    """The body that one handler takes."""

    def __init__(self, annotation: Any) -> None:  # noqa: ANN401 - what annotations are
        self.annotation = annotation
        self.takes_null = annotation in (Any, object, None, types.NoneType) or types.NoneType in typing.get_args(
            annotation
        )
        self.model = _model_in(annotation)
        """The class of pydantic that it is, if it is one."""
        self._decoder = None if self.model is not None else new_json_decoder(annotation)

    def decode(self, data: bytes) -> Any:  # noqa: ANN401 - of the handler's own type
        """The body as the handler takes it."""
        if data.strip() == NULL:
            if self.takes_null:
                return None
            raise NoBody
        if self.model is not None:
            return _validated(self.model, data)
        assert self._decoder is not None
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BodyMisfit(f"The body does not fit: {error}") from None


def encode_body(value: object) -> bytes:
    """The JSON of a value that a caller sends, or a handler returns."""
    dump = getattr(value, "model_dump_json", None)
    return dump().encode() if callable(dump) else msgspec.json.encode(value)


def _model_in(annotation: object) -> _Model | None:
    """The pydantic model that an annotation is, or may be beside None."""
    found = [one for one in (annotation, *typing.get_args(annotation)) if _is_model(one)]
    return found[0] if found else None


def _is_model(annotation: object) -> TypeGuard[_Model]:
    return isinstance(annotation, type) and isinstance(annotation, _Model)


def _validated(model: _Model, data: bytes) -> Any:  # noqa: ANN401 - the model
    try:
        return model.model_validate_json(data)
    except ValueError as error:
        raise BodyMisfit(f"The body does not fit: {_told(error)}") from None


def _told(error: ValueError) -> str:
    """The problems of pydantic without the values, which are the caller's data."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return type(error).__name__
    problems = listed(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{one['msg']} - at `$.{'.'.join(map(str, one['loc']))}`" for one in problems)
