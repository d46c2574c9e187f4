"""What callers send: a message, several, or a table; as columns that the rules have been applied to."""

from __future__ import annotations

from collections.abc import Sequence

from restante.errors import Fault, InvalidRequest
from restante.hub.core import Core
from restante.model import intake
from restante.model.message import Message, MessageColumns
from restante.model.refusals import refusal


def sent_columns(core: Core, sent: object) -> MessageColumns:
    """All that was sent, or the error that names every faulty message."""
    allowed = core.claim_check_origins()
    if isinstance(sent, Message):
        sent = (sent,)
    if isinstance(sent, Sequence):
        check_messages(sent)
        return _checked(intake.from_messages(sent, claim_check_origins=allowed))
    return _checked(intake.from_arrow(sent, claim_check_origins=allowed))


def check_messages(sent: Sequence[object]) -> None:
    if isinstance(sent, str | bytes) or not all(type(message) is Message for message in sent):
        raise InvalidRequest("Send a Message, a sequence of them, or an Arrow table (or a frame that can give one).")


def _checked(columns_and_faults: tuple[MessageColumns, list[Fault]]) -> MessageColumns:
    columns, faults = columns_and_faults
    if faults:
        raise refusal(faults)
    return columns
