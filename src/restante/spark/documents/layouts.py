"""The columns of a document: how they are chosen from shapes, how they grow, and what has no place in them.

A layout never changes what it has: it only grows. Well-defined layouts have one kind at each place, those of full
fidelity have each kind that was met. All else is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from restante import limits
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.names import column_name
from restante.spark.documents.shapes import NOTHING, NUMBERS, Kind, PropertyPath, Shape, place_for


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The values that are stored at one place of the documents."""

    kinds: tuple[Kind, ...]
    """The kinds in the order in which they came; never empty."""
    columns: Mapping[str, tuple[str, Layout]] = field(default_factory=dict)
    """The columns of an object: for each property the column's name, and what is in it, in the order in which the properties came."""
    element: Layout | None = None
    """The layout of an array's elements."""


EMPTY = Layout(kinds=(Kind.OBJECT,))
"""A table whose documents have shown nothing yet. Every document is an object, if need be around a bare value."""


class Misfit(NamedTuple):
    """A value that has no place in a layout."""

    names: PropertyPath
    expected: str
    found: str


def grown(known: Layout, shape: Shape, fidelity: Fidelity) -> Layout:
    """The layout with a place for everything new in the shape, as far as the limits allow."""
    room = _Room(limits.DOCUMENT_COLUMNS_MAX - _count(known))
    return _Growth(fidelity, room).layout(known, shape, depth=0) or known


def misfits(layout: Layout | None, shape: Shape, names: PropertyPath = ()) -> Iterator[Misfit]:
    """The values that have no place. A value within an array is reported as the outermost array around it."""
    for kind in sorted(shape.kinds):
        if layout is None:
            if _says_something(kind, shape):
                yield Misfit(names, "none", kind)
        elif place_for(kind, layout.kinds) is None:
            yield Misfit(names, described(layout), kind)
        elif kind is Kind.OBJECT:
            yield from _misfits_of_properties(layout, shape, names)
        elif kind is Kind.ARRAY and any(misfits(layout.element, shape.element or NOTHING)):
            yield Misfit(names, described(layout), described(shape))


def described(place: Layout | Shape) -> str:
    """The kinds in a word or two: `long`, `array<long|string>`."""
    inner = "" if place.element is None else f"<{described(place.element)}>"
    return "|".join(f"{kind}{inner}" if kind is Kind.ARRAY else kind for kind in sorted(place.kinds)) or "none"


def _misfits_of_properties(layout: Layout, shape: Shape, names: PropertyPath) -> Iterator[Misfit]:
    for name, inner in shape.properties.items():
        _, column = layout.columns.get(name, ("", None))
        yield from misfits(column, inner, (*names, name))


def _says_something(kind: Kind, shape: Shape) -> bool:
    """Objects without properties and arrays without elements define no column, and miss none."""
    if kind is Kind.OBJECT:
        return any(_says_anything(inner) for inner in shape.properties.values())
    if kind is Kind.ARRAY:
        return shape.element is not None and _says_anything(shape.element)
    return True


def _says_anything(shape: Shape) -> bool:
    return any(_says_something(kind, shape) for kind in shape.kinds)


def _count(layout: Layout) -> int:
    inner = sum(_count(column) for _, column in layout.columns.values())
    element = 0 if layout.element is None else _count(layout.element)
    return inner + element + sum(kind not in (Kind.OBJECT, Kind.ARRAY) for kind in layout.kinds)


@dataclass
class _Room:
    """The room for more columns."""

    left: int

    def take(self) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True)
class _Growth:
    fidelity: Fidelity
    room: _Room

    def layout(self, known: Layout | None, shape: Shape, *, depth: int) -> Layout | None:
        """The layout of what is known and what the shape adds to it. None if there is nothing to store yet."""
        found: Layout | None = known
        for kind in self._offered(known, shape):
            found = self._with(found, kind, shape, depth=depth)
            if found is not None and self.fidelity is Fidelity.WELL_DEFINED:
                break
        return found

    def _offered(self, known: Layout | None, shape: Shape) -> list[Kind]:
        """The kinds that may have a place here, in the order in which they may take it."""
        met = sorted(shape.kinds, key=lambda kind: (shape.kinds[kind], kind))
        if self.fidelity is Fidelity.FULL_FIDELITY:
            return met
        if known is not None:
            return [kind for kind in met if kind in known.kinds]
        widest = next((number for number in reversed(NUMBERS) if number in shape.kinds), None)
        return [widest if kind in NUMBERS and widest else kind for kind in met]

    def _with(self, known: Layout | None, kind: Kind, shape: Shape, *, depth: int) -> Layout | None:
        kinds = known.kinds if known else ()
        columns = known.columns if known else {}
        element = known.element if known else None
        if kind is Kind.OBJECT:
            columns = self._columns(columns, shape, depth=depth)
            fits = bool(columns)
        elif kind is Kind.ARRAY:
            element = self._element(element, shape, depth=depth)
            fits = element is not None
        else:
            fits = kind in kinds or self.room.take()
        if not fits:
            return known
        return Layout(kinds=kinds if kind in kinds else (*kinds, kind), columns=columns, element=element)

    def _columns(
        self, known: Mapping[str, tuple[str, Layout]], shape: Shape, *, depth: int
    ) -> Mapping[str, tuple[str, Layout]]:
        if depth >= limits.DOCUMENT_DEPTH_MAX:
            return known
        columns = dict(known)
        taken = {column for column, _ in known.values()}
        for name in sorted(shape.properties, key=lambda name: (shape.properties[name].first or (), name)):
            column, before = columns.get(name, (None, None))
            inner = self.layout(before, shape.properties[name], depth=depth + 1)
            if inner is not None:
                column = column_name(name, taken) if column is None else column
                columns[name] = (column, inner)
                taken.add(column)
        return columns

    def _element(self, known: Layout | None, shape: Shape, *, depth: int) -> Layout | None:
        if depth >= limits.DOCUMENT_DEPTH_MAX or shape.element is None:
            return known
        return self.layout(known, shape.element, depth=depth + 1)
