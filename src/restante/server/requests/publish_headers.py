"""Headers of a publish, and the label of a frame: the batch of its messages, their source, and when it is answered."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import UNSET

from restante.errors import InvalidRequest
from restante.model.backplane.accept import Accept
from restante.model.columns.text_ids import is_uuid
from restante.model.producers.producer import ProducerNumbers, check_numbers
from restante.model.sources.source import check_source
from restante.server.connections.exchange import Exchange
from restante.wire.frames import FrameHeader

ACCEPT_HEADER = "Restante-Accept"
BATCH_HEADER = "Restante-Batch"
SOURCE_HEADER = "Restante-Source"
_ACCEPT = ACCEPT_HEADER.lower().encode()
_BATCH = BATCH_HEADER.lower().encode()
_SOURCE = SOURCE_HEADER.lower().encode()


def accept_of(exchange: Exchange) -> Accept | None:
    """The promise that the sender of a publish is content with, if it says so."""
    text = _only(exchange, ACCEPT_HEADER, _ACCEPT)
    if text is None:
        return None
    try:
        return Accept(text.strip().lower())
    except ValueError as error:
        raise InvalidRequest(
            f"The header {ACCEPT_HEADER} is `stored` or `accepted`, not {text[:64]!r}.", header=ACCEPT_HEADER
        ) from error


def batch_of(exchange: Exchange) -> str | None:
    """The batch that the messages of a publish are bound to, if they are."""
    text = _only(exchange, BATCH_HEADER, _BATCH, ": a publish belongs to one batch")
    if text is None:
        return None
    if not is_uuid(text):
        raise _no_uuid(f"The header {BATCH_HEADER}", text, header=BATCH_HEADER)
    return text.lower()


def source_of(exchange: Exchange) -> str | None:
    """The source of the messages of a publish, if it says so."""
    text = _only(exchange, SOURCE_HEADER, _SOURCE, ": a publish has one source")
    if text is None:
        return None
    try:
        return check_source(unquote_to_bytes(text.encode("latin-1")).decode())
    except UnicodeError as error:
        raise InvalidRequest(
            f"The header {SOURCE_HEADER} must be percent-encoded UTF-8.", header=SOURCE_HEADER
        ) from error


def refuse_header(exchange: Exchange, header: str, remedy: str) -> None:
    """Refuse a header of a publish where nobody would look at it."""
    if exchange.header(header.lower().encode()) is not None:
        raise InvalidRequest(f"The header {header} means nothing here: {remedy}", header=header)


def check_batch_id(text: str, *, field: str) -> str:
    """Check the id of a batch that a body or a frame gives."""
    if not is_uuid(text):
        raise _no_uuid(field, text, field=field)
    return text.lower()


def _only(exchange: Exchange, header: str, key: bytes, why: str = "") -> str | None:
    """The value of a header; refused if it is given more than once."""
    text = exchange.header(key)
    if text is None or exchange.distinct or sum(name == key for name, _ in exchange.scope["headers"]) == 1:
        return text
    raise InvalidRequest(f"The header {header} may be given once{why}.", header=header)


def _no_uuid(what: str, text: str, **details: str) -> InvalidRequest:
    return InvalidRequest(f"{what} must be a UUID of 36 characters, not {text[:64]!r}.", **details)


class Label(NamedTuple):
    """None: to any partition, without numbers, for no batch, from nowhere in particular."""

    partition: int | None = None
    producer: ProducerNumbers | None = None
    batch: str | None = None
    source: str | None = None
    accept: Accept | None = None


def label_of(header: FrameHeader) -> Label:
    """The label of a frame of the pipelined link."""
    partition = None if header.partition is UNSET else header.partition
    batch = None if header.batch is UNSET else check_batch_id(header.batch, field="batch")
    source = None if header.source is UNSET else check_source(header.source)
    accept = None if header.accept is UNSET else header.accept
    if header.producer is UNSET:
        return Label(partition, None, batch, source, accept)
    check_numbers(header.producer)
    if partition is None:
        raise InvalidRequest(
            "producer numbers the messages of one partition: name the partition too.", field="partition"
        )
    return Label(partition, header.producer, batch, source, accept)
