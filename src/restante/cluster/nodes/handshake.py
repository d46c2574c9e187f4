"""How two nodes greet each other: both show that they know the secret of the cluster, and neither says it.

The caller sends what it wants and a nonce; the other side answers with a nonce of its own and proves first; then the caller proves.
All has a fixed length, so nothing is read of a stranger but that.
"""

from __future__ import annotations

import hmac
from enum import Enum
from struct import Struct
from typing import NamedTuple

from restante.errors import InvalidRequest

_MAGIC = b"restante"
_VERSION = 1
_HELLO = Struct(">8sBcH32s")
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES = _HELLO.size
REPLY_BYTES = NONCE_BYTES + PROOF_BYTES
WELCOME, REFUSED = b"+", b"-"


class Purpose(Enum):
    """The purposes of a connection."""

    CALLS = b"c"
    REQUESTS = b"r"
    NUDGE = b"n"
    """Something has changed: look at the store."""
    DRAIN = b"d"
    """Give your shards away."""
    READY = b"h"
    """The heir of this shard has looked at it: let go of it."""


class Hello(NamedTuple):
    """The greeting of a caller: what it wants."""

    purpose: Purpose
    shard: int
    nonce: bytes

    def encode(self) -> bytes:
        return _HELLO.pack(_MAGIC, _VERSION, self.purpose.value, self.shard, self.nonce)


def decode_hello(content: bytes) -> Hello:
    magic, version, purpose, shard, nonce = _HELLO.unpack(content)
    if magic != _MAGIC or version != _VERSION:
        raise InvalidRequest("A connection to the port for nodes is not from a node, or from one of another version.")
    try:
        return Hello(Purpose(purpose), shard, nonce)
    except ValueError as error:
        raise InvalidRequest(
            "A node asks for something that this version does not know. Run one version on all nodes."
        ) from error


def proof(secret: bytes, side: bytes, hello: bytes, nonce: bytes) -> bytes:
    """The proof that one knows the secret; each side's is another, so that none can be sent back."""
    return hmac.digest(secret, side + hello + nonce, "sha256")


def is_proof(shown: bytes, secret: bytes, side: bytes, hello: bytes, nonce: bytes) -> bool:
    return hmac.compare_digest(shown, proof(secret, side, hello, nonce))
