"""Whether what a caller sends fits in one body, and how it is cut if it does not.

The size of a table or a list is known at once. A reader or an iterator is gathered up to the size of one body. If it ends
there, it is sent whole; if not, the gathered messages are the beginning of a large send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from restante.client.consignments.pieces import CutPieces, Piece, pieces_of
from restante.client.publishing.early_checks import size_of_message
from restante.errors import InvalidRequest
from restante.limits import SEND_MESSAGES_MAX, WHOLE_SEND_BYTES_MAX
from restante.model.backplane.accept import Accept
from restante.model.columns.arrow_checks import size_of, takes_more_than
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.publishing.few_or_many import Few, Many, few_or_many
from restante.model.publishing.message import Message

_ROW_BYTES = 96
"""The bytes that a message takes in a body beside its texts and data, about."""
_PLAIN = {bytes, str}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWish:
    """The options of a send."""

    partition: int | None
    batch: str | None
    parcels: bool
    """Each piece is a send of its own; else all of it is delivered at one moment."""
    progress: Callable[[int], object] | None
    """Hears after each piece how many messages are at the hub."""
    source: str | None = None
    """Where the messages come from: then each piece is a send of its own, because it may be repeated."""
    accept: Accept | None = None
    """When the send is answered. A send that is merely accepted is not delivered at one moment."""

    @property
    def in_parcels(self) -> bool:
        return self.parcels or self.source is not None or self.accept is Accept.ACCEPTED

    def check_consigned(self) -> None:
        """A consignment has its own batch, if any, and goes to all partitions."""
        if self.partition is not None or self.batch is not None:
            what = "a partition" if self.batch is None else "a batch"
            raise InvalidRequest(
                f"The messages are more than one request holds, and with {what} they cannot be delivered at one moment. Send "
                "them with parcels=True, or fewer at a time."
            )


def whole_or_pieces(sent: object) -> Few | Many | CutPieces:
    """The messages as they are to be published, if they fit in one body; or `CutPieces`."""
    measured = few_or_many(sent)
    if isinstance(measured, Few) or not _is_measurable(measured.content):
        return measured
    if isinstance(measured.content, pa.Table | Sequence):
        return CutPieces(pieces_of(sent)) if _is_large(measured.content) else measured
    return _gathered(pieces_of(sent))


def _is_measurable(sent: object) -> bool:
    if isinstance(sent, str | bytes | bytearray):
        return False
    return isinstance(sent, Iterable) or hasattr(sent, "__arrow_c_stream__")


def _is_large(sent: pa.Table | Sequence[Any]) -> bool:
    if isinstance(sent, pa.Table):
        room = WHOLE_SEND_BYTES_MAX - _ROW_BYTES * sent.num_rows
        return sent.num_rows > SEND_MESSAGES_MAX or takes_more_than(sent, room)
    return len(sent) > SEND_MESSAGES_MAX or _about(sent) > WHOLE_SEND_BYTES_MAX


def _about(messages: Sequence[Message]) -> int:
    """About how many bytes messages take. Where the data is text or bytes, nothing need be encoded to know it."""
    contents = [message.data if message.text is None else message.text for message in messages]
    if not set(map(type, contents)) <= _PLAIN or any(message.properties for message in messages):
        return sum(map(_size_of, messages))
    names = sum(len(message.recipient) if type(message.recipient) is str else 0 for message in messages)
    return _ROW_BYTES * len(messages) + names + sum(map(len, contents))


def _size_of(message: Message) -> int:
    """The bytes of a message; 0 for one that breaks a rule, because the rules report all faults together later."""
    try:
        return size_of_message(message)
    except InvalidRequest:
        return 0


def _gathered(pieces: Iterator[Piece]) -> Few | Many | CutPieces:
    first: list[Piece] = []
    size = 0
    for piece in pieces:
        first.append(piece)
        size += size_of(piece) + _ROW_BYTES * len(piece) if isinstance(piece, pa.Table) else _about(piece)
        if size > WHOLE_SEND_BYTES_MAX // 2:
            following = next(pieces, None)
            if following is not None:
                return CutPieces(chain(first, (following,), pieces))
    return few_or_many(_joined(first))


def _joined(pieces: list[Piece]) -> object:
    tables = [piece for piece in pieces if isinstance(piece, pa.Table)]
    if tables:
        return pa.concat_tables(tables)
    return [message for piece in pieces if not isinstance(piece, pa.Table) for message in piece]


def summed(receipts: Sequence[Receipt]) -> Receipt:
    """One receipt for several publishes: of each partition, from the first number of the first to the last of the last."""
    found: dict[int, PartitionReceipt] = {}
    for each in (each for receipt in receipts for each in receipt.partitions):
        first = found.get(each.partition, each).first_sequence_number
        found[each.partition] = PartitionReceipt(
            partition=each.partition, first_sequence_number=first, last_sequence_number=each.last_sequence_number
        )
    return Receipt(
        accepted=sum(receipt.accepted for receipt in receipts),
        duplicates=sum(receipt.duplicates for receipt in receipts),
        skipped=sum(receipt.skipped for receipt in receipts),
        partitions=tuple(found[partition] for partition in sorted(found)),
        stored=all(receipt.stored for receipt in receipts),
        positions=tuple(position for receipt in receipts for position in receipt.positions),
    )
