"""Transactional producers of a bridge out: one takes columns as they lie in memory, the other records with headers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from restante.backplanes.kafka_library import kafka_library
from restante.bridges.native_kafka import RECORD, native_library, native_producer, raise_code, require_none
from restante.bridges.out_records import OutRecords, bytes_column
from restante.model.columns.arrow import Column, nulls_of, offsets_of

_WAIT_SECONDS = 30.0
_WAIT_MS = round(_WAIT_SECONDS * 1_000)
_CHUNK_RECORDS = 10_000
_ROOM, _ROOM_DEFAULT = "queue.buffering.max.messages", 100_000
_COPIED = 2
"""The library copies what it is given: the columns may go as soon as it has taken them."""
_BY_KEY = -1
_FULL_MS = 50
_NOTHING = ctypes.create_string_buffer(1)
"""Where an empty text lies that is not null."""


class OutPlace(NamedTuple):
    """The offset of the group that goes into a transaction."""

    topic: str
    partition: int
    position: int


class OutGroup(NamedTuple):
    """The group whose offsets are positions, and a consumer that knows it."""

    name: str
    consumer: Any


class OutProducer(Protocol):
    """Raises `KafkaException`, whose error says whether the transaction is to be aborted."""

    def begin(self) -> None: ...

    def produce(self, topic: str, records: OutRecords) -> None:
        """Hand records in, in order, and never more than there is room for."""
        ...

    def commit(self, place: OutPlace) -> None: ...

    def abort(self) -> None: ...


def out_producer(settings: Mapping[str, Any], group: OutGroup, *, headers: bool) -> OutProducer:
    """A producer that has fenced those of the same id before it."""
    library = None if headers else native_library()
    if library is None:
        return PlainProducer(settings, group)
    return ColumnProducer(library, settings, group)


class PlainProducer:
    """The producer of the Python client, to which each record is an object."""

    def __init__(self, settings: Mapping[str, Any], group: OutGroup) -> None:
        self._library: Any = kafka_library()
        self._producer = self._library.Producer(dict(settings))
        self._group = group
        self._room = max(int(settings.get(_ROOM, _ROOM_DEFAULT)), _CHUNK_RECORDS)
        self._producer.init_transactions(_WAIT_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic: str, records: OutRecords) -> None:
        producer, headers = self._producer, records.headers
        for first in range(0, len(records.values), _CHUNK_RECORDS):
            chunk = slice(first, first + _CHUNK_RECORDS)
            while len(producer) + _CHUNK_RECORDS > self._room:
                producer.poll(0.05)
            pairs = zip(records.keys[chunk], records.values[chunk], strict=True)
            if headers is None:
                self._produce_batch(topic, [{"key": key, "value": value} for key, value in pairs])
            else:
                for (key, value), told in zip(pairs, headers[chunk], strict=True):
                    producer.produce(topic, key=key, value=value, headers=told)
            producer.poll(0)

    def _produce_batch(self, topic: str, batch: list[dict[str, Any]]) -> None:
        if self._producer.produce_batch(topic, batch) < len(batch):
            raise self._library.KafkaException(next(each["_error"] for each in batch if "_error" in each))

    def commit(self, place: OutPlace) -> None:
        at = self._library.TopicPartition(place.topic, place.partition, place.position)
        self._producer.send_offsets_to_transaction([at], self._group.consumer.consumer_group_metadata(), _WAIT_SECONDS)
        self._producer.commit_transaction(_WAIT_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(_WAIT_SECONDS)


class ColumnProducer:
    """The producer of the C library, which takes the places of keys and values: no Python value is made for a record."""

    def __init__(self, library: Any, settings: Mapping[str, Any], group: OutGroup) -> None:  # noqa: ANN401 - functions by name
        self._library = library
        self._group = group.name.encode()
        self._handle = native_producer(library, settings)
        self._topics: dict[str, int] = {}
        require_none(library, library.rd_kafka_init_transactions(self._handle, _WAIT_MS))

    def begin(self) -> None:
        require_none(self._library, self._library.rd_kafka_begin_transaction(self._handle))

    def produce(self, topic: str, records: OutRecords) -> None:
        assert records.headers is None, "headers go another way"
        keys, values = bytes_column(records.keys), bytes_column(records.values)
        messages = np.zeros(len(keys), RECORD)
        _place(messages, keys, "key", "key_len")
        _place(messages, values, "payload", "len")
        handle, first = self._topic(topic), 0
        while first < len(messages):
            chunk = messages[first : first + _CHUNK_RECORDS]
            self._library.rd_kafka_produce_batch(handle, _BY_KEY, _COPIED, chunk.ctypes.data, len(chunk))
            first += self._taken(chunk["err"])

    def _taken(self, errors: NDArray[np.int32]) -> int:
        """How many were taken. If there is no room for more, those after them are tried again, when there is."""
        failed = np.flatnonzero(errors)
        if not len(failed):
            return len(errors)
        full = kafka_library().KafkaError._QUEUE_FULL  # noqa: SLF001 - so named there
        others = errors[failed] != full
        if others.any():
            raise_code(int(errors[failed][others][0]))
        self._library.rd_kafka_poll(self._handle, _FULL_MS)
        return int(failed[0])

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = self._library.rd_kafka_topic_new(self._handle, name.encode(), None)
        return self._topics[name]

    def commit(self, place: OutPlace) -> None:
        library, topic = self._library, place.topic.encode()
        offsets = library.rd_kafka_topic_partition_list_new(1)
        group = library.rd_kafka_consumer_group_metadata_new(self._group)
        try:
            library.rd_kafka_topic_partition_list_add(offsets, topic, place.partition)
            library.rd_kafka_topic_partition_list_set_offset(offsets, topic, place.partition, place.position)
            sent = library.rd_kafka_send_offsets_to_transaction(self._handle, offsets, group, _WAIT_MS)
        finally:
            library.rd_kafka_topic_partition_list_destroy(offsets)
            library.rd_kafka_consumer_group_metadata_destroy(group)
        require_none(library, sent)
        require_none(library, library.rd_kafka_commit_transaction(self._handle, _WAIT_MS))

    def abort(self) -> None:
        require_none(self._library, self._library.rd_kafka_abort_transaction(self._handle, _WAIT_MS))

    def __del__(self) -> None:
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            for topic in self._topics.values():
                self._library.rd_kafka_topic_destroy(topic)
            self._library.rd_kafka_destroy(handle)


def _place(messages: NDArray[np.void], column: Column, start: str, length: str) -> None:
    """Where each row of a column lies; null where there is none."""
    content = column.buffers()[2]
    base = ctypes.addressof(_NOTHING) if content is None or not content.size else content.address
    ends = offsets_of(column).astype(np.int64)
    messages[start] = np.where(nulls_of(column), 0, base + ends[:-1])
    messages[length] = np.diff(ends)
