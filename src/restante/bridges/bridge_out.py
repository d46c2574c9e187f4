"""The bridge out: the feed into a topic, each change once.

Processes of one bridge are members of a group of the hub, which gives each of them partitions. Each partition of the hub
has a transactional producer of its own: a page goes into the topic in one transaction, and the position of the feed goes with it, as
the offset of that partition in a topic of positions. A process that takes a partition over begins a producer of the same
transactional id, which fences the one before, and only then reads the position. So a page is in the topic once, for readers
of what is committed (`isolation.level=read_committed`), whatever crashes between the topic and the hub.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restante.backplanes.kafka_library import (
    kafka_client,
    kafka_library,
    kafka_settings,
    topic_partitions,
    unavailable,
)
from restante.bridges.bridge_counts import BridgeCounts
from restante.bridges.out_choices import OutChanges, OutForm
from restante.bridges.out_compacted import compacted, erased_keys, erasures_of, without_erased
from restante.bridges.out_encoders import chosen_rows, encoder
from restante.bridges.out_producers import OutGroup, OutPlace, OutProducer, out_producer
from restante.bridges.out_records import OutRecords
from restante.client.surface.surface import Group, Hub, SharedPage
from restante.errors import InvalidOperation, RestanteError
from restante.model.back_off import back_off

_log = logging.getLogger("restante.bridges")
_WAIT_SECONDS = 30.0
_PAGE_CHANGES = 50_000
"""The most changes of a transaction: beginning and committing one takes some milliseconds, however few it has."""
_QUEUE_RECORDS = 400_000
_LOOK_SECONDS = 0.2
_TRIES_MAX = 10
_NOWHERE = 0


@dataclass(frozen=True, kw_only=True)
class OutOptions:
    """The task of a bridge out."""

    topic: str
    brokers: str
    group: str = "bridge"
    """The group of the hub that its processes are members of."""
    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    form: OutForm = OutForm.JSON
    schema: Path | None = None
    changes: OutChanges = OutChanges.PUBLISHED
    compacted: bool = False
    """Write what waits, and what waits no more as records without a value; `changes` has no say then."""
    skip_misfits: bool = False
    kafka: dict[str, str] = field(default_factory=dict)
    member: str | None = None
    partitions_at_once: int = 4
    until_end: bool = False
    """Whether to end where the feed ends."""

    @property
    def positions(self) -> str:
        """The topic whose partitions stand for those of the hub."""
        return f"{self.topic}.positions"

    @property
    def offsets_group(self) -> str:
        """The group of Kafka whose offsets the positions are."""
        return f"restante.{self.group}.{self.topic}"


@dataclass(slots=True)
class _OutLine:
    """The producer of one partition of the hub, under one generation."""

    generation: int
    producer: OutProducer
    position: int
    """The number up to which all changes are in the topic."""


class BridgeOut:
    """One process of a bridge. `stop` may be called from anywhere."""

    def __init__(self, hub: Hub, options: OutOptions) -> None:
        self.counts = BridgeCounts()
        self._hub = hub
        self._options = options
        self._library: Any = kafka_library()
        self._settings = kafka_settings(options.brokers, options.kafka)
        encode = encoder(options.form, options.schema, skip_misfits=options.skip_misfits)
        self._encode = compacted(encode) if options.compacted else encode
        self._lines: dict[int, _OutLine] = {}
        self._offsets: Any = None
        self._ending = threading.Event()
        """Set when the bridge is to end: it was stopped, or has come to the end."""
        self._over = threading.Event()
        """Set when the group has ended, and with it this process's share of the bridge."""
        self._group: Group | None = None

    def stop(self) -> None:
        self._ending.set()
        if self._group is not None:
            self._group.close()

    def run(self, tick: Callable[[], object] = lambda: None) -> None:
        """Carry changes over until it is stopped, or to the end; `tick` is called after each page."""
        options = self._options
        self._offsets = kafka_client(
            self._library.Consumer,
            {
                **self._settings,
                "group.id": options.offsets_group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            },
        )
        try:
            topic_partitions(self._offsets, options.topic)
            self._make_positions()
            self._carry(tick)
        finally:
            self._offsets.close()

    def _carry(self, tick: Callable[[], object]) -> None:
        options = self._options
        self._group = group = self._hub.group(
            options.group, origins=options.origins, kinds=options.kinds, member=options.member, limit=_PAGE_CHANGES
        )
        with group:
            watcher = threading.Thread(target=self._watch, args=(group,), name="restante-bridge-watch")
            watcher.start()
            try:
                group.run(lambda page: self._page(page, tick), partitions_at_once=options.partitions_at_once)
            finally:
                self._ending.set()
                self._over.set()
                watcher.join()

    def _watch(self, group: Group) -> None:
        """See how far the group is; with `until_end`, end when it is done with all.

        The group is closed again until it has ended: a stop may come before this process is a member.
        """
        while not self._over.wait(_LOOK_SECONDS):
            if self._ending.is_set():
                group.close()
                continue
            try:
                status = group.status()
            except RestanteError as error:
                # Whatever keeps the bridge from going on, the member meets it too.
                _log.debug("The group did not say how far it is: %s", error.message)
                continue
            self.counts.lags = {f"partition {own.partition}": own.lag for own in status.partitions}
            if self._options.until_end and status.members and status.lag == 0:
                self.stop()

    def _page(self, page: SharedPage, tick: Callable[[], object]) -> None:
        records = self._carried(page)
        if records is None:
            page.left()
            return
        done = len(records.values)
        self.counts.add(records=done + records.misfits, stored=done, poisoned=records.misfits)
        tick()

    def _carried(self, page: SharedPage) -> OutRecords | None:
        """The records of a page, which are in the topic; None if the partition is another process's meanwhile."""
        for attempt in range(_TRIES_MAX):
            try:
                line = self._line(page)
                records = self._records(page, line.position)
                self._commit(line, page, records)
                return records
            except self._library.KafkaException as error:
                self._lines.pop(page.partition, None)
                if not self._is_ours(page):
                    _log.warning("Partition %d went to another process.", page.partition)
                    return None
                if attempt == _TRIES_MAX - 1 or self._ending.is_set():
                    raise unavailable(error) from error
                _log.warning("Kafka: %s; the page is tried again.", error)
                self._ending.wait(back_off(attempt + 1, first=0.1, longest=5))
        raise AssertionError("the last attempt returns or raises")

    def _records(self, page: SharedPage, after: int) -> OutRecords:
        """The records that a page becomes. Those that a compacted topic has of erased messages are replaced first."""
        if not self._options.compacted:
            return self._encode(chosen_rows(page.table, after, self._options.changes))
        table = chosen_rows(page.table, after, OutChanges.ALL)
        erasures = erasures_of(table)
        records = self._encode(without_erased(table, erasures))
        if not erasures:
            return records
        return records.after(erased_keys(self._settings, self._options.topic, erasures))

    def _is_ours(self, page: SharedPage) -> bool:
        """Whether the hub still gives the partition to this process: a stale one may have fenced it off all the same."""
        assert self._group is not None
        found = [own.generation for own in self._group.status().partitions if own.partition == page.partition]
        return found == [page.generation]

    def _line(self, page: SharedPage) -> _OutLine:
        """The producer of a partition; under a new generation a new one, which fences those before it."""
        line = self._lines.get(page.partition)
        if line is not None and line.generation == page.generation:
            return line
        settings = {
            "queue.buffering.max.messages": _QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 1_048_576,
            "linger.ms": 50,  # committing waits for nothing
            # Changes of a page are much alike, and the broker has a good half less to do.
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            **self._settings,
            "enable.idempotence": True,
            "transactional.id": f"restante.{self._options.group}.{self._options.topic}.{page.partition}",
        }
        group = OutGroup(self._options.offsets_group, self._offsets)
        producer = out_producer(settings, group, headers=self._options.form is not OutForm.JSON)
        self._lines[page.partition] = _OutLine(page.generation, producer, self._position(page.partition))
        return self._lines[page.partition]

    def _position(self, partition: int) -> int:
        """How far the partition is in the topic. Changes up to the group's own checkpoint are not handed out again anyway."""
        at = self._library.TopicPartition(self._options.positions, partition)
        (found,) = self._offsets.committed([at], timeout=_WAIT_SECONDS)
        if found.error is not None:
            raise self._library.KafkaException(found.error)
        return max(int(found.offset), _NOWHERE)

    def _commit(self, line: _OutLine, page: SharedPage, records: OutRecords) -> None:
        """The records of a page and its position, in one transaction."""
        if not records.values:
            return
        try:
            line.producer.begin()
            line.producer.produce(self._options.topic, records)
            line.producer.commit(OutPlace(self._options.positions, page.partition, page.position))
        except self._library.KafkaException as error:
            if error.args[0].txn_requires_abort():
                line.producer.abort()
            raise
        line.position = page.position

    def _make_positions(self) -> None:
        """The topic of positions, made if it is not there. It stays empty: only the offsets of its partitions are used."""
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415 - an extra

        count, name = len(self._hub.partitions()), self._options.positions
        found = self._offsets.list_topics(timeout=_WAIT_SECONDS).topics.get(name)
        if found is None:
            admin = kafka_client(AdminClient, self._settings)
            try:
                admin.create_topics([NewTopic(name, count, -1)], operation_timeout=_WAIT_SECONDS)[name].result(
                    _WAIT_SECONDS
                )
            except self._library.KafkaException as error:
                if error.args[0].code() != self._library.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise unavailable(error) from error
        elif len(found.partitions) < count:
            raise InvalidOperation(
                f"The topic {name} has {len(found.partitions)} partitions, and the hub {count}: it needs as many. Add them "
                "(kafka-topics --alter --partitions)."
            )
