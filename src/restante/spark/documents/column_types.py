"""Layouts as Spark's types, and Spark's types of a table that is there as layouts."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from restante.errors import InvalidRequest
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import EMPTY, Layout
from restante.spark.documents.names import path_text, property_name
from restante.spark.documents.shapes import Kind, PropertyPath

SCALARS: dict[Kind, DataType] = {
    Kind.BOOLEAN: BooleanType(),
    Kind.LONG: LongType(),
    Kind.DECIMAL: DecimalType(38, 0),
    Kind.DOUBLE: DoubleType(),
    Kind.STRING: StringType(),
}
_KINDS = {type_.simpleString(): kind for kind, type_ in SCALARS.items()}


def schema_of(layout: Layout, fidelity: Fidelity) -> StructType:
    """The type of the column `document`."""
    return StructType(_fields(layout, fidelity))


def layout_of(schema: StructType | None, fidelity: Fidelity) -> Layout:
    """The layout that made this type of the column `document`."""
    return EMPTY if schema is None else _object(schema, fidelity, ())


def _fields(layout: Layout, fidelity: Fidelity) -> list[StructField]:
    return [StructField(column, _type(inner, fidelity)) for column, inner in layout.columns.values()]


def _type(layout: Layout, fidelity: Fidelity) -> DataType:
    if fidelity is Fidelity.WELL_DEFINED:
        (kind,) = layout.kinds
        return _type_of_kind(kind, layout, fidelity)
    return StructType([StructField(kind.value, _type_of_kind(kind, layout, fidelity)) for kind in layout.kinds])


def _type_of_kind(kind: Kind, layout: Layout, fidelity: Fidelity) -> DataType:
    if kind is Kind.OBJECT:
        return StructType(_fields(layout, fidelity))
    if kind is Kind.ARRAY:
        assert layout.element is not None, "an array has a place only when an element has"
        return ArrayType(_type(layout.element, fidelity))
    return SCALARS[kind]


def _object(schema: StructType, fidelity: Fidelity, names: PropertyPath) -> Layout:
    columns = {}
    for field in schema.fields:
        name = property_name(field.name)
        columns[name] = (field.name, _layout(field.dataType, fidelity, (*names, name)))
    return Layout(kinds=(Kind.OBJECT,), columns=columns)


def _layout(type_: DataType, fidelity: Fidelity, names: PropertyPath) -> Layout:
    if fidelity is Fidelity.WELL_DEFINED:
        return _layout_of_kind(_kind(type_, names), type_, fidelity, names)
    if not isinstance(type_, StructType) or not set(type_.names) <= {kind.value for kind in Kind}:
        raise _unknown(type_, names)
    parts = [_layout_of_kind(Kind(field.name), field.dataType, fidelity, names) for field in type_.fields]
    return Layout(
        kinds=tuple(kind for part in parts for kind in part.kinds),
        columns={name: column for part in parts for name, column in part.columns.items()},
        element=next((part.element for part in parts if part.element), None),
    )


def _layout_of_kind(kind: Kind, type_: DataType, fidelity: Fidelity, names: PropertyPath) -> Layout:
    if kind is not _kind(type_, names):
        raise _unknown(type_, names)
    if isinstance(type_, StructType):
        return _object(type_, fidelity, names)
    if isinstance(type_, ArrayType):
        return Layout(kinds=(kind,), element=_layout(type_.elementType, fidelity, names))
    return Layout(kinds=(kind,))


def _kind(type_: DataType, names: PropertyPath) -> Kind:
    if isinstance(type_, StructType):
        return Kind.OBJECT
    if isinstance(type_, ArrayType):
        return Kind.ARRAY
    found = _KINDS.get(type_.simpleString())
    if found is None:
        raise _unknown(type_, names)
    return found


def _unknown(type_: DataType, names: PropertyPath) -> InvalidRequest:
    return InvalidRequest(
        f"the table's column for {path_text(names)} has the type {type_.simpleString()}, which documents of this "
        "fidelity do not have: give the fidelity with which the table was created, or another table"
    )
