"""What a send means: its messages with defaults filled in, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unicodedata import category
from uuid import UUID, uuid4

import msgspec
import pyarrow as pa

from restante import errors, limits
from restante.errors import Fault
from restante.model.publishing.message import Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JSON = "application/json"
BYTES = "application/octet-stream"


def as_time(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def as_microseconds(time_given: datetime) -> int:
    since = time_given.astimezone(UTC) - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def page_size(limit: int | None) -> int:
    return min(limits.PAGE_DEFAULT if limit is None else limit, limits.PAGE_MAX)


def canonical_uuid(text: str) -> str | None:
    """The lower-case 36-character form, or None when the text is no UUID in that form."""
    try:
        canonical = str(UUID(text))
    except ValueError:
        return None
    return canonical if canonical == text.lower() else None


def listed(messages: object) -> list[Message]:
    """The messages of a send, whatever it was given as."""
    if isinstance(messages, Message):
        return [messages]
    if hasattr(messages, "__arrow_c_stream__"):
        rows = pa.table(cast(Any, messages)).to_pylist()
        return [_from_row(row) for row in rows]
    return list(cast(Iterable[Message], messages))


def _from_row(row: dict[str, Any]) -> Message:
    given = {name: value for name, value in row.items() if value is not None}
    if isinstance(given.get("id"), bytes):
        given["id"] = str(UUID(bytes=given["id"]))
    if "properties" in given:
        given["properties"] = dict(given["properties"])
    return Message(**given)


def stored_bytes(message: Message) -> bytes | None:
    """The data as stored; None for a claim check."""
    if message.text is not None:
        return message.text.encode()
    if message.data is msgspec.UNSET:
        return None
    return message.data if isinstance(message.data, bytes) else msgspec.json.encode(message.data)


def is_name(text: str) -> bool:
    """Whether it can stand in a URL."""
    return text not in {".", ".."} and not any(category(character) == "Cc" for character in text)


def is_id(text: str) -> bool:
    return bool(text.strip()) and len(text) <= limits.ID_CHARACTERS_MAX and is_name(text)


def least_weight(message: Message) -> int:
    return max(1, -(-len(stored_bytes(message) or b"") // limits.KIB))


def completed(message: Message) -> Message:
    """The message with every default filled in, as history shows it."""
    data = stored_bytes(message)
    media_type = message.media_type or (BYTES if data is None or isinstance(message.data, bytes) else JSON)
    if message.text is not None:
        media_type = message.media_type or "text/plain"
    shown: Any = msgspec.UNSET if data is None else data
    if data is not None and media_type == JSON:
        shown = msgspec.json.decode(data)
    elif data is not None and media_type.startswith("text/"):
        shown = data.decode()
    return msgspec.structs.replace(
        message,
        id=str(uuid4()) if message.id is None else canonical_uuid(message.id) or message.id,
        data=shown,
        text=shown if isinstance(shown, str) and media_type != JSON else None,
        media_type=media_type,
        document_type=message.document_type or message.kind,
        weight=message.weight or least_weight(message),
    )


def content_key(message: Message) -> tuple[object, ...]:
    """What makes two messages of one identity the same message."""
    return (message.origin, message.kind, message.bundleable, message.weight, stored_bytes(message))


def faults_of(messages: list[Message], *, content_origins: Collection[str]) -> list[Fault]:
    """Everything wrong with the messages themselves, each named by its index."""
    found = []
    for index, message in enumerate(messages):
        field = _faulty_field(message, content_origins)
        if field is not None:
            code = errors.InvalidMessage.code
            found.append(Fault(index=index, code=code, field=field, detail=f"{field} is not valid", id=message.id))
    return found


def _faulty_field(message: Message, content_origins: Collection[str]) -> str | None:
    texts = {
        "recipient": limits.RECIPIENT_CHARACTERS_MAX,
        "origin": limits.ORIGIN_CHARACTERS_MAX,
        "kind": limits.KIND_CHARACTERS_MAX,
        "document_type": limits.DOCUMENT_TYPE_CHARACTERS_MAX,
    }
    for field, longest in texts.items():
        text = getattr(message, field)
        if text is not None and (not text.strip() or len(text) > longest):
            return field
    if not is_name(message.recipient):
        return "recipient"
    if message.id is not None and not is_id(message.id):
        return "id"
    if message.weight is not None and not least_weight(message) <= message.weight <= limits.WEIGHT_KIB_MAX:
        return "weight"
    data = stored_bytes(message)
    if data is None and message.origin not in content_origins:
        return "data"
    return "data" if data is not None and len(data) > limits.DATA_BYTES_MAX else None


def raise_faults(faults: list[Fault]) -> None:
    """One error for all of them: theirs if they share a code, else `invalid_message`."""
    if not faults:
        return
    kinds = (errors.MessageConflict, errors.MessageErased, errors.PartitionMismatch)
    shared = {kind.code: kind for kind in kinds if all(fault.code == kind.code for fault in faults)}
    raise next(iter(shared.values()), errors.InvalidMessage)("refused", faults)
