"""Arguments about actions, checked before they go anywhere: the same mistakes in process and over the network."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw

from restante.client.surface.arguments import seconds, text_of
from restante.errors import InvalidRequest
from restante.model.actions.action_kind import CORRELATION_PROPERTY
from restante.model.actions.wanted_action import WantedAction, check_expires_in
from restante.model.groups.group_names import check_action

_encoder = msgspec.json.Encoder()


def wanted_action(
    action: object, concerns: object, *, data: object = UNSET, id: object, expires_in: object, origin: object
) -> WantedAction:
    """An action that a caller wants done."""
    wanted = WantedAction(
        action=check_action(action),
        concerns=text_of("concerns", concerns),
        data=encoded_data(data),
        id=None if id is None else text_of("id", id),
        expires_in=None if expires_in is None else seconds("expires_in", expires_in),
        origin=None if origin is None else text_of("origin", origin),
    )
    check_expires_in(wanted.expires_in)
    return wanted


def encoded_data(data: object) -> bytes:
    """The body as JSON. A body that is JSON already comes as `msgspec.Raw`."""
    if data is UNSET:
        return b"{}"
    if isinstance(data, Raw):
        return bytes(data)
    try:
        encoded = _encoder.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"data must be a value that JSON can say: {error}.", field="data") from error
    return encoded


def wanted_actions(given: object) -> tuple[WantedAction, ...]:
    """Many, as `WantedAction` values."""
    if isinstance(given, WantedAction) or not isinstance(given, Iterable):
        raise InvalidRequest("actions must be a list of WantedAction values.")
    found = tuple(given)
    if not all(isinstance(each, WantedAction) for each in found):
        raise InvalidRequest("actions must be a list of WantedAction values.")
    return found


def concerns_of(given: object) -> str | None:
    return None if given is None else text_of("concerns", given)


def carried_of(correlation_id: object) -> dict[str, str]:
    """The properties that go with an action beside its name."""
    return {} if correlation_id is None else {CORRELATION_PROPERTY: text_of("correlation_id", correlation_id)}
