"""Messages out of an Arrow IPC stream that a stranger wrote.

Uncompressed columns stay where they lie in the body. Compressed ones say how large they become, and Arrow believes
them; a dictionary that grows is copied each time. So the stream is first walked message by message, and the memory that it
will take is added up before anything is unpacked. The values of the columns are checked by `model.publishing`; here each batch
is only checked so far that asking for its size is safe.
"""

from __future__ import annotations

import struct

import pyarrow as pa
from pyarrow import ipc

from restante.errors import BodyTooLarge, InvalidRequest
from restante.limits import ARROW_BATCHES_MAX, ARROW_ROW_BYTES, SEND_BYTES_MAX, SEND_MESSAGES_MAX
from restante.model.publishing.intake_arrow import require_known
from restante.wire.incoming.flatbuffers import BatchSize, batch_size
from restante.wire.json_pieces import TakeRoom, no_bound
from restante.wire.json_values import Body

_BROKEN = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    IndexError,
    struct.error,
    OverflowError,
    KeyError,
    TypeError,
    RecursionError,
)

_ALIGNED = 8


def decode_arrow(body: Body, take_room: TakeRoom = no_bound) -> pa.Table:
    """The table of a stream that is whole. Its memory takes room before anything is unpacked."""
    buffer = pa.py_buffer(body)
    if buffer.address % _ALIGNED:
        # Part of a frame: numbers must lie where the machine wants them.
        buffer = pa.py_buffer(bytes(body))
    try:
        size, rows = _walk(buffer)
        take_room(max(0, size - len(body)) + rows * ARROW_ROW_BYTES)
        with ipc.open_stream(buffer) as reader:
            require_known(reader.schema)
            batches = [_sound(batch) for batch in reader]
            return pa.Table.from_batches(batches, reader.schema)
    except _BROKEN as error:
        raise InvalidRequest(f"the Arrow stream cannot be read: {error}") from error


def _walk(buffer: pa.Buffer) -> tuple[int, int]:
    """How many bytes a stream becomes, and how many rows. One that does not end, or becomes too large, is refused."""
    source = pa.BufferReader(buffer)
    size = rows = batches = 0
    dictionaries: dict[int, int] = {}
    while (message := _next(source)) is not None:
        batches += 1
        if batches > ARROW_BATCHES_MAX:
            raise InvalidRequest(f"the Arrow stream has more than {ARROW_BATCHES_MAX} batches: make them larger")
        if message.type in {"record batch", "dictionary"}:
            found = batch_size(_content(message.metadata), _content(message.body))
            if found.dictionary is None:
                size, rows = size + found.unpacked, rows + found.rows
            else:
                size += _grown(dictionaries, found)
        _check(size, rows)
    return size, rows


def _grown(dictionaries: dict[int, int], found: BatchSize) -> int:
    """The bytes that a dictionary takes after this batch of it: the batches of rows before keep the one that they had."""
    assert found.dictionary is not None
    before = dictionaries.get(found.dictionary, 0) if found.is_delta else 0
    dictionaries[found.dictionary] = before + found.unpacked
    return before + found.unpacked


def _next(source: pa.BufferReader) -> ipc.Message | None:
    place = source.tell()
    try:
        return ipc.read_message(source)
    except EOFError:
        if source.tell() == place:
            raise InvalidRequest(
                "the Arrow stream is cut off: it must end with an end-of-stream marker, so close its writer"
            ) from None
        return None


def _check(size: int, rows: int) -> None:
    if size > SEND_BYTES_MAX:
        raise BodyTooLarge(
            f"the Arrow stream unpacks to more than {SEND_BYTES_MAX} bytes: send less at a time", limit=SEND_BYTES_MAX
        )
    if rows > SEND_MESSAGES_MAX:
        raise InvalidRequest(f"{rows} messages are too many for one send: at most {SEND_MESSAGES_MAX} are allowed")


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, whose buffers are as large as its lengths say."""
    batch.validate()
    return batch


def _content(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(b"" if buffer is None else buffer)
