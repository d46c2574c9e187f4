"""Arguments of callers, checked before they go anywhere: so a mistake is the same error in process and over the network."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from enum import Enum
from typing import TypeVar

from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import BatchState, Counting, Webhook
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.model.groups.group import Gone, Start
from restante.model.publishing.message import State


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


def count_of(what: str, given: object) -> int:
    """A whole number that must be there."""
    number = whole(what, given)
    if number is None:
        raise InvalidRequest(f"{what} must be a whole number, not None.")
    return number


def text_of(what: str, given: object) -> str:
    """A text that must be there, and that an address can spell."""
    if not isinstance(given, str):
        raise InvalidRequest(f"{what} must be text, not {given!r}.")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} holds characters that cannot be sent: {given!r}.") from error
    return given


def state_of(given: State | str | None) -> State | None:
    """A state, or its name."""
    return None if given is None else _choice("state", State, given)


def batch_state_of(given: BatchState | str | None) -> BatchState | None:
    return None if given is None else _choice("state", BatchState, given)


def consignment_state_of(given: ConsignmentState | str | None) -> ConsignmentState | None:
    return None if given is None else _choice("state", ConsignmentState, given)


def start_of(given: Start | str | None) -> Start:
    return Start.BEGINNING if given is None else _choice("start", Start, given)


def gone_of(given: Gone | str | None) -> Gone:
    return Gone.REFUSE if given is None else _choice("gone", Gone, given)


def counting_of(given: Counting | str) -> Counting:
    return _choice("counting", Counting, given)


def webhook_of(given: Webhook | str | None) -> Webhook | None:
    """A webhook, or its address alone."""
    if given is None or isinstance(given, Webhook):
        return given
    if not isinstance(given, str):
        raise InvalidRequest(f"webhook must be an address or a restante.Webhook, not {given!r}.")
    return Webhook(url=given)


def check_batch_id(given: object) -> None:
    """Check that a batch is named by text that a header can hold; whether there is such a batch, the hub knows."""
    if not isinstance(given, str) or not given or not all("!" <= character <= "~" for character in given):
        raise InvalidRequest(f"A batch is named by its id, a UUID, not by {given!r}.")


E = TypeVar("E", bound=Enum)


def _choice(what: str, kind: type[E], given: object) -> E:
    """The member of an enum, given as such or by its value."""
    try:
        return kind(given)
    except ValueError as error:
        known = ", ".join(each.value for each in kind)
        raise InvalidRequest(f"{what} must be one of {known}, not {given!r}.") from error
