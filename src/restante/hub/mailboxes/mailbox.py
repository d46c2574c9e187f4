"""A recipient's mailbox at one moment: its drawers, its heads, and the first waiting message of each cabinet.

`KeptAside` counts messages that other subjects keep for it: accepted, but not in the mailbox yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from restante import limits
from restante.errors import InvalidRequest
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.row_reads import read_records
from restante.model.columns.arrays import Numbers
from restante.model.mailboxes.bundle import first_waiting
from restante.model.publishing.message import ACTION_KIND
from restante.model.storage.catalog import DrawerPlace, Mailbox, mailbox
from restante.model.storage.head import EMPTY_HEAD, Head, stored_mask
from restante.model.storage.keys import Cabinet
from restante.model.storage.row_formats import RecordArray
from restante.model.storage.run import Run, StoredSegment

_ROWS_AT_ONCE = limits.CHANGE_MESSAGES_MAX


@dataclass(frozen=True, slots=True)
class Opened:
    """A view of a mailbox at one moment."""

    address: MailboxAddress
    places: Mailbox
    heads: dict[Cabinet, Head]
    erasures: int
    """The number of erasures in the partition at the time. If it has changed, the view is invalid."""
    runs: tuple[Run, ...]

    def head(self, cabinet: Cabinet) -> Head:
        return self.heads.get(cabinet, EMPTY_HEAD)

    def cabinets(self) -> set[Cabinet]:
        return self.places.keys() | self.heads.keys()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring rows of one cabinet."""

    stored: StoredSegment
    row: int
    records: RecordArray
    numbers: Numbers

    @staticmethod
    def of(stored: StoredSegment, row: int, records: RecordArray) -> Chunk:
        return Chunk(stored, row, records, records["place"].astype(np.int64) + stored.base)

    def part(self, first: int, last: int) -> Chunk:
        """Rows first to last (exclusive) of the chunk."""
        return Chunk(self.stored, self.row + first, self.records[first:last], self.numbers[first:last])


def look(core: Core, address: MailboxAddress) -> Opened:
    """Look into a mailbox. Call it inside `core.pins.reading()`.

    Heads are read before runs. An older head shows too many messages, which the commit of a bundle notices. Older runs with
    newer heads could show messages that were erased in between.
    """
    memory = core.partitions[address.partition]
    erasures = memory.counters.erasures
    heads = core.heads(address)
    runs = memory.runs
    return Opened(address, mailbox(runs, address.recipient, address.hash), heads, erasures, runs)


def look_for_mail(core: Core, address: MailboxAddress) -> Opened:
    """The mailbox without actions, which are no mail."""
    opened = look(core, address)
    places = {cabinet: own for cabinet, own in opened.places.items() if cabinet.kind != ACTION_KIND}
    return Opened(address, places, mail_heads(opened.heads), opened.erasures, opened.runs)


def mail_heads(heads: Mapping[Cabinet, Head]) -> dict[Cabinet, Head]:
    return {cabinet: head for cabinet, head in heads.items() if cabinet.kind != ACTION_KIND}


def requested(core: Core, opened: Opened, origins: Collection[str], origin_groups: Collection[str]) -> list[Cabinet]:
    """The cabinets that a peek asks for: those of these origins and origin groups, or all if none are named."""
    cabinets = opened.cabinets()
    if not origins and not origin_groups:
        return list(cabinets)
    settings = core.settings
    known = set(settings.origin_groups) | {settings.group_of(origin) for origin in settings.origins}
    known |= {settings.group_of(cabinet.origin) for cabinet in cabinets}
    for group in origin_groups:
        if group not in known:
            raise InvalidRequest(
                f"There is no origin group {group[:64]!r}. Configure it, or name an origin.", parameter="origin_group"
            )
    return [c for c in cabinets if c.origin in origins or settings.group_of(c.origin) in origin_groups]


def first_number(core: Core, opened: Opened, cabinet: Cabinet, now: int, *, after: int = 0) -> int | None:
    """The first number above `after` that waits in a cabinet and has not expired. Rows are read only where needed."""
    head = opened.head(cabinet)
    head = msgspec.structs.replace(head, head=max(head.head, after))
    for place in opened.places.get(cabinet, ()):
        if place.last <= head.head or any(e.first <= place.first and place.last <= e.last for e in head.apart):
            continue
        untouched = place.first > head.head and place.earliest_expiry > now
        if untouched and not any(entry.first <= place.first <= entry.last for entry in head.apart):
            return place.first
        records = read_records(core.store, place.stored, place.row, place.row + place.count)
        numbers = records["place"].astype(np.int64) + place.stored.base
        found = first_waiting(head, numbers, records["expires_at"], now)
        if found is not None:
            return found
    return None


def known(core: Core, opened: Opened) -> bool:
    """Whether any message of the recipient is within its retention."""
    for cabinet, places in opened.places.items():
        head = opened.head(cabinet)
        if not head.forgotten and not head.apart and places:
            return True
        if any(stored_mask(head, chunk.numbers).any() for chunk in chunks(core, places)):
            return True
    return False


def chunks(core: Core, places: Sequence[DrawerPlace], *, after: int = 0, last: int = 2**63 - 1) -> Iterator[Chunk]:
    """The rows of a cabinet's drawers that reach into the numbers after `after` up to `last`. Adjacent drawers are read as one."""
    wanted = [place for place in places if place.last > after and place.first <= last]
    index = 0
    while index < len(wanted):
        begin = wanted[index]
        end = begin.row + begin.count
        index += 1
        while index < len(wanted) and _continues(begin, end, wanted[index]):
            end += wanted[index].count
            index += 1
        yield Chunk.of(begin.stored, begin.row, read_records(core.store, begin.stored, begin.row, end))


def _continues(begin: DrawerPlace, end: int, place: DrawerPlace) -> bool:
    return place.stored is begin.stored and place.row == end and end + place.count - begin.row <= _ROWS_AT_ONCE


@dataclass(slots=True)
class KeptAside:
    """The subjects that keep messages aside, registered by their counting functions."""

    counters: list[Callable[[MailboxAddress], int]] = field(default_factory=list)
    """Functions from a mailbox to the number of messages that a subject keeps aside for it."""


def count_aside(core: Core, address: MailboxAddress) -> int:
    return sum(count(address) for count in core.memory(KeptAside).counters)
