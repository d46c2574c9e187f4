"""Publishing: messages by any body type, routed or to one partition, there also by a producer's own numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping

from restante.errors import PartitionUnknown
from restante.model.access import Grant, Role
from restante.model.answers import Receipt
from restante.model.changes import Buffer
from restante.server.batch_names import batch_of
from restante.server.bodies import read_body
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.label import Label
from restante.server.numbering import producer_numbers, refuse_numbers
from restante.server.origin_access import check_origins
from restante.server.routing import Route
from restante.wire.incoming import decode_messages

SMALL_BODY_BYTES = 32 * 1024
"""Bodies up to this size are read in the event loop; larger ones would hold up the others."""


async def publish(desk: Desk, exchange: Exchange) -> None:
    refuse_numbers(exchange)
    await _publish(desk, exchange, Label(batch=batch_of(exchange)))


async def publish_parcel(desk: Desk, exchange: Exchange) -> None:
    partition = partition_number(exchange.place["partition"])
    await _publish(desk, exchange, Label(partition, producer_numbers(exchange), batch_of(exchange)))


def partition_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise PartitionUnknown(f"A partition is a number, not {text!r}. GET /v1/partitions lists them.")
    return int(text)


async def _publish(desk: Desk, exchange: Exchange, label: Label) -> None:
    started = time.perf_counter()
    with desk.room.publish() as parcel:
        body = await read_body(desk, exchange, parcel)
        content_type = exchange.header(b"content-type")
        headers = exchange.headers() if exchange.header(b"ce-specversion") is not None else {}
        if len(body) <= SMALL_BODY_BYTES:
            sent = decode_messages(body, content_type=content_type, headers=headers)
            check_origins(exchange.grant, sent)
            partition, producer, batch = label
            receipt = await desk.link.publish(sent, partition=partition, producer=producer, batch=batch)
        else:
            receipt = await desk.link.thread(_publish_large, desk, exchange.grant, body, content_type, headers, label)
    count(desk, receipt, time.perf_counter() - started)
    await exchange.json(201, receipt)


def _publish_large(
    desk: Desk,
    grant: Grant,
    body: Buffer,
    content_type: str | None,
    headers: Mapping[str, str],
    label: Label,
) -> Receipt:
    sent = decode_messages(body, content_type=content_type, headers=headers)
    check_origins(grant, sent)
    return desk.hub.publish(
        sent,
        partition=label.partition,
        producer=label.producer,
        batch=label.batch,
    )


def count(desk: Desk, receipt: Receipt, seconds: float) -> None:
    # What is answered once more was not stored once more.
    stored = 0 if receipt.replayed else receipt.accepted
    desk.metrics.accepted.add(stored)
    desk.metrics.duplicates.add(receipt.accepted + receipt.duplicates - stored)
    desk.metrics.publish(seconds)


_PUBLISHER = frozenset({Role.PUBLISHER})

ROUTES = (
    Route("POST", "/v1/messages", publish, _PUBLISHER),
    Route("POST", "/v1/partitions/{partition}/parcels", publish_parcel, _PUBLISHER),
)
