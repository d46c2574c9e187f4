"""Reads documents into the columns of a schema, strictly: the text "12" is no number, and 12 is no text.

Spark's `from_json` reads a whole document in one go, and is strict about booleans, numbers and objects. It is not about
texts (it writes any value as text) and arrays (one wrong element makes the whole array null). Such places are read as
variants, and then by what they are; after a survey only the suspects: those where it has met what has no place there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType

from restante.spark.documents.column_types import SCALARS
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import Layout
from restante.spark.documents.shapes import NUMBERS, Kind, PropertyPath, place_for
from restante.spark.documents.texts import as_array, as_object, document_text, is_document, parsed

Convert = Callable[[Column], Column]

_OPTIONS = {"allowNonNumericNumbers": "false"}
"""Options of `from_json`, without which the text "NaN" would be a number."""
_STRICT = frozenset({Kind.BOOLEAN, Kind.LONG, Kind.DOUBLE})
"""The kinds that `from_json` reads from nothing else."""
_LARGE = r"^DECIMAL\((19|[23][0-9]),0\)$"


def with_struct(
    frame: DataFrame, layout: Layout, fidelity: Fidelity, suspects: frozenset[PropertyPath] | None
) -> DataFrame:
    """The frame with the column `document`: a struct, null where there is no document or it cannot be read.

    `suspects` are the places where values of another kind can stand; None if that is not known. The way () is one as
    well: there can be documents that cannot be read.
    """
    plan = _Reader(fidelity, suspects).object(layout, ())
    text = document_text()
    is_suspect = suspects is None or () in suspects
    there = is_document() & parsed(text).isNotNull() if is_suspect else is_document()
    read = f.when(there, f.from_json(text, plan.type.json(), _OPTIONS))
    # Spark would read the text again for each column, if this were one expression.
    return frame.withColumn("document", read).withColumn("document", plan.convert(f.col("document")))


@dataclass(frozen=True)
class _Plan:
    """The type as which `from_json` reads a value, and what is made of it then."""

    type: DataType
    convert: Convert
    is_plain: bool = False
    """Whether nothing is made of the document."""


def _plain(type_: DataType) -> _Plan:
    return _Plan(type_, lambda value: value, is_plain=True)


class _Reader:
    def __init__(self, fidelity: Fidelity, suspects: frozenset[PropertyPath] | None) -> None:
        self._fidelity, self._suspects = fidelity, suspects

    def object(self, layout: Layout, names: PropertyPath) -> _Plan:
        """Objects whose properties have columns of the same name are read as structs, others as maps of variants."""
        if any(name != column for name, (column, _) in layout.columns.items()):
            return _Plan(MapType(StringType(), VariantType()), lambda value: self._from_map(value, layout))
        plans = {name: self._value(inner, (*names, name)) for name, (_, inner) in layout.columns.items()}
        type_ = StructType([StructField(name, plan.type) for name, plan in plans.items()])
        if all(plan.is_plain for plan in plans.values()):
            return _plain(type_)
        return _Plan(
            type_, lambda value: _struct(value, {name: plan.convert(value[name]) for name, plan in plans.items()})
        )

    def _value(self, layout: Layout, names: PropertyPath) -> _Plan:
        if len(layout.kinds) > 1:
            return _Plan(VariantType(), lambda value: self._from_variant(value, layout))
        plan = self._only(layout.kinds[0], layout, names)
        if plan is None:
            return _Plan(VariantType(), lambda value: self._from_variant(value, layout))
        if self._fidelity is Fidelity.WELL_DEFINED:
            return plan
        return _Plan(plan.type, lambda value: _struct(value, {layout.kinds[0]: plan.convert(value)}))

    def _only(self, kind: Kind, layout: Layout, names: PropertyPath) -> _Plan | None:
        """How to read what can only be of this kind. None if `from_json` would not be strict."""
        if kind is Kind.OBJECT:
            return self.object(layout, names)
        if kind in _STRICT:
            return _plain(SCALARS[kind])
        if self._suspects is None or names in self._suspects:
            return None
        if kind is not Kind.ARRAY:
            return _plain(SCALARS[kind])
        assert layout.element is not None, "an array has a place only when an element has"
        element = self._value(layout.element, names)
        type_ = ArrayType(element.type)
        return _plain(type_) if element.is_plain else _Plan(type_, lambda value: f.transform(value, element.convert))

    def _from_variant(self, value: Column, layout: Layout) -> Column:
        """Each kind by what the value is."""
        if self._fidelity is Fidelity.WELL_DEFINED:
            return self._of_kind(value, layout.kinds[0], layout)
        parts = {kind.value: self._of_kind(value, kind, layout) for kind in layout.kinds}
        return f.when(value.isNotNull() & ~f.is_variant_null(value), _fields(parts))

    def _of_kind(self, value: Column, kind: Kind, layout: Layout) -> Column:
        if kind is Kind.OBJECT:
            return _let(as_object(value), lambda properties: self._from_map(properties, layout))
        if kind is Kind.ARRAY:
            element = layout.element
            assert element is not None, "an array has a place only when an element has"
            return f.transform(as_array(value), lambda inner: self._from_variant(inner, element))
        taken = [other for other in Kind if place_for(other, layout.kinds) is kind]
        is_taken = _is_any(f.schema_of_variant(value), taken)
        return f.when(is_taken, f.try_variant_get(value, "$", SCALARS[kind].simpleString()))

    def _from_map(self, properties: Column, layout: Layout) -> Column:
        parts = {
            column: self._from_variant(f.try_element_at(properties, f.lit(name)), inner)
            for name, (column, inner) in layout.columns.items()
        }
        return _struct(properties, parts)


def _struct(value: Column, parts: dict[str, Column]) -> Column:
    return f.when(value.isNotNull(), _fields(parts))


def _fields(parts: dict[str, Column]) -> Column:
    return f.struct(*[part.alias(name) for name, part in parts.items()])


def _let(value: Column, then: Convert) -> Column:
    """Computes a value once for an expression that needs it often."""
    return f.transform(f.array(value), then)[0]


def _is_any(type_: Column, kinds: list[Kind]) -> Column:
    words = {Kind.BOOLEAN: "BOOLEAN", Kind.LONG: "BIGINT", Kind.STRING: "STRING"}
    if kinds == list(NUMBERS):
        return type_.isin("BIGINT", "DOUBLE", "FLOAT") | type_.startswith("DECIMAL(")
    tests = [type_ == word for kind, word in words.items() if kind in kinds]
    if Kind.DECIMAL in kinds:
        tests.append(type_.rlike(_LARGE))
    if Kind.DOUBLE in kinds:
        tests.append(type_.isin("DOUBLE", "FLOAT") | (type_.startswith("DECIMAL(") & ~type_.rlike(_LARGE)))
    found = tests[0]
    for test in tests[1:]:
        found = found | test
    return found
