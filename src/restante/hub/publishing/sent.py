"""What callers send: a message, several, or a table; as columns that the rules have been applied to."""

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
from restante.model.publishing.message import Message, MessageColumns
from restante.model.publishing.refusals import Flawed, merged, refusal


def sent_columns(core: Core, sent: object, caller: Grant, partition: int | None = None) -> MessageColumns:
    """All that was sent, or the error that names everything that is wrong with it, sent to this partition or to any.

    `Forbidden`, if nothing is wrong with it, but it is not the caller's to send.
    """
    columns, faults = _taken(core, sent)
    if faults:
        raise whole_refusal(core, columns, faults, partition)
    check_origins(caller, columns.origin)
    return columns


def own_columns(message: Message) -> MessageColumns:
    """A message that the hub itself sends."""
    columns, faults = intake.from_messages(
        (message,), claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX, own=True
    )
    if faults:
        raise refusal(faults)
    return columns


def check_messages(sent: Sequence[object]) -> None:
    if isinstance(sent, str | bytes) or not all(type(message) is Message for message in sent):
        raise InvalidRequest("Send a Message, a sequence of them, or an Arrow table (or a frame that can give one).")


def _taken(core: Core, sent: object) -> tuple[MessageColumns, list[Fault]]:
    allowed = claim_check_origins(core)
    if isinstance(sent, Flawed):
        columns, faults = intake.from_messages(
            sent.messages, claim_check_origins=allowed, data_bytes_max=core.settings.data_bytes_max
        )
        return columns, merged(sent.faults, faults)
    if isinstance(sent, Message):
        sent = (sent,)
    if isinstance(sent, Sequence):
        check_messages(sent)
        return intake.from_messages(sent, claim_check_origins=allowed, data_bytes_max=core.settings.data_bytes_max)
    return intake.from_arrow(sent, claim_check_origins=allowed, data_bytes_max=core.settings.data_bytes_max)
