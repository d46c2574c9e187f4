"""Texts of senders, harmless for a terminal: control characters are shown as `\\x1b` and take no effect.

A name may hold them, and a reader must not have its terminal retitled, its lines overwritten or their order
turned round. In JSON, the characters that encoders leave alone become `\\u` escapes, so it stays the same JSON.
"""

from __future__ import annotations

import re

_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of what follows."""
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_TURNING}\ud800-\udfff]")
_UNSAFE_BYTES = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)


def plain(text: str) -> str:
    """A text as one harmless line."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def plain_output(content: bytes) -> bytes:
    """UTF-8 as it may go to a terminal: the ends of lines and tabs stay, and bytes that are no UTF-8."""
    return _UNSAFE_BYTES.sub(lambda found: _escaped(found[0].decode()).encode(), content)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode() if character < " " else f"\\u{ord(character):04x}"
