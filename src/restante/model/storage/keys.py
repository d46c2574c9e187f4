"""The keys of small rows. They are ordered byte strings."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from restante.decoders import packed_decoder


class Cabinet(NamedTuple):
    """(recipient, origin, kind) in full."""

    recipient: str
    origin: str
    kind: str


def number_key(number: int) -> bytes:
    """The key of a number. Keys sort like their numbers."""
    return number.to_bytes(8, "big")


def key_number(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


def cabinet_key(recipient_hash: int, cabinet: Cabinet) -> bytes:
    """The recipient's hash, which keeps a recipient's cabinets together, then the full cabinet, because hashes may collide."""
    return number_key(recipient_hash) + msgspec.msgpack.encode(cabinet)


def key_cabinet(key: bytes) -> Cabinet:
    return Cabinet(*packed_decoder(tuple[str, str, str]).decode(key[8:]))


def after_prefix(prefix: bytes) -> bytes | None:
    """The smallest key that is greater than all keys with this prefix; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def settlement_key(recipient_hash: int, cabinet: Cabinet, change: int) -> bytes:
    return cabinet_key(recipient_hash, cabinet) + number_key(change)


def bundle_key(recipient_hash: int, recipient: str, bundle_id: bytes) -> bytes:
    return number_key(recipient_hash) + bundle_id + recipient.encode()
