"""What a program wants done, checked before it is sent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restante.errors import InvalidRequest
from restante.model.actions.wanted_action import WantedAction

_FIELDS = frozenset({"action", "concerns", "data", "id", "expires_in", "origin"})


class _Given(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The types of what is given beside the data."""

    action: str
    concerns: str
    id: str | None = None
    expires_in: float | None = None
    origin: str | None = None


def wanted_of(given: Mapping[str, object]) -> WantedAction:
    """An action that is asked for with these fields; its data is whatever JSON can say."""
    own = {name: value for name, value in given.items() if name != "data" and value is not None}
    if unknown := sorted(set(given) - _FIELDS):
        raise InvalidRequest(f"An action has no field {unknown[0]!r}; it has {', '.join(sorted(_FIELDS))}.")
    try:
        checked = msgspec.convert(own, _Given)
        data = b"{}" if given.get("data") is None else _encoded(given["data"])
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidRequest(f"The action cannot be sent: {error}.") from error
    return WantedAction(
        action=checked.action,
        concerns=checked.concerns,
        data=data,
        id=checked.id,
        expires_in=checked.expires_in,
        origin=checked.origin,
    )


def _encoded(data: object) -> bytes:
    dump = getattr(data, "model_dump_json", None)
    return dump().encode() if callable(dump) else msgspec.json.encode(data)
