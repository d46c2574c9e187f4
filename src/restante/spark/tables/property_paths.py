"""A value anywhere in a row, by its path: `recipient`, `properties.region`, `document.customer.region`, `data.customer.region`.

The first name is a column. The next names lead into its value: a struct's fields, a map's entries, a variant, or text and
bytes that hold JSON. Out of JSON, maps and variants comes text; a struct's field keeps its type.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from restante.errors import InvalidRequest


def value_at(schema: StructType, path: str) -> Column:
    """The value that the path leads to. `InvalidRequest` says where it ends, if it leads nowhere or to no single value."""
    first, *rest = names = path.split(".")
    if not all(names):
        raise InvalidRequest(f"{path!r} is no path. Write names with dots between, such as document.customer.region.")
    if first not in schema.names:
        raise InvalidRequest(f"There is no column {first!r} for {path!r}. There are {', '.join(schema.names)}.")
    value, kind = _followed(f.col(f"`{first}`"), schema[first].dataType, rest, path)
    if isinstance(kind, StructType | MapType | ArrayType):
        raise InvalidRequest(f"{path!r} leads to a {kind.typeName()}, and a key must be a single value. Go on into it.")
    return value.cast("string") if isinstance(kind, VariantType | BinaryType) else value


def _followed(value: Column, kind: DataType, names: Sequence[str], path: str) -> tuple[Column, DataType]:
    if not names:
        return value, kind
    if isinstance(kind, VariantType):
        return f.try_variant_get(value, _in_json(names), "string"), StringType()
    if isinstance(kind, StringType | BinaryType):
        return f.get_json_object(value.cast("string"), _in_json(names)), StringType()
    name, *rest = names
    if isinstance(kind, StructType) and name in kind.names:
        return _followed(value.getField(name), kind[name].dataType, rest, path)
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return _followed(value.getItem(name), kind.valueType, rest, path)
    raise InvalidRequest(f"{path!r} leads nowhere: there is no {name!r} in a {kind.simpleString()[:80]}.")


def _in_json(names: Sequence[str]) -> str:
    """`$.a.b`. A name with a bracket in it stands in brackets."""
    return "$" + "".join(f"['{name}']" if "[" in name else f".{name}" for name in names)
