"""Reads the type of a document as Spark's `schema_of_variant` writes it: `OBJECT<a: BIGINT, b: ARRAY<STRING>>`.

Spark merges the elements of an array. Where they do not go together it writes VARIANT, and it writes whole numbers
beside `2.0` as a decimal of 20 digits or more. Such arrays are called mixed: their elements must be looked at one by
one. The outermost array around such a place is named, by the properties that lead to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from restante.spark.documents.shapes import (
    NOTHING,
    Kind,
    MessagePlace,
    PropertyPath,
    Shape,
    an_array,
    an_object,
    scalar,
)

MIXED_PATTERN = r"VARIANT|DECIMAL\([23][0-9],0\)"
"""Finds every text that can have a mixed array in it, and some that have none."""

_SCALARS = {
    "BOOLEAN": Kind.BOOLEAN,
    "BIGINT": Kind.LONG,
    "DOUBLE": Kind.DOUBLE,
    "FLOAT": Kind.DOUBLE,
    "STRING": Kind.STRING,
}
_NOTHING = frozenset({"VOID", "VARIANT"})
_name = re.compile(r"`((?:[^`]|``)*)`|([^`:<>, ]+)", re.DOTALL)
_word = re.compile(r"[A-Z_]+(?:\((\d+),\s*(\d+)\))?")
_LONG_DIGITS_MAX = 18
"""A whole number of so many digits always has 64 bits. If it is a decimal all the same, it was written as `1.0`."""
_MERGED_DIGITS_MIN = 20
"""A decimal that is merged with a whole number has at least so many digits."""


@dataclass(frozen=True)
class TypeText:
    """A text that was read: the shape that it states, and the mixed arrays whose shape it leaves open."""

    shape: Shape
    mixed: frozenset[PropertyPath]


def read_type_text(text: str, position: MessagePlace) -> TypeText:
    """The shape of the documents with this type, of which the first stands at `position`."""
    reader = _Reader(text, position)
    shape = reader.value((), in_array=None)
    reader.end()
    return TypeText(shape, frozenset(reader.mixed))


class _Reader:
    def __init__(self, text: str, position: MessagePlace) -> None:
        self._text, self._at, self._position = text, 0, position
        self.mixed: set[PropertyPath] = set()

    def value(self, names: PropertyPath, *, in_array: PropertyPath | None) -> Shape:
        """The type that begins here. `in_array` is the way to the outermost array around it, if there is one."""
        if self._take("OBJECT<"):
            return an_object(self._properties(names, in_array), self._position)
        if self._take("ARRAY<"):
            element = self.value(names, in_array=names if in_array is None else in_array)
            self._need(">")
            return an_array(element, self._position)
        return self._scalar(in_array)

    def end(self) -> None:
        if self._at != len(self._text):
            raise self._broken()

    def _properties(self, names: PropertyPath, in_array: PropertyPath | None) -> dict[str, Shape]:
        found: dict[str, Shape] = {}
        while not self._take(">"):
            if found:
                self._need(", ")
            name = self._property_name()
            self._need(": ")
            found[name] = self.value((*names, name), in_array=in_array)
        return found

    def _property_name(self) -> str:
        match = _name.match(self._text, self._at)
        if match is None:
            raise self._broken()
        self._at = match.end()
        quoted: str | None = match[1]
        return match[2] if quoted is None else quoted.replace("``", "`")

    def _scalar(self, in_array: PropertyPath | None) -> Shape:
        match = _word.match(self._text, self._at)
        if match is None:
            raise self._broken()
        self._at = match.end()
        if match[1] is not None:
            return self._decimal(int(match[1]), int(match[2]), in_array)
        if match[0] == "VARIANT" and in_array is not None:
            self.mixed.add(in_array)
        if match[0] in _NOTHING:
            return NOTHING
        if match[0] not in _SCALARS:
            raise self._broken()
        return scalar(_SCALARS[match[0]], self._position)

    def _decimal(self, digits: int, scale: int, in_array: PropertyPath | None) -> Shape:
        if scale or digits <= _LONG_DIGITS_MAX:
            return scalar(Kind.DOUBLE, self._position)
        if in_array is not None and digits >= _MERGED_DIGITS_MIN:
            self.mixed.add(in_array)
            return NOTHING
        return scalar(Kind.DECIMAL, self._position)

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._broken()

    def _broken(self) -> AssertionError:
        return AssertionError(f"a type that Spark is not known to write, at character {self._at}: {self._text!r}")
