"""Letters that came from another process, made messages again, for checks that look at whole messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from restante.decoders import json_decoder
from restante.model.columns.text_ids import unpacked
from restante.model.publishing.intake_messages import EPOCH
from restante.model.publishing.letter import Letter
from restante.model.publishing.message import NEVER, Message
from restante.model.storage.rows import BUNDLEABLE, INLINE

_properties = json_decoder(dict[str, str])


def messages_of_letters(letters: Sequence[Letter]) -> Sequence[Message]:
    return tuple(map(_message, letters))


def _message(letter: Letter) -> Message:
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
        properties=_properties.decode(properties) if properties else {},
        expires_at=None if letter.expires_at == NEVER else EPOCH + timedelta(microseconds=letter.expires_at),
    )
