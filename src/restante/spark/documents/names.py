"""Property names as column names, and back.

Delta refuses some characters in a column's name, and Spark does not tell `price` from `Price`. A name is therefore
written with percent signs where it must be: `unit price` becomes `unit%20price`, the empty name becomes `%`. If names differ
only in case, the first keeps its form, and in a later one as many letters are written so as are needed to tell them apart:
`Price` becomes `%50rice`. The original is read from the column's name alone, so a table needs no list.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

_REFUSED = frozenset(" ,;{}()\n\t=.`%")
"""The signs that Delta refuses, those that would need quotes in every path (`.` and the backtick), and the sign itself."""
_EMPTY = "%"


def column_name(name: str, taken: Collection[str]) -> str:
    """The column for a property, beside columns that are there already."""
    used = {column.lower() for column in taken}
    written = _written(name, letters=0)
    for letters in range(1, len(name) + 1):
        if written.lower() not in used:
            break
        written = _written(name, letters=letters)
    return written


def property_name(column: str) -> str:
    """The property that a column is for."""
    return "" if column == _EMPTY else unquote(column, errors="strict")


def path_text(names: Collection[str]) -> str:
    """The way to a value as people write it: `$.order.lines`, `$.order['unit price']`."""
    return "$" + "".join(f".{name}" if name.isidentifier() else f"[{name!r}]" for name in names)


def _written(name: str, *, letters: int) -> str:
    """The name with what is refused, and so many of its letters from the left, written as numbers."""
    left, parts = letters, []
    for character in name:
        cased = left > 0 and character.lower() != character.upper()
        left -= cased
        parts.append(_escaped(character) if cased or _is_refused(character) else character)
    return "".join(parts) or _EMPTY


def _is_refused(character: str) -> bool:
    return character in _REFUSED or not character.isprintable()


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
