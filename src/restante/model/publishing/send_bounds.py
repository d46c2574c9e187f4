"""How many messages, and how many bytes, one send may have."""

from __future__ import annotations

from restante import limits
from restante.errors import InvalidRequest


def check_count(n: int) -> None:
    if n > limits.SEND_MESSAGES_MAX:
        raise InvalidRequest(f"{n} messages are too many for one send: at most {limits.SEND_MESSAGES_MAX} are allowed")


def check_bytes(size: int) -> None:
    if size > limits.SEND_BYTES_MAX:
        raise InvalidRequest(f"{size} bytes are too much for one send: at most {limits.SEND_BYTES_MAX} are allowed")
