"""Rules for settings, and sections of settings that are checked together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

import msgspec

from restante import limits
from restante.decoders import converted
from restante.errors import InvalidSettings
from restante.settings.texts import is_path

DAY_SECONDS = 86_400.0
_SHOWN_CHARACTERS_MAX = 80


class Rule(NamedTuple):
    """A rule for a setting: in words, and as a test of values that have the right type."""

    allowed: str
    holds: Callable[[Any], bool] = lambda _: True
    secret: bool = False
    """Values are never shown, wrong ones neither."""


def like(allowed: str, pattern: str) -> Rule:
    """A text of this form, or none."""
    return Rule(allowed, lambda value: value is None or re.fullmatch(pattern, value) is not None)


def path_of_file() -> Rule:
    """The path of a file, or none."""
    return Rule("the path of a file", lambda value: value is None or is_path(value))


def whole(least: int, most: int) -> Rule:
    """A whole number within two bounds."""
    return Rule(f"a whole number from {least:,} to {most:,}", lambda value: least <= value <= most)


def choice(*values: str) -> Rule:
    """The rule that a value is one of several texts."""
    return Rule(" or ".join(f'"{value}"' for value in values))


SECONDS = Rule("a number of seconds, 0 or more", lambda value: 0 <= value < math.inf)
IDLE_SECONDS = Rule(
    f"a number of seconds, more than 0 and at most {limits.IDLE_SECONDS_MAX:,}",
    lambda value: 0 < value <= limits.IDLE_SECONDS_MAX,
)
AMOUNT = Rule("a number, 0 or more", lambda value: 0 <= value < math.inf)
FLAG = Rule("true or false")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings that are checked together."""

    rules: ClassVar[Mapping[str, Rule]] = {}

    def __post_init__(self) -> None:
        found = [(name, problem_with(type(self), name, getattr(self, name))) for name in self.rules]
        problems = [f"{name}: {problem}" for name, problem in found if problem is not None]
        if problems:
            raise InvalidSettings("; ".join(problems) + ".", problems=problems)


@cache
def types_of(section: type[Section]) -> Mapping[str, Any]:
    """The settings of a section and their types."""
    return {field.name: field.type for field in msgspec.structs.fields(section)}


def problem_with(section: type[Section], name: str, value: object) -> str | None:
    """The problem with a value for a setting, and what is allowed; nothing if it is right."""
    rule = section.rules[name]
    try:
        right = rule.holds(converted(value, types_of(section)[name]))
    except (msgspec.ValidationError, OverflowError):
        right = False
    return None if right else must_be(rule, value)


def must_be(rule: Rule, value: object) -> str:
    if rule.secret or (isinstance(value, str) and "@" in value):
        return f"must be {rule.allowed}"  # The text before an @ may be a password.
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"must be {rule.allowed}, not a number so large"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    shown = text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
    return f"must be {rule.allowed}, not {shown}"
