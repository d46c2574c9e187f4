"""Arguments of a live connection, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from restante.client.live.live_states import LiveStage, LiveState
from restante.client.publishing.early_checks import refuse_faulty
from restante.client.publishing.new_ids import identify_messages
from restante.client.publishing.sendable import single_message
from restante.client.surface.arguments import count_of, text_of, whole
from restante.client.transport.unreachable import warn
from restante.errors import InvalidRequest
from restante.limits import LIVE_CLIENT_CHARACTERS_MAX
from restante.model.publishing.message import Message


@dataclass(frozen=True, slots=True)
class Following:
    """The checked options of following a mailbox."""

    after: int | None
    on_state: Callable[[LiveState], None] | None
    on_echo: Callable[[Message], None] | None


def following_of(
    after: object, on_state: Callable[[LiveState], None] | None, on_echo: Callable[[Message], None] | None
) -> Following:
    number = whole("after", after)
    if number is not None and number < 0:
        raise InvalidRequest(f"after must be a number from 0, not {number}.")
    return Following(number, on_state or _say_why, on_echo)


def _say_why(state: LiveState) -> None:
    """The default of `on_state`: a warning in the log when the connection is lost."""
    if state.stage is LiveStage.RECONNECTING:
        warn(f"The live connection is lost: {state.reason} Trying again.")


def client_of(given: object) -> str | None:
    """The name of this client."""
    if given is None:
        return None
    name = text_of("client", given)
    if not name.strip() or len(name) > LIVE_CLIENT_CHARACTERS_MAX:
        raise InvalidRequest(f"client must have 1 to {LIVE_CLIENT_CHARACTERS_MAX} characters, and not be blank.")
    return name


def identified(message: object) -> Message:
    """The message with an id, checked against the rules."""
    given = single_message(message)
    named = given if given.id is not None else msgspec.structs.replace(given)
    identify_messages([named])
    refuse_faulty([named])
    return named


def number_of(message: object) -> int:
    """The sequence number of a message, or the number itself."""
    number = message.sequence_number if isinstance(message, Message) else message
    if isinstance(message, Message) and number is None:
        raise InvalidRequest("This message has no sequence number: it did not come from a hub.")
    return count_of("sequence_number", number)
