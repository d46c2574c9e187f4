"""A producer's own numbering, in one partition: what is next, what is a repetition, and who is fenced off.

A producer group numbers its messages 0, 1, 2 … 2³¹−1, then 0 again. The hub keeps the owner level, the last number and
the last range that it accepted. At the current level it takes exactly the next number. The last range, sent once more, gets
the same answer again. Any other parcel is refused, and nothing of it is stored. A higher owner level takes the group over,
and starts at 0 unless its link said otherwise; a lower one is fenced off.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from restante.errors import InvalidClientState, InvalidRequest, LinkRefused, ProducerDisconnected
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.access.access import NO_OWNER
from restante.model.mailboxes.answers import PartitionReceipt, ProducerState, Receipt, moment
from restante.model.producers.parcel_digest import Digests
from restante.model.storage.keys import number_key

_NUMBERS = PUBLISHED_SEQUENCE_MAX + 1
_GROUP_BYTES = 8


class ProducerNumbers(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """The producer of a parcel, and the number of its first message."""

    group: int
    owner_level: int
    published_sequence: int
    made_anew: bool = False
    """Whether the sender made the messages again, after a crash say, so that a repetition has other ids: compare content only."""


class AcceptedRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last parcel that was accepted: its numbers, its digests, and what was answered."""

    first: int
    count: int
    digests: Digests
    accepted: int
    first_sequence_number: int = 0
    last_sequence_number: int = 0


class ProducerRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A producer group in a partition, as it is stored."""

    owner_level: int
    last: int | None
    active_at: int
    """Microseconds since 1970 UTC."""
    replays: int = 0
    fenced: int = 0
    range: AcceptedRange | None = None


class Standing(Enum):
    """The relation of a parcel to what was accepted before."""

    NEXT = 1
    SAME_NUMBERS = 2
    """The numbers are those of the last range: a repetition, if the messages are the same too."""


def following(number: int, count: int = 1) -> int:
    """The number so many places later."""
    return (number + count) % _NUMBERS


def next_number(last: int | None) -> int:
    return 0 if last is None else following(last)


def are_right(numbers: ProducerNumbers) -> bool:
    """Whether all of them are whole numbers within their ranges."""
    group, level, first = numbers.group, numbers.owner_level, numbers.published_sequence
    return type(group) is type(level) is type(first) is int and (
        0 <= group <= PRODUCER_GROUP_MAX and 0 <= level <= OWNER_LEVEL_MAX and 0 <= first <= PUBLISHED_SEQUENCE_MAX
    )


def check_numbers(numbers: ProducerNumbers) -> None:
    if are_right(numbers):
        return
    check_group(numbers.group)
    check_level(numbers.owner_level)
    check_sequence("published_sequence", numbers.published_sequence)


def check_group(group: object) -> None:
    _check_range("producer group", group, PRODUCER_GROUP_MAX)


def check_level(level: object) -> None:
    _check_range("owner level", level, OWNER_LEVEL_MAX)


def check_sequence(what: str, number: object) -> None:
    _check_range(what, number, PUBLISHED_SEQUENCE_MAX)


def _check_range(what: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidRequest(f"{what} must be a whole number from 0 to {most}, not {value!r}.")


def standing(row: ProducerRow | None, numbers: ProducerNumbers, count: int) -> Standing:
    """Where so many messages with these numbers stand; raises why they are refused."""
    if row is not None and numbers.owner_level < row.owner_level:
        raise disconnected(numbers.group, received=numbers.owner_level, current=row.owner_level)
    current = row is not None and numbers.owner_level == row.owner_level
    expected = next_number(row.last) if row is not None and current else 0
    if numbers.published_sequence == expected:
        return Standing.NEXT
    last = row.range if row is not None and current else None
    if last is not None and (last.first, last.count) == (numbers.published_sequence, count):
        return Standing.SAME_NUMBERS
    raise InvalidClientState(
        f"Number {numbers.published_sequence} is not the next one of producer group {numbers.group}. Nothing was stored. "
        f"At owner level {numbers.owner_level} the next number is {expected}.",
        expected=expected,
    )


def follows(numbers: ProducerNumbers, before: ProducerNumbers, count: int) -> bool:
    """Whether these are next once so many messages under those are stored."""
    after = following(before.published_sequence, count)
    return (numbers.owner_level, numbers.published_sequence) == (before.owner_level, after)


def repeated(row: ProducerRow, numbers: ProducerNumbers, digests: Digests, partition: int) -> Receipt:
    """The answer to the last range, if this is it once more; raises if these are other messages."""
    last = row.range
    assert last is not None, "only the last range has the same numbers"
    known = last.digests
    if known.whole != digests.whole and not (numbers.made_anew and known.content == digests.content):
        raise InvalidClientState(
            f"The numbers from {last.first} on of producer group {numbers.group} were used before, for other messages. "
            f"Nothing was stored. The next number is {next_number(row.last)}.",
            expected=next_number(row.last),
        )
    numbered = PartitionReceipt(
        partition=partition,
        first_sequence_number=last.first_sequence_number,
        last_sequence_number=last.last_sequence_number,
    )
    return Receipt(
        accepted=last.accepted,
        duplicates=last.count - last.accepted,
        partitions=(numbered,) if last.accepted else (),
        replayed=True,
    )


def disconnected(group: int, *, received: int, current: int) -> ProducerDisconnected:
    return ProducerDisconnected(
        f"A producer of owner level {current} has taken producer group {group} over; this one has level {received}. "
        "Stop publishing, or come back with a higher level.",
        received=received,
        current=current,
    )


def row_after(
    row: ProducerRow | None, numbers: ProducerNumbers, receipt: Receipt, digests: Digests, now: int
) -> ProducerRow:
    """The row to be stored with a parcel that was accepted, or with a repetition of the last one."""
    replays, fenced = (0, 0) if row is None else (row.replays, row.fenced)
    if receipt.replayed:
        assert row is not None, "only what is known can be repeated"
        return msgspec.structs.replace(row, active_at=now, replays=replays + 1)
    count = receipt.accepted + receipt.duplicates
    first, last = 0, 0
    for own in receipt.partitions:
        first, last = own.first_sequence_number, own.last_sequence_number
    taken = AcceptedRange(numbers.published_sequence, count, digests, receipt.accepted, first, last)
    end = following(numbers.published_sequence, count - 1)
    return ProducerRow(numbers.owner_level, end, now, replays, fenced, taken)


def row_fenced(row: ProducerRow) -> ProducerRow:
    """The row to be stored when a producer of a lower level was fenced off."""
    return msgspec.structs.replace(row, fenced=row.fenced + 1)


def row_linked(row: ProducerRow | None, group: int, level: int | None, last: int | None, now: int) -> ProducerRow:
    """The row to be stored when a producer links itself; raises why it is refused.

    `level` None takes the group as it is, `last` None offers no number.
    """
    if row is None:
        if last is not None:
            raise _refused(group, last, None)
        return ProducerRow(level or 0, None, now)
    wanted = row.owner_level if level is None else level
    if wanted < row.owner_level:
        raise disconnected(group, received=wanted, current=row.owner_level)
    if wanted > row.owner_level:
        return ProducerRow(wanted, last, now, row.replays, row.fenced)
    if last is not None and last != row.last:
        raise _refused(group, last, row.last)
    return msgspec.structs.replace(row, active_at=now)


def _refused(group: int, offered: int, known: int | None) -> LinkRefused:
    if known is None:
        told = f"Producer group {group} has no last number here: it is new, or was forgotten. Offer none."
    else:
        told = (
            f"Producer group {group} has published up to {known} here, not up to {offered}. Offer no number to go on where "
            "it is, or any with a higher owner level."
        )
    return LinkRefused(
        f"{told} (It is last_published_sequence_number, and starting_sequence_number in Python.)", expected=known
    )


def producer_key(group: int, owner: bytes) -> bytes:
    """Under which the state of an owner's group is stored."""
    return number_key(group) + owner


def key_owner(key: bytes) -> bytes:
    return key[_GROUP_BYTES:]


def state_of(row: ProducerRow, partition: int, group: int, owner: bytes = NO_OWNER) -> ProducerState:
    return ProducerState(
        partition=partition,
        producer_group=group,
        owner_level=row.owner_level,
        last_published_sequence_number=row.last,
        last_activity_at=moment(row.active_at),
        replays=row.replays,
        fenced_attempts=row.fenced,
        owner=owner.hex() or None,
    )
