"""The names of groups, of their members and of actions: what they may be."""

from __future__ import annotations

from collections.abc import Iterable

from restante import limits
from restante.errors import InvalidRequest
from restante.model.names import name_problem


def check_group(name: object) -> str:
    return _checked(name, "A group's name", "group", limits.GROUP_CHARACTERS_MAX)


def check_member(name: object) -> str:
    return _checked(name, "A member's name", "member", limits.MEMBER_CHARACTERS_MAX)


def check_action(name: object) -> str:
    return _checked(name, "An action's name", "action", limits.ACTION_CHARACTERS_MAX)


def check_actions(names: Iterable[object]) -> tuple[str, ...]:
    """Each once, in order."""
    found = tuple(sorted({check_action(name) for name in names}))
    if len(found) > limits.GROUP_ACTIONS_MAX:
        raise InvalidRequest(f"A group has at most {limits.GROUP_ACTIONS_MAX:,} actions.", parameter="actions")
    return found


def _checked(name: object, what: str, parameter: str, most: int) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > most or not _encodes(name):
        raise InvalidRequest(f"{what} is text of 1 to {most} characters, not blank; not {name!r}.", parameter=parameter)
    problem = name_problem(name)
    if problem is not None:
        raise InvalidRequest(f"{what} {problem}: {name!r}.", parameter=parameter)
    return name


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
