"""Poison: records of the backplane that could not be stored, kept with the reason."""

from __future__ import annotations

import msgspec

from restante.decoders import packed_decoder
from restante.errors import DataDamaged, Fault, FaultyMessages, InvalidOperation, RestanteError
from restante.limits import FAULTS_SHOWN_MAX
from restante.model.backplane.backplane_answers import RefusedRecord
from restante.model.mailboxes.answers import moment
from restante.model.publishing.refusals import refusal
from restante.model.storage.keys import key_number, number_key

_encoder = msgspec.msgpack.Encoder()


class RefusedRow(msgspec.Struct, frozen=True, array_like=True):
    """A record as it came, and why it was refused."""

    refused_at: int
    """Microseconds since 1970 UTC."""
    code: str
    reason: str
    messages: int
    """How many messages the record has; 0 if it cannot be read."""
    faults: tuple[tuple[int, str, str], ...]
    """The first messages that are at fault: index, code, detail."""
    content: bytes


_decoder = packed_decoder(RefusedRow)


def poison_row(error: RestanteError, messages: int, content: bytes, now: int) -> RefusedRow:
    faults = error.faults[:FAULTS_SHOWN_MAX] if isinstance(error, FaultyMessages) else ()
    told = tuple((fault.index, fault.code, fault.detail) for fault in faults)
    return RefusedRow(now, error.code, error.message, messages, told, content)


def error_of_row(row: RefusedRow) -> RestanteError:
    """The error with which it was refused."""
    if row.faults:
        return refusal([Fault(index=index, code=code, detail=detail) for index, code, detail in row.faults])
    return DataDamaged(row.reason) if row.code == DataDamaged.code else InvalidOperation(row.reason)


def poison_key(position: int) -> bytes:
    return number_key(position)


def key_position(key: bytes) -> int:
    return key_number(key)


def encode_poison(row: RefusedRow) -> bytes:
    return _encoder.encode(row)


def decode_poison(value: bytes) -> RefusedRow:
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataDamaged(f"A refused record cannot be read: {error}. Run `restante doctor`.") from error


def shown(partition: int, position: int, row: RefusedRow) -> RefusedRecord:
    return RefusedRecord(
        partition=partition,
        position=position,
        refused_at=moment(row.refused_at),
        code=row.code,
        reason=row.reason,
        messages=row.messages,
        errors=tuple(Fault(index=index, code=code, detail=detail) for index, code, detail in row.faults),
        bytes=len(row.content),
    )


def check_poison(key: bytes, value: bytes) -> None:
    """Check a record for the doctor: `DataDamaged` if it cannot be what it should be."""
    key_position(key)
    decode_poison(value)
