"""Texts of senders, harmless for a terminal: control characters are shown as `\\x1b` and take no effect.

A name may hold them, and a reader must not have its terminal retitled, its lines overwritten or their order
turned round. In JSON, the characters that encoders leave alone become `\\u` escapes, so it stays the same JSON.
"""

from __future__ import annotations

import re

_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of what follows."""
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_TURNING}\ud800-\udfff]")
_UNSAFE_OUTPUT = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{_TURNING}\udc80-\udc9f]|\r(?!\n)")


def plain(text: str) -> str:
    """A text as one harmless line."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def plain_lines(text: str) -> str:
    """Lines of text, each harmless."""
    return "\n".join(map(plain, text.split("\n")))


def plain_output(content: bytes) -> bytes:
    """Bytes as they may go to a terminal: the ends of lines and tabs stay, and bytes that mean nothing there."""
    text = content.decode(errors="surrogateescape")
    return _UNSAFE_OUTPUT.sub(lambda found: _escaped(found[0]), text).encode(errors="surrogateescape")


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udc9f":
        character = chr(ord(character) - 0xDC00)  # a byte that is no UTF-8, and a control character in other encodings
        return f"\\x{ord(character):02x}"
    return character.encode("unicode_escape").decode() if character < " " else f"\\u{ord(character):04x}"
