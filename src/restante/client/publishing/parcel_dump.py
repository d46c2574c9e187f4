"""A parcel as bytes that outlive the process: a MessagePack envelope with the messages as an Arrow stream."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
import numpy as np
import pyarrow as pa

from restante.decoders import packed_decoder
from restante.errors import InvalidRequest
from restante.limits import LARGE_DATA_BYTES_MAX, PARCEL_BYTES_MAX
from restante.model.columns.texts import Texts
from restante.model.mailboxes.answers import Receipt
from restante.model.mailboxes.message_tables import to_messages, to_table
from restante.model.producers.producer import ProducerNumbers, check_numbers
from restante.model.publishing import intake
from restante.model.publishing.message import NEVER, Message, State
from restante.model.publishing.refusals import refusal
from restante.wire.publish import encode_columns

_KIND = "restante.parcel"
_VERSION = 1
_DIGEST_BYTES = 16
_set = msgspec.structs.force_setattr


class Dumped(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a parcel."""

    partition: int | None
    max_size_in_bytes: int
    numbers: ProducerNumbers | None
    ids_made: bool
    published: bool
    unheard: Receipt | None
    messages: int
    stream: bytes
    batch: str | None = None


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    version: int
    checksum: bytes
    content: bytes


def dumped(parcel: Dumped) -> bytes:
    content = msgspec.msgpack.encode(parcel)
    return msgspec.msgpack.encode(_Envelope(_KIND, _VERSION, _checksum(content), content))


def loaded(content: bytes) -> tuple[Dumped, pa.Table]:
    """The state of a dumped parcel, and its messages."""
    kept = _opened(content)
    try:
        parcel = packed_decoder(Dumped).decode(kept)
        with pa.ipc.open_stream(pa.py_buffer(parcel.stream)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, pa.ArrowException, OSError) as error:
        raise _unreadable(str(error)) from error
    if parcel.numbers is not None:
        check_numbers(parcel.numbers)
    if table.num_rows != parcel.messages or not 1 <= parcel.max_size_in_bytes <= PARCEL_BYTES_MAX:
        raise _unreadable("its parts do not fit together")
    return parcel, table


def stream_of(content: Sequence[Message] | pa.Table) -> bytes:
    """The messages as an Arrow stream. Raises if the rules refuse one."""
    return encode_columns(content, random=os.urandom, now_ms=time.time_ns() // 1_000_000)


def messages_of_table(table: pa.Table) -> tuple[Message, ...]:
    """The messages of columns that a caller sends."""
    columns, faults = intake.from_arrow(table, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)
    if faults:
        raise refusal(faults)
    never = np.full(len(columns), NEVER, np.int64)
    state = Texts.constant(State.WAITING.value, len(columns))
    messages = to_messages(
        to_table(columns, sequence_number=never, published_at=never, collected_at=never, state=state)
    )
    given = columns.made_id.tolist()
    for message, made in zip(messages, given, strict=True):
        _set(message, "sequence_number", None)
        _set(message, "state", None)
        if made:
            _set(message, "id", None)
    return messages


def _opened(content: bytes) -> bytes:
    """The content of the envelope. Raises unless it is a complete dumped parcel."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise InvalidRequest(f"A parcel is loaded from bytes, not {type(content).__name__}.")
    try:
        envelope = packed_decoder(_Envelope).decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable("this is no dumped parcel, or only a part of one") from error
    if envelope.kind != _KIND:
        raise _unreadable("this is no dumped parcel")
    if envelope.version != _VERSION:
        raise _unreadable(f"it is of version {envelope.version}, and only version {_VERSION} is known here")
    if envelope.checksum != _checksum(envelope.content):
        raise _unreadable("it is damaged: its checksum is not that of its content")
    return envelope.content


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _unreadable(why: str) -> InvalidRequest:
    return InvalidRequest(f"The parcel cannot be loaded: {why}. Give what `parcel.dump()` gave, unchanged.")
