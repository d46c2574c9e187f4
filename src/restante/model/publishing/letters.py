"""A few messages, checked one by one as plain values: for a handful, columns cost more than the messages.

Here is no second set of rules: what is plainly right becomes a letter, and anything else is left to the rules for
columns, which know what is wrong with it, if anything is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

import msgspec

from restante import limits
from restante.decoders import json_decoder
from restante.model.columns import media_types
from restante.model.columns.json_documents import json_problem
from restante.model.columns.text_ids import packed, unpacked, uuid_of_text
from restante.model.names import STEPS
from restante.model.publishing.intake_messages import EPOCH, MICROSECOND
from restante.model.publishing.intake_rules import EXPIRY_MAX, EXPIRY_MIN
from restante.model.publishing.message import NEVER, RESERVED_ORIGINS, Message, text_of
from restante.model.storage.letter import Letter
from restante.model.storage.rows import BUNDLEABLE, INLINE, MADE_ID, TEXT_ID

_DEFAULT = "default"
"""The value of a field of `Message` where its sender says nothing: known by sight, it need not be looked at."""
_AS_TEXT = b"text"
_BARE = BUNDLEABLE | INLINE
_BARE_MADE = _BARE | MADE_ID
_PLAIN_VALUES = (dict, list, str, int, float, bool, type(None))
_encoder = msgspec.json.Encoder()
_stored_properties = json_decoder(dict[str, str])


def letter_of(
    message: Message,
    *,
    claim_check_origins: Collection[str] | None,
    data_bytes_max: int = limits.DATA_BYTES_MAX,
) -> Letter | None:
    """The letter of a message; None if the rules have to take a closer look at it."""
    recipient, origin, kind = message.recipient, message.origin, message.kind
    if not (
        _plain(recipient, limits.RECIPIENT_CHARACTERS_MAX)
        and recipient not in STEPS
        and (origin is _DEFAULT or (_plain(origin, limits.ORIGIN_CHARACTERS_MAX) and origin not in RESERVED_ORIGINS))
        and (kind is _DEFAULT or _plain(kind, limits.KIND_CHARACTERS_MAX))
        and type(message.bundleable) is bool
    ):
        return None
    # Fields that are left out, and the media type of JSON, are recognised by `is`, without a look at the text: most are such.
    document_type = kind if message.document_type is None else message.document_type
    media_type = message.media_type if message.media_type is media_types.JSON else _media_type(message)
    own_id = b"" if message.id is None else _id(message.id)
    data, properties = _data(message, data_bytes_max), _properties(message.properties)
    if own_id is None or data is None or properties is None or media_type is None or _is_special(message):
        return None
    inline = message.data is not msgspec.UNSET or message.text is not None
    if not inline and claim_check_origins is not None and origin not in claim_check_origins:
        return None
    weight = _weight(message.weight, len(data))
    expires_at = NEVER if message.expires_at is None else _expiry(message.expires_at)
    typed = document_type is kind or _plain(document_type, limits.DOCUMENT_TYPE_CHARACTERS_MAX)
    if weight is None or expires_at is None or not typed:
        return None
    if inline and _is_json(media_type) and json_problem(data):
        return None
    flags = (BUNDLEABLE if message.bundleable else 0) | (INLINE if inline else 0) | (0 if own_id else MADE_ID)
    if own_id is _AS_TEXT and message.id is not None:
        own_id, properties, flags = uuid_of_text(message.id), packed(message.id, properties), flags | TEXT_ID
    return Letter(
        own_id, recipient, origin, kind, document_type, media_type, weight, flags, data, properties, expires_at
    )


def bare_letter(
    recipient: object, data: bytes, media_type: str, *, own_id: str | None, origin: str, kind: str
) -> Letter | None:
    """The letter of a message that says nothing else, whose data is what its media type says; None for a closer look, as above."""
    if not (
        _plain(recipient, limits.RECIPIENT_CHARACTERS_MAX)
        and recipient not in STEPS
        and (origin is _DEFAULT or (_plain(origin, limits.ORIGIN_CHARACTERS_MAX) and origin not in RESERVED_ORIGINS))
        and (kind is _DEFAULT or _plain(kind, limits.KIND_CHARACTERS_MAX))
    ):
        return None
    parsed, flags, properties = b"", _BARE_MADE, b""
    if own_id is not None:
        found, flags = _id(own_id), _BARE
        if found is None:
            return None
        parsed = found
        if found is _AS_TEXT:
            parsed, properties, flags = uuid_of_text(own_id), packed(own_id, b""), _BARE | TEXT_ID
    weight = -(-len(data) // limits.KIB) or 1
    return Letter(
        parsed, cast("str", recipient), origin, kind, kind, media_type, weight, flags, data, properties, NEVER
    )


def messages_of_letters(letters: Sequence[Letter]) -> Sequence[Message]:
    """Letters that came from another process, made messages again, for checks that look at whole messages."""
    return tuple(map(_message_of, letters))


def _message_of(letter: Letter) -> Message:
    text, properties = unpacked(letter.properties)
    if text is None and letter.id:
        text = str(UUID(bytes=letter.id))
    return Message(
        recipient=letter.recipient,
        data=letter.data if letter.flags & INLINE else msgspec.UNSET,
        id=text,
        origin=letter.origin,
        kind=letter.kind,
        document_type=letter.document_type,
        weight=letter.weight,
        bundleable=bool(letter.flags & BUNDLEABLE),
        media_type=letter.media_type,
        properties=_stored_properties.decode(properties) if properties else {},
        expires_at=None if letter.expires_at == NEVER else EPOCH + timedelta(microseconds=letter.expires_at),
    )


def _plain(text: object, characters_max: int) -> bool:
    """Whether a value is a text of the right length, all of it printable, and not blank."""
    return type(text) is str and 0 < len(text) <= characters_max and text.isprintable() and not text.isspace()


def _id(text: object) -> bytes | None:
    """The id, if it is a UUID, nothing if there is none, `_AS_TEXT` if it is another text."""
    if text is None:
        return b""
    if type(text) is not str:
        return None
    if len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-" and (parsed := _digits(text)):
        return parsed
    return _AS_TEXT if _plain(text, limits.ID_CHARACTERS_MAX) and text not in STEPS else None


def _digits(text: str) -> bytes | None:
    try:
        parsed = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return None
    return parsed if len(parsed) == 16 else None


def _media_type(message: Message) -> str | None:
    given = message.media_type
    if given is media_types.JSON:
        return given
    if given is None:
        value = message.data
        if message.text is not None or type(value) is str:
            return media_types.TEXT
        return media_types.BYTES if type(value) is bytes or value is msgspec.UNSET else media_types.JSON
    right = _plain(given, limits.MEDIA_TYPE_CHARACTERS_MAX) and media_types.looks_right(given)
    return given if right else None


def _is_json(media_type: str) -> bool:
    # The usual ones are known by sight.
    return media_type is media_types.JSON or (media_type is not media_types.BYTES and media_types.is_json(media_type))


def _data(message: Message, bytes_max: int) -> bytes | None:
    value = message.data
    if type(value) is not bytes or message.text is not None:
        text = text_of(message)
        if text is not None:
            value = _utf8(text) if value is msgspec.UNSET or value is text else None
        elif value is msgspec.UNSET:
            return b""
        else:
            value = _encoded(value)
    return value if value is not None and len(value) <= bytes_max else None


def _utf8(text: object) -> bytes | None:
    try:
        return text.encode() if type(text) is str else None
    except UnicodeEncodeError:
        return None


def _encoded(value: object) -> bytes | None:
    if type(value) not in _PLAIN_VALUES:
        return None
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError):
        return None
    # The encoder writes null for numbers that JSON does not have.
    return encoded if value is None or b"null" not in encoded else None


def _properties(value: object) -> bytes | None:
    if type(value) is not dict or len(value) > limits.PROPERTIES_MAX:
        return None
    if not value:
        return b""
    if not all(type(name) is str and type(text) is str for name, text in value.items()):
        return None
    try:
        encoded = _encoder.encode(value)
    except ValueError:
        return None
    return encoded if len(encoded) <= limits.PROPERTIES_BYTES_MAX else None


def _is_special(message: Message) -> bool:
    """Whether a message says when it is to be seen, where it comes from, or what the hub alone says."""
    return not (
        message.visible_at is None
        and message.source_position is None
        and message.sequence_number is None
        and message.published_at is None
        and message.collected_at is None
        and message.state is None
    )


def _weight(given: object, length: int) -> int | None:
    """The weight in KiB: at least what the data takes; that of a claim check is one."""
    least = -(-length // limits.KIB) or 1
    if given is None:
        return least
    return given if type(given) is int and least <= given <= limits.WEIGHT_KIB_MAX else None


def _expiry(time: object) -> int | None:
    if time is None:
        return NEVER
    if type(time) is not datetime or time.utcoffset() is None:
        return None
    moment = (time - EPOCH) // MICROSECOND
    return moment if EXPIRY_MIN <= moment <= EXPIRY_MAX else None
