"""Markup that is escaped by being made: text becomes markup only through `tag`, which escapes it.

There is no template and no way to paste text between tags, so a recipient's name or a message can say what it likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias
from urllib.parse import quote, urlencode

BASE = "/console"
"""Where the console is."""

Child: TypeAlias = "str | int | float | Markup | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup:
    """HTML that is safe to show."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` is the attribute `class`, `data_x` is `data-x`; None and False leave an attribute out."""
    opened = f"<{name}{''.join(_attributes(attributes))}>"
    if name in _VOID:
        return Markup(opened)
    return Markup(f"{opened}{''.join(_texts(children))}</{name}>")


def join(*children: Child) -> Markup:
    """Several things one after the other."""
    return Markup("".join(_texts(children)))


def _attributes(given: dict[str, Attribute]) -> Iterable[str]:
    for name, value in given.items():
        if value is None or value is False:
            continue
        shown = name.rstrip("_").replace("_", "-")
        yield f" {shown}" if value is True else f' {shown}="{escape(clean(str(value)), quote=True)}"'


def _texts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child.text
        elif isinstance(child, str):
            yield escape(clean(child), quote=False)
        elif isinstance(child, int | float):
            yield str(child)
        elif child is not None:
            yield from _texts(child)


def clean(text: str) -> str:
    """Text without what no page may hold: characters that are none, and those that turn the reading direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


def _shown(character: str) -> str:
    if character in "\n\t\r":
        return character
    code = ord(character)
    hidden = code < 32 or 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF or character in _TURNING
    return "\N{REPLACEMENT CHARACTER}" if hidden else character


def at(*segments: str, **query: str | int | None) -> str:
    """An address within the console."""
    path = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return f"{BASE}{path}{'?' + urlencode(given) if given else ''}"


def link(label: Child, /, *segments: str, **query: str | int | None) -> Markup:
    return tag("a", label, href=at(*segments, **query))
