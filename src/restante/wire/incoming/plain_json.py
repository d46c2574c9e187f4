"""A few messages out of a JSON body straight as letters, if all of them are plainly right.

A body is read once here, and no `Message` is made of what says nothing but its recipient, its data, and perhaps an id, an
origin and a kind. Whatever is not plainly right is left to `decode_json` and the rules, which say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from restante.errors import RestanteError
from restante.model.columns import media_types
from restante.model.publishing.broadcast import Broadcast
from restante.model.publishing.few_or_many import are_few
from restante.model.publishing.letters import bare_letter, letter_of
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.model.storage.letter import Letter
from restante.wire.incoming.incoming_json import SentMessage, decode_json, message_of, sent_of
from restante.wire.json_values import compact, utf8_body

_TEXT = ord('"')


def plain_letters(body: bytes) -> list[Letter] | None:
    """The letters of a body, in order; None if `decode_json` is to say what it holds.

    How long data may be is for the hub to say.
    """
    letters = []
    try:
        sent = sent_of(utf8_body(body))
        if not (sent and are_few(len(sent))):
            return None
        for one in sent:
            letter = _letter(one)
            if letter is None:
                return None
            letters.append(letter)
    except (msgspec.MsgspecError, ValueError, RecursionError, RestanteError):
        return None
    return letters


def plain_messages(body: bytes) -> Sequence[Message]:
    """The messages of a body that was plainly right."""
    sent = decode_json(body)
    assert not isinstance(sent, Flawed), "what is plainly right has no faults"
    return sent


def _letter(sent: SentMessage) -> Letter | None:
    if not is_bare(sent):
        return _letter_with_more(sent)
    raw, text, octets = sent.data, sent.text, sent.data_base64
    if raw is not UNSET:
        if text is not UNSET or octets is not UNSET:
            return None
        data, media_type = bytes(raw), media_types.JSON
        if data[0] != _TEXT:  # A text alone has no space around its parts.
            data = compact(data)
    elif text is not UNSET:
        if octets is not UNSET:
            return None
        data, media_type = text.encode(), media_types.TEXT
    elif octets is not UNSET:
        data, media_type = octets, media_types.BYTES
    else:
        return None  # A claim check: the hub says whose they may be.
    own_id = None if sent.id is UNSET else sent.id
    return bare_letter(sent.recipient, data, media_type, own_id=own_id, origin=sent.origin, kind=sent.kind)


def is_bare(sent: SentMessage) -> bool:
    """Whether a message says nothing but what `bare_letter` takes. A new field of a message must be named here."""
    return (
        sent.media_type is UNSET
        and sent.recipients is UNSET
        and sent.properties is UNSET
        and sent.bundleable
        and sent.document_type is UNSET
        and sent.weight is UNSET
        and sent.expires_at is UNSET
        and sent.visible_at is UNSET
        and sent.source_position is UNSET
    )


def _letter_with_more(sent: SentMessage) -> Letter | None:
    if sent.data is UNSET and sent.data_base64 is UNSET and sent.text is UNSET:
        return None  # A claim check: the hub says whose they may be.
    message = message_of(sent, compact)
    return None if isinstance(message, Broadcast) else letter_of(message, claim_check_origins=None)
