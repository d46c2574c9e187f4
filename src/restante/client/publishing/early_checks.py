"""Early checks of a client: a message that can never be stored is seen at once; the rules themselves are the model's."""

from __future__ import annotations

from collections.abc import Sequence

from restante import limits
from restante.model.publishing import intake
from restante.model.publishing.message import Message
from restante.model.publishing.names import STEPS
from restante.model.publishing.refusals import refusal


def is_plain_recipient(recipient: object) -> bool:
    """Whether it is plainly a right one."""
    if type(recipient) is not str or not 0 < len(recipient) <= limits.RECIPIENT_CHARACTERS_MAX:
        return False
    return recipient.isprintable() and not recipient.isspace() and recipient not in STEPS


def refuse_faulty(messages: Sequence[Message]) -> None:
    """Refuse messages that the rules refuse, each by its name."""
    _, faults = intake.from_messages(messages, claim_check_origins=None, data_bytes_max=limits.LARGE_DATA_BYTES_MAX)
    if faults:
        raise refusal(faults)
