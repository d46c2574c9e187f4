"""The compacted form: a topic that holds what waits. A message is a record; when it is gone, a record without a value.

The key is `["RECIPIENT",NUMBER]` as JSON, with the number that the message has in its partition of the hub. Kafka removes
what a later record of the same key replaces (`cleanup.policy=compact`), so the topic stays as large as the mailboxes are.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.backplanes.kafka_library import kafka_client, kafka_library
from restante.bridges.out_encoders import Encode
from restante.bridges.out_records import OutRecords, text_bytes
from restante.decoders import json_decoder
from restante.model.columns.arrow import column_of, nulls_of, numbers_of, strings_of
from restante.model.columns.properties import joined, json_texts
from restante.model.feed.feed import PUBLISHED
from restante.model.storage.change import ChangeKind
from restante.wire.outgoing.json_columns import column

_GONE = tuple(kind.value for kind in (ChangeKind.COLLECTED, ChangeKind.EXPIRED, ChangeKind.WITHDRAWN))
_LOOK_SECONDS = 1.0
_READ_AT_ONCE = 10_000
ErasedUpTo = dict[str, int]
"""For each erased recipient the number up to which nothing of it is left."""


def compacted(encode: Encode) -> Encode:
    """Records of messages that begin to wait, and records without a value for those that no longer wait, in the feed's order."""

    def write(table: pa.Table) -> OutRecords:
        coming, going = _coming(table), _going(table)
        written = encode(table.filter(column_of(coming)))
        place = np.flatnonzero(coming)[written.rows]
        left = np.flatnonzero(going)
        keys = _keys(table, left, "message_sequence_number") + _keys(table, place, "sequence_number")
        # A message that was released to the end goes under its old number, then comes under its new one.
        order = np.argsort(np.concatenate((2 * left, 2 * place + 1)), kind="stable").tolist()
        nothing = [None] * len(left)
        values = [*nothing, *written.values]
        headers = None if written.headers is None else [*nothing, *written.headers]
        return OutRecords(
            keys=[keys[row] for row in order],
            values=[values[row] for row in order],
            rows=np.concatenate((left, place))[order],
            headers=None if headers is None else [headers[row] for row in order],
            misfits=written.misfits,
        )

    return write


def erasures_of(table: pa.Table) -> ErasedUpTo:
    """The recipients of a page that were erased."""
    erased = table.filter(column_of(_is(table, ChangeKind.ERASED.value)))
    found: ErasedUpTo = {}
    names = strings_of(column(erased, "recipient").cast(pa.string()))
    for name, number in zip(names, numbers_of(column(erased, "message_sequence_number")).tolist(), strict=True):
        found[name] = max(number, found.get(name, 0))
    return found


def without_erased(table: pa.Table, erasures: ErasedUpTo) -> pa.Table:
    """The changes of messages that are not erased."""
    if not erasures:
        return table
    names = column(table, "recipient").cast(pa.string()).to_pylist()
    numbers = column(table, "message_sequence_number").to_pylist()
    kept = [number is None or number > erasures.get(name, -1) for name, number in zip(names, numbers, strict=True)]
    return table.filter(pa.array(kept, pa.bool_()))


def erased_keys(settings: dict[str, Any], topic: str, erasures: ErasedUpTo) -> list[bytes]:
    """The keys of erased messages that the topic still has. It is read from its beginning, because erasures are rare.

    Uncommitted records count, too: a record without a value that is written once too often does no harm.
    """
    library: Any = kafka_library()
    own = {"group.id": f"restante.{topic}.erasing", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = kafka_client(library.Consumer, {**settings, **own, "isolation.level": "read_uncommitted"})
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([library.TopicPartition(topic, number, library.OFFSET_BEGINNING) for number in partitions])
        return _waiting_keys(consumer, len(partitions), erasures)
    finally:
        consumer.close()


def _waiting_keys(consumer: Any, partitions: int, erasures: ErasedUpTo) -> list[bytes]:  # noqa: ANN401 - untyped library
    found: dict[bytes, bool] = {}
    ended: set[int] = set()
    library: Any = kafka_library()
    while len(ended) < partitions:
        for message in consumer.consume(_READ_AT_ONCE, _LOOK_SECONDS):
            error = message.error()
            if error is not None:
                if error.code() != library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named there
                    raise library.KafkaException(error)
                # The end of a partition may be reported twice, because others write meanwhile.
                ended.add(message.partition())
            elif _is_erased(message.key(), erasures):
                found[message.key()] = message.value() is not None
    return [key for key, waits in found.items() if waits]


def _is_erased(key: bytes | None, erasures: ErasedUpTo) -> bool:
    try:
        recipient, number = json_decoder(tuple[str, int]).decode(key or b"")
    except msgspec.MsgspecError:
        return False  # not written by a bridge
    return number <= erasures.get(recipient, -1)


def _is(table: pa.Table, *changes: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = numbers_of(
        pc.is_in(column(table, "change").cast(pa.string()), value_set=pa.array(changes))
    )
    return found


def _coming(table: pa.Table) -> NDArray[np.bool_]:
    return _is(table, PUBLISHED) | _moved(table)


def _going(table: pa.Table) -> NDArray[np.bool_]:
    return _is(table, *_GONE) | _moved(table)


def _moved(table: pa.Table) -> NDArray[np.bool_]:
    """Released to the end: such a change has all fields of the message."""
    return _is(table, ChangeKind.RELEASED.value) & ~nulls_of(column(table, "weight"))


def _keys(table: pa.Table, rows: NDArray[np.int64], name: str) -> list[bytes]:
    some = table.select(["recipient", name]).take(column_of(rows))
    names, numbers = column(some, "recipient").cast(pa.string()), column(some, name).cast(pa.string())
    return list(text_bytes(joined("[", json_texts(names), ",", numbers, "]", "")))
