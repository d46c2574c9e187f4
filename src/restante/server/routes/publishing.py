"""Publishing: messages by any body type, routed or to one partition, there also by a producer's own numbers."""

from __future__ import annotations

import time

from restante.calls.call import Home
from restante.calls.publishing import Publish
from restante.errors import PartitionUnknown
from restante.model.access.access import Role
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, Many
from restante.server.connections.exchange import Exchange
from restante.server.connections.incoming_messages import incoming
from restante.server.desk import Desk
from restante.server.requests.producer_numbers import producer_numbers, refuse_numbers
from restante.server.requests.publish_headers import Label, accept_of, batch_of, source_of
from restante.server.route_table import Route


async def publish(desk: Desk, exchange: Exchange) -> None:
    refuse_numbers(exchange)
    await _publish(
        desk, exchange, Label(batch=batch_of(exchange), source=source_of(exchange), accept=accept_of(exchange))
    )


async def publish_parcel(desk: Desk, exchange: Exchange) -> None:
    partition = partition_number(exchange.place["partition"])
    label = Label(partition, producer_numbers(exchange), batch_of(exchange), source_of(exchange), accept_of(exchange))
    await _publish(desk, exchange, label)


def partition_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise PartitionUnknown(f"A partition is a number, not {text!r}. GET /v1/partitions lists them.")
    return int(text)


async def _publish(desk: Desk, exchange: Exchange, label: Label) -> None:
    async with incoming(desk, exchange) as sent:
        receipt = await desk.link_of(exchange.grant).call(Publish(sent, *label))
    count(desk, sent, receipt, time.monotonic() - exchange.came_at)
    await exchange.json(201 if receipt.stored else 202, receipt)


def count(desk: Desk, sent: Few | Many, receipt: Receipt, seconds: float) -> None:
    count_stored(desk, receipt)
    # Many messages take their time on a disk that is well, too: the health looks at the others.
    if isinstance(sent, Few):
        desk.metrics.publish(seconds)


def count_stored(desk: Desk, *receipts: Receipt) -> None:
    metrics = desk.metrics
    for receipt in receipts:
        if not receipt.stored:
            continue  # the owner counts it when it is
        # A replayed receipt answers a repetition: it stored nothing.
        accepted = receipt.accepted
        stored = 0 if receipt.replayed else accepted
        metrics.accepted.value += stored
        metrics.duplicates.value += accepted + receipt.duplicates - stored


_PUBLISHER = frozenset({Role.PUBLISHER})

PUBLISH = Route("POST", "/v1/messages", publish, _PUBLISHER)
PUBLISH_PARCEL = Route("POST", "/v1/partitions/{partition}/parcels", publish_parcel, _PUBLISHER, home=Home.ALL)
ROUTES = (PUBLISH, PUBLISH_PARCEL)
