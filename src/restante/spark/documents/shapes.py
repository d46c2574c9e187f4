"""The shape of documents: which kinds of values each property has had, and where each kind was first met.

Shapes form a lattice. `merge` is the least shape that has all of both: it is associative, commutative and idempotent,
so it does not matter in which order, or how often, documents are looked at. "First" is no order of merging but a part
of the value: each kind carries the least position at which it was met, and merging takes the lesser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce

MessagePlace = tuple[int, ...]
"""Partition and sequence number of the message; within a mixed array also the index of the element."""
PropertyPath = tuple[str, ...]
"""The properties that lead to a value, from the outside in. Arrays are passed through without a trace."""


class Kind(StrEnum):
    """The kinds of values of JSON. Null is no kind: it says nothing. Also the names of the columns of full fidelity."""

    BOOLEAN = "boolean"
    LONG = "long"
    """A whole number of 64 bits, written without fraction or exponent."""
    DECIMAL = "decimal"
    """A whole number that needs more than 64 bits, of up to 38 digits."""
    DOUBLE = "double"
    """Any other number."""
    STRING = "string"
    OBJECT = "object"
    ARRAY = "array"


NUMBERS = (Kind.LONG, Kind.DECIMAL, Kind.DOUBLE)
"""The kinds of numbers from the narrowest to the widest: a number has its place in the column of a wider kind as well."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The values that have been met at one place of the documents."""

    kinds: Mapping[Kind, MessagePlace] = field(default_factory=dict)
    """Each kind, with the least position at which it was met."""
    properties: Mapping[str, Shape] = field(default_factory=dict)
    """The properties of the objects among the values."""
    element: Shape | None = None
    """The shape of what the arrays among them held, all elements together."""

    @property
    def first(self) -> MessagePlace | None:
        """Where anything but null was met first."""
        return min(self.kinds.values(), default=None)


NOTHING = Shape()
"""Null, or a property that never was there."""


def scalar(kind: Kind, position: MessagePlace) -> Shape:
    """The shape of a boolean, a number or a text."""
    return Shape(kinds={kind: position})


def an_object(properties: Mapping[str, Shape], position: MessagePlace) -> Shape:
    """An object with these properties."""
    return Shape(kinds={Kind.OBJECT: position}, properties=properties)


def an_array(element: Shape, position: MessagePlace) -> Shape:
    """An array that holds these elements."""
    return Shape(kinds={Kind.ARRAY: position}, element=element)


def merge(one: Shape, other: Shape) -> Shape:
    """The least shape that has all of both."""
    return Shape(
        kinds=_earliest(one.kinds, other.kinds),
        properties=_joined(one.properties, other.properties),
        element=_either(one.element, other.element),
    )


def merged(shapes: Iterable[Shape]) -> Shape:
    """The least shape that has all of all."""
    return reduce(merge, shapes, NOTHING)


def place_for(kind: Kind, kinds: Iterable[Kind]) -> Kind | None:
    """Which of these columns takes a value of this kind: its own, or for a number the next wider one."""
    offered = frozenset(kinds)
    if kind not in NUMBERS:
        return kind if kind in offered else None
    return next((wider for wider in NUMBERS[NUMBERS.index(kind) :] if wider in offered), None)


def _earliest(one: Mapping[Kind, MessagePlace], other: Mapping[Kind, MessagePlace]) -> dict[Kind, MessagePlace]:
    found = dict(one)
    for kind, position in other.items():
        found[kind] = min(found.get(kind, position), position)
    return found


def _joined(one: Mapping[str, Shape], other: Mapping[str, Shape]) -> dict[str, Shape]:
    found = dict(one)
    for name, shape in other.items():
        found[name] = merge(found[name], shape) if name in found else shape
    return found


def _either(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return one or other
    return merge(one, other)
