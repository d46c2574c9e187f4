"""The id of a batch, made from the id of the request that opens it: the same request again is the same batch."""

from __future__ import annotations

import uuid
from hashlib import blake2b
from itertools import count

from restante.model.storage.partition import partition_of

_VARIANT = 0x80


def id_of_request(request_id: str, key: str | None, partition_count: int) -> str:
    """An id in the partition of the key, where it can be seen whether the key is used. Its time is that of the request."""
    home = None if key is None else partition_of(key, partition_count)
    asked = uuid.UUID(request_id).bytes
    for number in count():
        made = _made(asked, number)
        if home is None or partition_of(made, partition_count) == home:
            return made
    raise AssertionError("there is always another number")


def _made(asked: bytes, number: int) -> str:
    digest = blake2b(asked + number.to_bytes(8), digest_size=8).digest()
    return str(uuid.UUID(bytes=asked[:8] + bytes([_VARIANT | digest[0] >> 2]) + digest[1:]))
