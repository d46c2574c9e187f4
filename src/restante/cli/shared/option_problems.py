"""Problems with the values of options, in our words: the parser's own speak of its insides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import typer

from restante.model.columns.plain_text import plain

_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a number",
    "greater_than_equal": lambda bounds: f"at least {bounds['ge']:,}",
    "less_than_equal": lambda bounds: f"at most {bounds['le']:,}",
}
_CHOICES = re.compile(r".* is not one of (?P<choices>.*)\.$", re.DOTALL)
_SHOWN_CHARACTERS_MAX = 80


def reword(error: typer.BadParameter) -> None:
    """Say it anew, if it came from the parser and is known; and as lines that take no effect on a terminal."""
    errors = getattr(error.__cause__, "errors", None)
    found: list[dict[str, Any]] = errors() if callable(errors) else []
    expected = _expected(found[0]) if found else None
    if expected is not None:
        given = repr(found[0]["input"])[:_SHOWN_CHARACTERS_MAX]
        error.message = f"it must be {expected}, not {given}."
    error.message = "\n".join(map(plain, error.message.splitlines()))


def _expected(fault: Mapping[str, Any]) -> str | None:
    kind: str = fault["type"]
    if kind in _WORDS:
        return _WORDS[kind](fault.get("ctx", {}))
    if kind.startswith("datetime"):
        return "a time such as 2030-01-31T12:00:00"
    choices = _CHOICES.fullmatch(fault["msg"])
    return f"one of {choices['choices']}" if choices else None
