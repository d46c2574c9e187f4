"""The doctor on what publishing keeps: the states of producers and sources, and delayed messages."""

from __future__ import annotations

from collections.abc import Iterator

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.model.access.access import OWNER_BYTES
from restante.model.columns.hashing import text_hash
from restante.model.producers.producer import AcceptedRange, ProducerRow, following, key_owner
from restante.model.publishing.delay import DueKey, decode_delayed, delayed_key
from restante.model.sources.source import NO_POSITION, decode_source, key_source
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number

_DIGEST_BYTES = 16


def examine_producers(case: Case) -> None:
    def producer(key: bytes, value: bytes) -> None:
        row = packed_decoder(ProducerRow).decode(value)
        if len(key_owner(key)) not in (0, OWNER_BYTES) or key_number(key) > limits.PRODUCER_GROUP_MAX:
            raise DataDamaged("Its key is no producer group.")
        for fault in _faults(row, case.counters.visible):
            raise DataDamaged(fault)

    examine_entries(case, Space.PRODUCER, "producer", producer)


def examine_sources(case: Case) -> None:
    def source(key: bytes, value: bytes) -> None:
        key_source(key)
        row = decode_source(value)
        if (
            not NO_POSITION <= row.position <= limits.SOURCE_POSITION_MAX
            or not 0 <= row.messages <= case.counters.visible
        ):
            raise DataDamaged(f"Its position {row.position}, after {row.messages} messages, makes no sense.")

    examine_entries(case, Space.SOURCE, "source", source)


def _faults(row: ProducerRow, visible: int) -> Iterator[str]:
    if not 0 <= row.owner_level <= limits.OWNER_LEVEL_MAX:
        yield f"Its owner level cannot be {row.owner_level}."
    if row.last is not None and not 0 <= row.last <= limits.PUBLISHED_SEQUENCE_MAX:
        yield f"Its last number cannot be {row.last}."
    if row.range is not None:
        yield from _range_faults(row.range, row.last, visible)


def _range_faults(last: AcceptedRange, number: int | None, visible: int) -> Iterator[str]:
    if last.count < 1 or following(last.first, last.count - 1) != number:
        yield f"Its last range has {last.count} numbers from {last.first} on, which do not end at {number}."
    if not 0 <= last.accepted <= last.count or any(len(digest) != _DIGEST_BYTES for digest in last.digests):
        yield f"Its last range makes no sense: {last.accepted} of {last.count} were accepted."
    span = last.last_sequence_number - last.first_sequence_number + 1
    if last.accepted and (span != last.accepted or not 1 <= last.last_sequence_number <= visible):
        yield (
            f"{last.accepted} messages of its last range cannot be the numbers {last.first_sequence_number} to "
            f"{last.last_sequence_number}; {visible} is the visible sequence."
        )


def examine_delayed(case: Case) -> None:
    due = dict[bytes, int]()

    def by_time(key: bytes, _: bytes) -> None:
        entry = DueKey.of(key)
        due[entry.key] = entry.due

    def message(key: bytes, value: bytes) -> None:
        row = decode_delayed(value)
        if key != delayed_key(text_hash(row.recipient, case.deed.key), row.recipient, row.id):
            raise DataDamaged("It lies under the key of another message.")
        if due.pop(key, None) != row.due:
            raise DataDamaged("It is not found by its time, and would never be published.")

    examine_entries(case, Space.DELAYED_DUE, "time of a delayed message", by_time)
    examine_entries(case, Space.DELAYED, "delayed message", message)
    for _ in due:
        case.note("time of a delayed message", "It names a message that is not there.")
