"""A send of any size, for asynchronous programs: if it is larger than a body, it is cut, and delivered at one moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from restante.calls.publishing import Publish
from restante.client.consignments.consignments_async import open_consignment
from restante.client.consignments.large_sends import SendWish, summed, whole_or_pieces
from restante.client.consignments.pieces import CutPieces, Piece
from restante.client.transport.link import AsyncLink
from restante.errors import RestanteError
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, Many
from restante.model.uuid_text import made_ids

_WRITER = "send"


async def send_all(link: AsyncLink, sent: object, wish: SendWish) -> Receipt:
    """Send messages in one publish if they fit in a body; else as a consignment, or in parcels if the caller wishes that."""
    taken = whole_or_pieces(sent)
    if not isinstance(taken, CutPieces):
        return await _publish(link, taken, wish)
    if wish.in_parcels:
        return await _send_parcels(link, taken.pieces, wish)
    wish.check_consigned()
    return await _consign(link, taken, wish)


async def _publish(link: AsyncLink, sent: Few | Many, wish: SendWish) -> Receipt:
    call = Publish(sent, partition=wish.partition, batch=wish.batch, source=wish.source, accept=wish.accept)
    receipt = await link.call(call)
    if wish.progress is not None:
        wish.progress(receipt.accepted + receipt.duplicates + receipt.skipped)
    return receipt


async def _consign(link: AsyncLink, pieces: CutPieces, wish: SendWish) -> Receipt:
    """Staged under a key of its own; when anything fails, nothing of it is ever seen."""
    (key,) = made_ids(1, os.urandom, time.time_ns() // 1_000_000)
    async with open_consignment(link, f"send-{key}", batch=False) as consignment:
        await consignment.stage(_WRITER, 0, pieces, progress=wish.progress)
        return await consignment.commit()


async def _send_parcels(link: AsyncLink, pieces: Iterator[Piece], wish: SendWish) -> Receipt:
    receipts: list[Receipt] = []
    at_hub = 0

    def hear(receipt: Receipt) -> None:
        nonlocal at_hub
        receipts.append(receipt)
        at_hub += receipt.accepted + receipt.duplicates + receipt.skipped
        if wish.progress is not None:
            wish.progress(at_hub)

    try:
        for piece in pieces:
            hear(await link.call(_piece(piece, wish)))
    except RestanteError as error:
        error.add_note(f"The {at_hub:,} messages before it are stored: the send was cut into parcels.")
        raise
    return summed(receipts)


def _piece(piece: Piece, wish: SendWish) -> Publish:
    return Publish.of(piece, partition=wish.partition, batch=wish.batch, source=wish.source, accept=wish.accept)
