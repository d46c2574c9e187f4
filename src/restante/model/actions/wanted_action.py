"""`WantedAction`, an action as a caller asks for it: its checks, and the message that it becomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from restante.errors import InvalidRequest
from restante.model.actions.action_kind import ACTION_KIND, ACTION_PROPERTY
from restante.model.columns import media_types
from restante.model.groups.group_names import check_action
from restante.model.publishing.message import Message

_DEFAULT_ORIGIN = "default"
_SECONDS_MAX = 100 * 366 * 86_400.0


class WantedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action as a caller asks for it: the name, the thing that it concerns, and the body as JSON."""

    action: str
    concerns: str
    data: bytes = b"{}"
    id: str | None = None
    expires_in: float | None = None
    """Seconds from acceptance."""
    origin: str | None = None


def check_expires_in(seconds: float | None, most: float = _SECONDS_MAX) -> None:
    """`most` is for how long a group holds the feed back: no action can wait for longer."""
    if seconds is not None and not 0 < seconds <= min(most, _SECONDS_MAX):
        raise InvalidRequest(
            f"expires_in is a number of seconds, more than 0 and at most {min(most, _SECONDS_MAX):,.0f}, not {seconds!r}.",
            field="expires_in",
        )


def message_of(
    wanted: WantedAction,
    *,
    message_id: str,
    now: datetime,
    expires_seconds: float,
    expires_seconds_max: float,
    carried: Mapping[str, str],
) -> Message:
    """The message of an action. `expires_seconds` counts where it says nothing; `carried` are further properties."""
    check_expires_in(wanted.expires_in, expires_seconds_max)
    seconds = expires_seconds if wanted.expires_in is None else wanted.expires_in
    return Message(
        recipient=wanted.concerns,
        id=message_id,
        data=wanted.data,
        media_type=media_types.JSON,
        origin=_DEFAULT_ORIGIN if wanted.origin is None else wanted.origin,
        kind=ACTION_KIND,
        properties={**carried, ACTION_PROPERTY: check_action(wanted.action)},
        expires_at=None if math.isinf(seconds) else now + timedelta(seconds=seconds),
    )
