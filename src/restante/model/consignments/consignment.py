"""Consignments as they are stored: a row for each, one for its key, and one for each staged parcel.

A consignment is open until it is committed or discarded. Staged messages lie in runs that nobody sees, named by the rows of
their parcels. A parcel is known by writer, attempt and number, so that staging it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import ConsignmentClosed, ConsignmentIncomplete, ConsignmentUnknown, InvalidRequest
from restante.model.access.access import NO_OWNER, Grant, may_see, may_use
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.storage.keys import number_key

_ID_BYTES = 16
_DIGEST_BYTES = 16
_OWNED = b"\xff"
"""No text begins with it, so no key that nobody owns does."""


class ConsignmentRow(msgspec.Struct, frozen=True, array_like=True):
    key: str
    state: ConsignmentState
    opened_at: int
    batch: bytes = b""
    """The batch that its messages will be items of, if any."""
    closed_at: int = 0
    accepted: int = 0
    duplicates: int = 0
    partitions: tuple[tuple[int, int, int], ...] = ()
    """The answer to the commit: partition, first and last number."""
    owner: bytes = NO_OWNER
    named: bytes = b""
    """A digest of what the commit named; empty where older versions committed."""


class StagedRun(NamedTuple):
    """A run of a staged parcel: its partition, and the run's name there."""

    partition: int
    identity: int


class ParcelRow(msgspec.Struct, frozen=True, array_like=True):
    """A staged parcel. `digest` is of all that its writer said, to tell a repetition from something else."""

    messages: int
    digest: bytes
    staged_at: int
    length: int
    """How many bytes its runs take."""
    runs: tuple[StagedRun, ...]


class Attempt(NamedTuple):
    """One attempt of a writer."""

    writer: str
    number: int


class StagedParcel(NamedTuple):
    """The name of a parcel in its consignment."""

    attempt: Attempt
    number: int


_encoder = msgspec.msgpack.Encoder()
_consignments = packed_decoder(ConsignmentRow)
_parcels = packed_decoder(ParcelRow)


def encode_consignment(row: ConsignmentRow) -> bytes:
    return _encoder.encode(row)


def decode_consignment(value: bytes) -> ConsignmentRow:
    return _consignments.decode(value)


def encode_parcel(row: ParcelRow) -> bytes:
    return _encoder.encode(row)


def decode_parcel(value: bytes) -> ParcelRow:
    return _parcels.decode(value)


def consignment_key(key: str, owner: bytes) -> bytes:
    """Under which the consignment of a key is found; each owner has keys of its own."""
    return _OWNED + owner + key.encode() if owner else key.encode()


def attempt_prefix(consignment_id: bytes, attempt: Attempt) -> bytes:
    """The bytes that the keys of all parcels of an attempt begin with."""
    writer = attempt.writer.encode()
    return consignment_id + len(writer).to_bytes(2, "big") + writer + number_key(attempt.number)


def parcel_key(consignment_id: bytes, parcel: StagedParcel) -> bytes:
    """The parcels of an attempt lie together, in the order of their numbers."""
    return attempt_prefix(consignment_id, parcel.attempt) + number_key(parcel.number)


def key_parcel(key: bytes) -> StagedParcel:
    at = _ID_BYTES + 2 + int.from_bytes(key[_ID_BYTES : _ID_BYTES + 2], "big")
    attempt = Attempt(key[_ID_BYTES + 2 : at].decode(), int.from_bytes(key[at : at + 8], "big"))
    return StagedParcel(attempt, int.from_bytes(key[at + 8 : at + 16], "big"))


def receipt_of(row: ConsignmentRow) -> Receipt | None:
    """The answer to the commit, if it was committed."""
    if row.state is not ConsignmentState.COMMITTED:
        return None
    partitions = tuple(
        PartitionReceipt(partition=partition, first_sequence_number=first, last_sequence_number=last)
        for partition, first, last in row.partitions
    )
    return Receipt(accepted=row.accepted, duplicates=row.duplicates, partitions=partitions)


def check_key(key: str) -> None:
    _check_text(key, "A consignment's key", limits.CONSIGNMENT_KEY_CHARACTERS_MAX, "key")


def check_parcel(writer: str, attempt: int, parcel: int) -> StagedParcel:
    """The name of a parcel, if it is one."""
    return StagedParcel(check_attempt(writer, attempt), _check_number(parcel, "parcel"))


def check_attempt(writer: str, attempt: int) -> Attempt:
    _check_text(writer, "A writer's name", limits.WRITER_CHARACTERS_MAX, "writer")
    return Attempt(writer, _check_number(attempt, "attempt"))


