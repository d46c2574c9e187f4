"""Early checks in the client, before the rules of the model: can a message ever be stored, and how large is it?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from restante import limits
from restante.errors import InvalidRequest
from restante.limits import KIB
from restante.model.names import STEPS
from restante.model.publishing import intake
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import refusal

HEADER_BYTES = 512
"""Room for what precedes the messages in any format: partition, group, owner level and the largest number."""
_MESSAGE_BYTES = 330
"""Room for the names of all fields, a weight and an expiry in JSON, or for the fixed columns."""
_MADE_ID = "0" * 36
"""A text as long as the id that a message without one gets before it is sent."""
_PROPERTY_BYTES = 8
_BASE64_BYTES_MAX = 256 * KIB
"""More data than this is never sent as base64."""
_encoder = msgspec.json.Encoder()


def is_plain_recipient(recipient: object) -> bool:
    """Whether a recipient's name is plainly valid."""
    if type(recipient) is not str or not 0 < len(recipient) <= limits.RECIPIENT_CHARACTERS_MAX:
        return False
    return recipient.isprintable() and not recipient.isspace() and recipient not in STEPS


def refuse_faulty(messages: Sequence[Message]) -> None:
    """Raise if the rules refuse one of these messages."""
    _, faults = intake.from_messages(messages, claim_check_origins=None, data_bytes_max=limits.LARGE_DATA_BYTES_MAX)
    if faults:
        raise refusal(faults)


def size_of_message(message: Message) -> int:
    """The most bytes that a message can take, as JSON or in columns."""
    properties = message.properties
    names = (message.recipient, message.origin, message.kind, message.document_type, message.media_type)
    texts = (*names, message.id or _MADE_ID, properties)
    try:
        named = len(_encoder.encode(texts)) + _PROPERTY_BYTES * len(properties)
        return _MESSAGE_BYTES + named + _size_of_data(message.data if message.text is None else message.text)
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequest(
            f"The message cannot be sent: its data must be bytes, or a value that JSON can say: {error}"
        ) from error


def _size_of_data(data: object) -> int:
    if data is UNSET:
        return 0
    if isinstance(data, bytes | bytearray | memoryview):
        length = memoryview(data).nbytes
        return length + min(length, _BASE64_BYTES_MAX) // 3 + 4
    return len(_encoder.encode(data))
