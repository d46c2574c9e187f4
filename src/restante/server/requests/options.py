"""Calls as requests ask for them: the caller gives the names in the path, and the options are read from the query."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from restante.calls.call import Call, CallOption, options
from restante.errors import InvalidRequest
from restante.server.connections.exchange import Exchange

C = TypeVar("C", bound=Call[Any])


def asked(exchange: Exchange, kind: type[C], /, **given: object) -> C:
    """The call that a request asks for; fields in `given` are not looked for in the query."""
    names = frozenset([option.name for option in options(kind) if option.field not in given])
    return kind(**given, **options_asked(exchange, kind, names))


def options_asked(exchange: Exchange, kind: type[Call[Any]], names: frozenset[str]) -> dict[str, object]:
    """The options of a call with these names in the query, by their fields."""
    return {option.field: _value(exchange, option) for option in options(kind) if option.name in names}


def _value(exchange: Exchange, option: CallOption) -> object:
    if issubclass(option.kind, Enum):
        return _choice(exchange, option.name, option.kind)
    value = _READERS[option.kind](exchange, option.name)
    return option.default if value is None else value


def _choice(exchange: Exchange, name: str, kind: type[Enum]) -> Enum | None:
    text = exchange.text(name)
    try:
        return None if text is None else kind(text)
    except ValueError as error:
        known = ", ".join(each.value for each in kind)
        raise InvalidRequest(f"{name} must be one of {known}, not {text!r}.", parameter=name) from error


def _texts(exchange: Exchange, name: str) -> tuple[str, ...]:
    return tuple(exchange.texts(name))


_READERS: dict[type, Callable[[Exchange, str], object]] = {
    str: Exchange.text,
    int: Exchange.integer,
    float: Exchange.seconds,
    bool: Exchange.flag,
    tuple: _texts,
}
