"""Turns what a caller sends, messages or a table, into columns that obey the rules."""

from __future__ import annotations

from collections.abc import Sequence

from restante.errors import Fault, InvalidRequest
from restante.hub.engine.core import Core
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing.refuse import whole_refusal
from restante.limits import LARGE_DATA_BYTES_MAX
from restante.model.access.access import Grant
from restante.model.access.origin_access import check_origins
from restante.model.publishing import intake
from restante.model.publishing.broadcast import spread
from restante.model.publishing.few_or_many import Few, Many, UndecodedBody
from restante.model.publishing.message import Message, MessageColumns
from restante.model.publishing.refusals import Flawed, merged, refusal

_MESSAGE = {Message}


def sent_columns(core: Core, sent: Few | Many, caller: Grant, partition: int | None = None) -> MessageColumns:
    """The columns of a send to this partition, or to any. Raises an error that names everything that is wrong with it.

    Raises `Forbidden` if all is right, but the caller may not send from these origins.
    """
    columns, faults = _taken(core, sent.messages if isinstance(sent, Few) else sent.content)
    if faults:
        raise whole_refusal(core, columns, faults, partition, caller)
    check_origins(caller, columns.origin)
    return columns


def own_columns(message: Message) -> MessageColumns:
    """The columns of a message that the hub itself sends."""
    columns, faults = intake.from_messages(
        (message,), claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX, own=True
    )
    if faults:
        raise refusal(faults)
    return columns


def check_messages(sent: Sequence[object]) -> None:
    if isinstance(sent, str | bytes) or not {*map(type, sent)} <= _MESSAGE:
        raise InvalidRequest("Send a Message, a sequence of them, or an Arrow table (or a frame that can give one).")


def taken_apart() -> InvalidRequest:
    """The error for a body that is encoded for the network."""
    return InvalidRequest("A hub in this process takes messages or columns, not a body that was encoded.")


def _taken(core: Core, content: object) -> tuple[MessageColumns, list[Fault]]:
    if isinstance(content, UndecodedBody):
        content = content.decode()
    allowed = claim_check_origins(core)
    bytes_max = core.settings.data_bytes_max
    if isinstance(content, Flawed):
        columns, faults = intake.from_messages(content.messages, claim_check_origins=allowed, data_bytes_max=bytes_max)
        return columns, merged(content.faults, faults)
    if isinstance(content, Sequence):
        content = spread(content)
        check_messages(content)
        return intake.from_messages(content, claim_check_origins=allowed, data_bytes_max=bytes_max)
    return intake.from_arrow(content, claim_check_origins=allowed, data_bytes_max=bytes_max)
