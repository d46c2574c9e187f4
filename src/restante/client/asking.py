"""What callers give, checked before it goes anywhere: so a mistake is the same error in process and over the network."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection

from restante.errors import InvalidRequest
from restante.model.message import State


def names(what: str, given: object) -> tuple[str, ...]:
    """Some names. A text alone would be taken for its letters."""
    if isinstance(given, str):
        raise InvalidRequest(f"{what} must be a list of names, like [{given!r}].")
    if not isinstance(given, Collection) or not all(isinstance(name, str) for name in given):
        raise InvalidRequest(f"{what} must be a list of names, not {given!r}.")
    return tuple(given)


def whole(what: str, given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise InvalidRequest(f"{what} must be a whole number, not {given!r}.")
    return operator.index(given)


def seconds(what: str, given: object) -> float:
    if isinstance(given, bool | str) or not hasattr(given, "__float__") or math.isnan(float(given)):
        raise InvalidRequest(f"{what} must be a number of seconds, not {given!r}.")
    return float(given)


def state_of(given: State | str | None) -> State | None:
    """A state, or its name."""
    if given is None or isinstance(given, State):
        return given
    try:
        return State(given)
    except ValueError as error:
        known = ", ".join(state.value for state in State)
        raise InvalidRequest(f"state must be one of {known}, not {given!r}.") from error
