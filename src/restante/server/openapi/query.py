"""The parameters of queries, made of the calls: names, types, bounds and defaults are those of the fields."""

from __future__ import annotations

from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from restante.calls.call import Call, query_names
from restante.server.openapi.parts import Parameter, QueryText, Schema

NUMBER_MAX = 2**63 - 1
"""The largest whole number that is read from a query."""


def query(kind: type[Call[Any]], **told: QueryText | tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """The parameters in the query of a request for this call, in the order of the fields; `told` by their names there.

    A field that travels in another way has parameters of its own. Required fields are left out unless they are told.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert query_names(kind) <= told.keys() <= fields.keys(), f"{kind.__name__}: {sorted(told)} are described"
    parameters: list[Parameter] = []
    for name, field in fields.items():
        text = told.get(name, ())
        parameters += (_parameter(field, text),) if isinstance(text, QueryText) else text
    return tuple(parameters)


def _parameter(field: msgspec.structs.FieldInfo, told: QueryText) -> Parameter:
    schema = {**_of_type(field.type), **(told.form or {})}
    if not field.required and field.default not in (None, ()):
        schema["default"] = field.default.value if isinstance(field.default, Enum) else field.default
    return Parameter(
        name=field.encode_name, text=told.text, schema=schema, example=told.example, required=field.required
    )


def _of_type(annotation: Any) -> Schema:  # noqa: ANN401 - what annotations are
    left = [each for each in get_args(annotation) if each is not NoneType]
    if NoneType in get_args(annotation) and len(left) == 1:
        return _of_type(left[0])
    if get_origin(annotation) is Literal:
        return {"type": "string", "enum": left}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": "string", "enum": [each.value for each in annotation]}
    schema = msgspec.json.schema(annotation)
    return {**schema, "format": "int64", "maximum": NUMBER_MAX} if schema["type"] == "integer" else schema
