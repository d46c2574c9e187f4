# Generated from `large_send_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""A send of any size, for programs that wait: if it is larger than a body, it is cut, and delivered at one moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from restante.calls.publishing import Publish
from restante.client.consignments.consignments_sync import open_consignment
from restante.client.consignments.large_sends import SendWish, summed, whole_or_pieces
from restante.client.consignments.pieces import CutPieces, Piece
from restante.client.transport.link import Link
from restante.errors import RestanteError
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, Many
from restante.model.uuid_text import made_ids

_WRITER = "send"


def send_all(link: Link, sent: object, wish: SendWish) -> Receipt:
    """Send messages in one publish if they fit in a body; else as a consignment, or in parcels if the caller wishes that."""
    taken = whole_or_pieces(sent)
    if not isinstance(taken, CutPieces):
        return _publish(link, taken, wish)
    if wish.in_parcels:
        return _send_parcels(link, taken.pieces, wish)
    wish.check_consigned()
    return _consign(link, taken, wish)


def _publish(link: Link, sent: Few | Many, wish: SendWish) -> Receipt:
    call = Publish(sent, partition=wish.partition, batch=wish.batch, source=wish.source, accept=wish.accept)
    receipt = link.call(call)
    if wish.progress is not None:
        wish.progress(receipt.accepted + receipt.duplicates + receipt.skipped)
    return receipt


def _consign(link: Link, pieces: CutPieces, wish: SendWish) -> Receipt:
    """Staged under a key of its own; when anything fails, nothing of it is ever seen."""
    (key,) = made_ids(1, os.urandom, time.time_ns() // 1_000_000)
    with open_consignment(link, f"send-{key}", batch=False) as consignment:
        consignment.stage(_WRITER, 0, pieces, progress=wish.progress)
        return consignment.commit()


def _send_parcels(link: Link, pieces: Iterator[Piece], wish: SendWish) -> Receipt:
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
            hear(link.call(_piece(piece, wish)))
    except RestanteError as error:
        error.add_note(f"The {at_hub:,} messages before it are stored: the send was cut into parcels.")
        raise
    return summed(receipts)


def _piece(piece: Piece, wish: SendWish) -> Publish:
    return Publish.of(piece, partition=wish.partition, batch=wish.batch, source=wish.source, accept=wish.accept)
