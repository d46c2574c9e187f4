"""The settings as a tree: the path of each, how it is written, and which known one is nearest to an unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

import msgspec

from restante.settings import Settings
from restante.settings.rules import Section, types_of

PREFIX = "RESTANTE_"

KeyPath = tuple[str, ...]
"""Where a setting is: `("server", "port")`."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """A key as it is written in TOML."""
    return printable(".".join(name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in path))


def printable(text: str) -> str:
    """An environment may hold bytes that are no text: they are shown as such."""
    return text.encode(errors="backslashreplace").decode()


def leaves(section: type[Section], values: Mapping[str, Any], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in values.items():
        kind = types_of(section)[name]
        inner = section_in(kind)
        if inner is None:
            yield (*above, name), value
            continue
        entries = (
            {(*above, name, key): entry for key, entry in value.items()} if is_map(kind) else {(*above, name): value}
        )
        for path, entry in entries.items():
            yield from leaves(inner, msgspec.structs.asdict(entry), path)


def section_in(kind: object) -> type[Section] | None:
    """The section that a type is, or is a map of."""
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def is_map(kind: object) -> bool:
    return section_in(kind) is not None and bool(get_args(kind))


def kind_at(path: KeyPath) -> Any:  # noqa: ANN401  # a type annotation, whatever it is
    section: type[Section] = Settings
    for name in path:
        kind = types_of(section)[name]
        inner = section_in(kind)
        if inner is None:
            return kind
        if is_map(kind):
            return types_of(inner)[path[-1]]
        section = inner
    raise KeyError(path)


def variable_path(name: str) -> KeyPath | None:
    """The key that a variable names: settings in any case, names of origins and groups as they are."""
    return _path_in(Settings, name.removeprefix(PREFIX).split("__"))


def _path_in(section: type[Section], parts: Sequence[str]) -> KeyPath | None:
    """The key in a section that parts of a variable's name stand for."""
    first, rest = parts[0].lower(), parts[1:]
    kind = types_of(section).get(first)
    inner = section_in(kind)
    if kind is None or inner is None:
        return None if kind is None or rest else (first,)
    if not is_map(kind):
        below = _path_in(inner, rest) if rest else None
        return None if below is None else (first, *below)
    last = rest[-1].lower() if rest else ""
    return (first, "__".join(rest[:-1]), last) if len(rest) > 1 and last in inner.rules else None


def nearest_variable(name: str) -> str:
    known = {key.replace(".", "__").upper().replace("<NAME>", "<name>") for key in _known_keys()}
    near = get_close_matches(name.removeprefix(PREFIX), sorted(known), n=1)
    if near:
        return f"did you mean {PREFIX}{near[0]}?"
    return "settings are named as RESTANTE_SERVER__PORT is for server.port"


def nearest_key(section: type[Section], path: KeyPath) -> str:
    name = path[-1]
    near = get_close_matches(name.lower(), list(section.rules), n=1)
    if near:
        return f"did you mean {dotted((*path[:-1], near[0]))}?"
    elsewhere = [key for key in _known_keys() if key.rpartition(".")[2] == name]
    if elsewhere:
        return f"did you mean {elsewhere[0]}?"
    return f"known here: {', '.join(section.rules)}"


def _known_keys(section: type[Section] = Settings, above: str = "") -> Iterator[str]:
    for name, kind in types_of(section).items():
        inner = section_in(kind)
        if inner is None:
            yield f"{above}{name}"
        else:
            yield from _known_keys(inner, f"{above}{name}.<name>." if is_map(kind) else f"{above}{name}.")