def _check_text(text: object, what: str, most: int, parameter: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > most or not _is_unicode(text):
        shown = text if not isinstance(text, str) or len(text) <= most else f"{text[:most]}…"
        raise InvalidRequest(
            f"{what} is a text of 1 to {most} characters, not blank, not {shown!r}.", parameter=parameter
        )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _check_number(number: object, parameter: str) -> int:
    if type(number) is not int or not 0 <= number <= limits.WRITER_NUMBER_MAX:
        most = limits.WRITER_NUMBER_MAX
        raise InvalidRequest(f"{parameter} is a whole number from 0 to {most}, not {number!r}.", parameter=parameter)
    return number


def check_winners(winners: Sequence[Winner]) -> dict[Attempt, int]:
    """The attempts that count, in their order, with the number of messages announced of each."""
    if len(winners) > limits.CONSIGNMENT_ATTEMPTS_MAX:
        raise InvalidRequest(
            f"A commit names at most {limits.CONSIGNMENT_ATTEMPTS_MAX:,} writers.", parameter="writers"
        )
    announced: dict[Attempt, int] = {}
    seen: set[str] = set()
    for winner in winners:
        attempt = check_attempt(winner.writer, winner.attempt)
        if winner.writer in seen:
            text = f"Writer {winner.writer!r} is named twice: one of its attempts counts."
            raise InvalidRequest(text, parameter="writers")
        seen.add(winner.writer)
        announced[attempt] = _check_number(winner.messages, "messages")
    return announced


def check_complete(announced: Mapping[Attempt, int], staged: Mapping[Attempt, int]) -> None:
    """`ConsignmentIncomplete`, if an attempt has staged more or less than was announced."""
    differing = [
        {"writer": attempt.writer, "attempt": attempt.number, "announced": count, "staged": staged.get(attempt, 0)}
        for attempt, count in announced.items()
        if staged.get(attempt, 0) != count
    ]
    if differing:
        first = differing[0]
        raise ConsignmentIncomplete(
            f"Writer {first['writer']!r} has staged {first['staged']} messages in attempt {first['attempt']}, and "
            f"{first['announced']} were announced{_and_others(len(differing) - 1)}. Nothing was committed. Stage what is "
            "missing, announce what is there, or name another attempt.",
            writers=differing[: limits.FAULTS_SHOWN_MAX],
        )


def _and_others(count: int) -> str:
    return f"; {count} more writers differ" if count > 1 else "; one more writer differs" if count else ""


def digest_of(announced: Mapping[Attempt, int]) -> bytes:
    """The digest of what a commit names, in whatever order."""
    named = sorted((attempt.writer, attempt.number, messages) for attempt, messages in announced.items())
    return blake2b(_encoder.encode(named), digest_size=_DIGEST_BYTES).digest()


def answer_again(row: ConsignmentRow, consignment: str, announced: Mapping[Attempt, int]) -> Receipt:
    """The answer to the commit once more; `ConsignmentClosed`, with that answer, if it named something else."""
    receipt = receipt_of(row)
    if receipt is None:
        raise closed(row, consignment)
    if row.named and row.named != digest_of(announced):
        raise ConsignmentClosed(
            f"Consignment {consignment} ({row.key}) was committed before, with other writers, attempts or counts than "
            "named now. What was named then is delivered; `recorded` is what that commit answered. For other messages "
            "open another key.",
            consignment=consignment,
            state=row.state.value,
            recorded=receipt,
        )
    return receipt


def check_visible(row: ConsignmentRow | None, consignment: str, caller: Grant) -> ConsignmentRow:
    """The row of a consignment that the caller may look at."""
    return check_known(row if row is not None and may_see(caller, row.owner) else None, consignment)


def check_usable(row: ConsignmentRow | None, consignment: str, caller: Grant) -> ConsignmentRow:
    """The row of a consignment that the caller may use."""
    return check_known(row if row is not None and may_use(caller, row.owner) else None, consignment)


def check_known(row: ConsignmentRow | None, consignment: str) -> ConsignmentRow:
    if row is None:
        text = f"There is no consignment {consignment}. It may have been closed so long ago that it was forgotten."
        raise ConsignmentUnknown(text, consignment=consignment)
    return row


def closed(row: ConsignmentRow, consignment: str) -> ConsignmentClosed:
    """The error for a call that would add to a consignment that is committed or discarded."""
    return closed_as(row.state, consignment, f" ({row.key})")


def closed_as(state: ConsignmentState, consignment: str, named: str = "") -> ConsignmentClosed:
    discarded = state is ConsignmentState.DISCARDED
    more = "Open its key again for a new one." if discarded else "What its commit named was delivered."
    return ConsignmentClosed(
        f"Consignment {consignment}{named} was {state.value}: nothing can be added or changed. {more}",
        consignment=consignment,
        state=state.value,
    )
