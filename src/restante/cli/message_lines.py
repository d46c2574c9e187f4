"""Messages as JSON lines, each as it is over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from restante.limits import ANSWER_ROWS_MAX
from restante.wire.json_values import compact
from restante.wire.outgoing import messages_json

_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def message_lines(table: pa.Table) -> Iterator[bytes]:
    """Some lines at a time, each with its end."""
    for first in range(0, table.num_rows, ANSWER_ROWS_MAX):
        array = b"".join(messages_json(table.slice(first, ANSWER_ROWS_MAX)))
        yield b"".join(_line(bytes(message)) for message in _array_decoder.decode(array))


def _line(message: bytes) -> bytes:
    # Data that was sent as bytes is given out as it came, and JSON may have line ends between its parts.
    return (compact(message) if b"\n" in message or b"\r" in message else message) + b"\n"
