"""The bridge in: topics into mailboxes, each record once.

Processes of one bridge are a consumer group of Kafka, which gives each of them topic partitions. One batch of a topic partition
is under way at a time, so its batches arrive in order; several topic partitions are under way side by side. The hub skips
records that it has stored, by source position. An offset is committed when all records before it are stored, and only says
where to begin again. So if a process crashes, or another reads the same partition, no record is lost or stored twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from restante.backplanes.kafka_library import (
    kafka_client,
    kafka_library,
    kafka_settings,
    partition_reach,
    topic_partitions,
    unavailable,
)
from restante.bridges.bridge_counts import BridgeCounts
from restante.bridges.in_messages import MappedRecords, RecordMapper
from restante.bridges.in_rules import REASON_CHARACTERS_MAX, UNREADABLE, InRule, RawRecord, check_rules
from restante.bridges.topic_records import GatheredRecords, TopicPlace, TopicRecords, by_place
from restante.client.surface.surface import Hub
from restante.errors import FaultyMessages, InvalidOperation, SourceUnknown, Unavailable
from restante.limits import MIB
from restante.model.mailboxes.answers import Receipt

_log = logging.getLogger("restante.bridges")
_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_GATHER_SECONDS = 0.02
"""How long more records are waited for once there is one."""
_CHUNK_RECORDS = 500
_ENOUGH_RECORDS = 25_000
"""The number of records of a topic partition that do not wait for more: the hub stores one in a third of the time that it takes among
a few thousand."""
_FIRST_RECORDS = 6_000
"""The number that is enough while the hub has nothing to do."""
_POURING_SECONDS = 1.0
"""How long so many are waited for, while there are always more."""
_GATHERED_BYTES = 64 * MIB
_BATCHES_UNDER_WAY = 2
"""Batches of a topic partition: one is stored while the next becomes columns."""
_READING = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
_PREFETCH = {
    # Few, so that records are still in the processor's cache when they are taken from the client's queue.
    "queued.min.messages": 20_000,
    # If enough is fetched already, the client would look again only after a second.
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True, kw_only=True)
class InOptions:
    """The task of a bridge in."""

    rules: tuple[InRule, ...]
    brokers: str
    group: str = "restante"
    """The consumer group of its processes."""
    prefix: str = ""
    """Before the names of its sources: for topics of the same name in several clusters."""
    kafka: dict[str, str] = field(default_factory=dict)
    """Further settings of the Kafka client."""
    batch: int = 100_000
    until_end: bool = False
    """Whether to end where the topics end."""

    def source(self, place: TopicPlace) -> str:
        return f"{self.prefix}{place[0]}/{place[1]}"


class BridgeIn:
    """One process of a bridge. `run` it in the thread that made it; `stop` may be called from anywhere."""

    def __init__(self, hub: Hub, options: InOptions) -> None:
        check_rules(options.rules)
        self.counts = BridgeCounts()
        self._hub = hub
        self._options = options
        self._library: Any = kafka_library()
        self._mappers = {rule.topic: RecordMapper(rule) for rule in options.rules}
        self._stopping = threading.Event()
        self._topic = options.rules[0].topic if len(options.rules) == 1 else None
        """If there is one alone."""
        self._gathered: dict[TopicPlace, GatheredRecords] = {}
        """The records of each topic partition that are to be stored next."""
        self._under_way: dict[TopicPlace, deque[Future[int]]] = {}
        """The batches of each topic partition that are under way, in order."""
        self._pouring = False
        """Whether there is more than is asked for at a time."""
        self._ended: set[TopicPlace] = set()
        """Topic partitions that are read to their ends."""
        self._failure: Exception | None = None
        self._consumer: Any = None
        self._letters: _DeadLetters | None = None

    def stop(self) -> None:
        self._stopping.set()

    def run(self, tick: Callable[[], object] = lambda: None) -> None:
        """Carry records over until it is stopped, or to the end; `tick` is called now and then."""
        library = self._library
        settings = kafka_settings(self._options.brokers, self._options.kafka)
        reading = {**_PREFETCH, **settings, **_READING, "group.id": self._options.group}
        self._consumer = kafka_client(library.Consumer, reading)
        if any(rule.dead_letter for rule in self._options.rules):
            self._letters = _DeadLetters(kafka_client(library.Producer, {**settings, "enable.idempotence": True}))
        try:
            if not self._topics_are_there():
                return
            self._consumer.subscribe(
                list(self._mappers), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            with ThreadPoolExecutor(8, "restante-bridge") as pool:
                self._carry(pool, tick)
        finally:
            self._consumer.close()

    def _topics_are_there(self) -> bool:
        """Wait for the brokers; `InvalidRequest` if a topic is missing. False: it was stopped meanwhile."""
        named = [*self._mappers, *(rule.dead_letter for rule in self._options.rules if rule.dead_letter)]
        while not self._stopping.is_set():
            try:
                for topic in named:
                    topic_partitions(self._consumer, topic)
            except Unavailable as error:
                _log.warning("%s It is tried again.", error.message)
                self._stopping.wait(_PAUSE_SECONDS)
            else:
                return True
        return False

    def _carry(self, pool: ThreadPoolExecutor, tick: Callable[[], object]) -> None:
        while not self._stopping.is_set():
            self._gather(self._polled())
            self._settle_done()
            self._submit_gathered(pool)
            tick()
            if self._options.until_end and not (self._under_way or self._gathered) and self._at_end():
                return
        for place in list(self._under_way):
            self._settle(place)

    def _polled(self) -> Sequence[Any]:
        """The next records as the client has them. A few at a time, which are in the processor's cache still when they are read."""
        room = self._room()
        if not room:
            return self._wait_for_room()
        try:
            polled: Sequence[Any] = self._consumer.consume(min(room, _CHUNK_RECORDS), 0)
            self._pouring = len(polled) == _CHUNK_RECORDS
            if not polled:
                polled = self._consumer.consume(1, _GATHER_SECONDS if self._gathered else _LOOK_SECONDS)
        except self._library.KafkaException as error:
            raise self._failure or unavailable(error) from error
        if self._failure is not None:
            raise self._failure
        return polled

    def _room(self) -> int:
        """How many more records may be gathered of any topic partition."""
        gathered = self._gathered.values()
        if sum(own.size for own in gathered) >= _GATHERED_BYTES:
            return 0
        return self._options.batch - max((own.count for own in gathered), default=0)

    def _wait_for_room(self) -> Sequence[Any]:
        """Wait until a batch is stored. Kafka's client keeps the records that come meanwhile."""
        wait([batches[0] for batches in self._under_way.values()], _LOOK_SECONDS, FIRST_COMPLETED)
        return ()

    def _gather(self, polled: Sequence[Any]) -> None:
        """Make columns of records, by topic partition, in order."""
        if not polled:
            return
        told: list[Any] = []
        if any(map(type(polled[0]).error, polled)):
            told = [message for message in polled if message.error() is not None]
            polled = [message for message in polled if message.error() is None]
        found = {place: TopicRecords.of_messages(own) for place, own in by_place(polled, self._topic).items()}
        self._ended -= found.keys()
        now = time.monotonic()
        for place, records in found.items():
            self._gathered.setdefault(place, GatheredRecords(now)).add(records)
        for message in told:
            self._hear(message, found)

    def _hear(self, message: Any, found: dict[TopicPlace, TopicRecords]) -> None:  # noqa: ANN401 - of an untyped library
        """Handle an event that the client gives instead of a record. An end is void if a record of its partition came after it."""
        error = message.error()
        if error.code() == self._library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named there
            place = message.topic(), message.partition()
            if place not in found or found[place].offsets[-1] < message.offset():
                self._ended.add(place)
        elif error.fatal():
            raise unavailable(self._library.KafkaException(error))
        else:
            _log.warning("Kafka: %s", error.str())

    def _submit_gathered(self, pool: ThreadPoolExecutor) -> None:
        """A batch begins to be stored when the one before it is; until then it becomes columns, and the next is gathered."""
        full, due = not self._room(), time.monotonic() - (_POURING_SECONDS if self._pouring else _GATHER_SECONDS)
        for place, gathered in list(self._gathered.items()):
            under_way = self._under_way.get(place, ())
            is_enough = full or gathered.count >= (_ENOUGH_RECORDS if self._under_way else _FIRST_RECORDS)
            is_due = is_enough or (gathered.since <= due and not under_way)
            if is_due and len(under_way) < _BATCHES_UNDER_WAY:
                before = under_way[-1] if under_way else None
                batch = pool.submit(self._store, place, self._gathered.pop(place), before)
                self._under_way.setdefault(place, deque()).append(batch)

    def _store(self, place: TopicPlace, gathered: GatheredRecords, before: Future[int] | None) -> int:
        """Store records of one topic partition, after those before; gives the offset after them."""
        mapper, records = self._mappers[place[0]], gathered.whole()
        mapped = mapper.mapped(records)
        if before is not None:
            before.result()
        while True:
            try:
                self._send(place, mapper, records, mapped)
                return int(records.offsets[-1]) + 1
            except Unavailable as error:
                if not error.retriable or self._stopping.is_set():
                    raise
                _log.warning("The hub does not answer: %s", error.message)
                self._stopping.wait(_PAUSE_SECONDS)

    def _send(self, place: TopicPlace, mapper: RecordMapper, records: TopicRecords, mapped: MappedRecords) -> None:
        source, refused = self._options.source(place), dict[int, str]()
        receipt: Receipt | None = None
        while receipt is None:
            sent, rows = self._with_poison(mapped, mapper, records, source, refused)
            if not rows:
                break
            try:
                receipt = self._hub.send(sent, source=source)
            except FaultyMessages as error:
                news = {rows[fault.index]: fault.detail for fault in error.faults}
                if not news.keys() - refused.keys():
                    raise
                refused |= news
                mapped = mapper.mapped(records, refused)
        if self._letters is not None and mapped.misfits:
            self._letters.send(mapper.rule, source, records, mapped.misfits)
        self.counts.add(
            records=len(records),
            stored=0 if receipt is None else receipt.accepted,
            skipped=0 if receipt is None else receipt.skipped,
            poisoned=len(mapped.misfits),
            tombstones=mapped.tombstones,
        )

    def _with_poison(
        self,
        mapped: MappedRecords,
        mapper: RecordMapper,
        records: TopicRecords,
        source: str,
        refused: dict[int, str],
    ) -> tuple[object, Sequence[int]]:
        """The messages to be sent with those that do not fit among them, in the order of the records; and the record of each."""
        if not mapped.misfits or mapper.rule.dead_letter is not None:
            return mapped.sent, mapped.rows
        assert isinstance(mapped.sent, list), "what does not fit is found one by one"
        messages = dict(zip(mapped.rows, mapped.sent, strict=True))
        for row, reason in mapped.misfits.items():
            # The hub may have refused a record because of its data: then it is kept without.
            messages[row] = mapper.poison(records[row], reason, source, with_data=row not in refused)
        rows = sorted(messages)
        return [messages[row] for row in rows], rows

    def _settle(self, place: TopicPlace, left: int = 0) -> None:
        """Wait until so many batches of a topic partition are under way, and commit the offset after the others."""
        under_way = self._under_way.get(place, deque())
        while len(under_way) > left:
            self._commit(place, under_way.popleft().result())
        if not under_way:
            self._under_way.pop(place, None)

    def _settle_done(self) -> None:
        for place, under_way in list(self._under_way.items()):
            self._settle(place, sum(not batch.done() for batch in under_way))

    def _commit(self, place: TopicPlace, offset: int, *, waiting: bool = False) -> None:
        """Commit the offsets. A commit that is lost does no harm: records that are read again are skipped."""
        at = self._library.TopicPartition(*place, offset)
        try:
            self._consumer.commit(offsets=[at], asynchronous=not waiting)
            self._measure(place, offset)
        except self._library.KafkaException as error:
            _log.warning("The offset of %s could not be committed: %s", self._options.source(place), error)

    def _measure(self, place: TopicPlace, offset: int) -> None:
        _, end = self._consumer.get_watermark_offsets(self._library.TopicPartition(*place), cached=True)
        if end >= 0:
            self.counts.lags[self._options.source(place)] = max(end - offset, 0)

    def _at_end(self) -> bool:
        """Whether all topic partitions of this process are stored up to their ends."""
        assigned = {(own.topic, own.partition) for own in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._ended

    def _assigned(self, _consumer: Any, places: Sequence[Any]) -> None:  # noqa: ANN401 - of an untyped library
        for own in places:
            # The partition is read again from its committed position.
            self._gathered.pop((own.topic, own.partition), None)
            try:
                self._wait_for_source((own.topic, own.partition), own)
            except (InvalidOperation, Unavailable) as error:
                self._failure = error

    def _wait_for_source(self, place: TopicPlace, own: Any) -> None:  # noqa: ANN401 - of an untyped library
        """Check a source, as soon as the hub answers."""
        while not self._stopping.is_set():
            try:
                self._check_source(place, own)
            except Unavailable as error:
                if not error.retriable:
                    raise
                _log.warning("The hub does not answer: %s It is tried again.", error.message)
                self._stopping.wait(_PAUSE_SECONDS)
            else:
                return

    def _check_source(self, place: TopicPlace, own: Any) -> None:  # noqa: ANN401 - of an untyped library
        """A topic that was made again begins at 0: all of it would be skipped."""
        source = self._options.source(place)
        try:
            known = self._hub.sources.get(source).position
        except SourceUnknown:
            return
        _, end = partition_reach(self._consumer, own)
        if known is not None and known >= end:
            raise InvalidOperation(
                f"The hub has stored the source {source!r} up to {known}, but the topic ends before {end}: it was deleted "
                "and made again, or is that of another cluster. Give its sources another --prefix, or let an operator "
                "delete the source."
            )

    def _revoked(self, _consumer: Any, places: Sequence[Any]) -> None:  # noqa: ANN401 - of an untyped library
        """Finish what is under way, so that the next process begins there."""
        for own in places:
            place = own.topic, own.partition
            self._gathered.pop(place, None)
            try:
                for batch in self._under_way.pop(place, ()):
                    self._commit(place, batch.result(), waiting=True)
            except Unavailable as error:
                self._failure = error
            self.counts.lags.pop(self._options.source(place), None)

    def _lost(self, _consumer: Any, places: Sequence[Any]) -> None:  # noqa: ANN401 - of an untyped library
        """Another process has them already: it begins at the committed offset, and skips what this one stores yet."""
        for own in places:
            place = own.topic, own.partition
            self._gathered.pop(place, None)
            self._under_way.pop(place, None)
            self.counts.lags.pop(self._options.source(place), None)


class _DeadLetters:
    """Records that do not fit, on their way to another topic."""

    def __init__(self, producer: Any) -> None:  # noqa: ANN401 - of an untyped library
        self._producer = producer
        self._lock = threading.Lock()

    def send(self, rule: InRule, source: str, records: TopicRecords, misfits: dict[int, str]) -> None:
        """Send records that do not fit to the other topic, which has all of them when this returns.

        A record that is too large with our headers goes without what it brought: otherwise it would block those after it.
        """
        letters = [_DeadLetter(records[row], reason, source) for row, reason in sorted(misfits.items())]
        with self._lock:
            too_large = self._produced(rule, letters, whole=True)
            if self._produced(rule, too_large, whole=False):
                raise Unavailable(f"The dead-letter topic {rule.dead_letter} takes no records as small as ours.")

    def _produced(self, rule: InRule, letters: Sequence[_DeadLetter], *, whole: bool) -> list[_DeadLetter]:
        """Send letters; gives those that are too large."""
        library: Any = kafka_library()
        failed: list[str] = []
        too_large: list[_DeadLetter] = []

        def hear(letter: _DeadLetter, error: Any, _message: Any = None) -> None:  # noqa: ANN401 - of an untyped library
            if error is not None and error.code() == library.KafkaError.MSG_SIZE_TOO_LARGE:
                too_large.append(letter)
            elif error is not None:
                failed.append(error.str())

        for letter in letters:
            try:
                self._producer.produce(rule.dead_letter, **letter.sent(whole=whole), on_delivery=partial(hear, letter))
            except library.KafkaException as error:
                hear(letter, error.args[0])
        self._producer.flush()
        if failed:
            raise Unavailable(f"The dead-letter topic {rule.dead_letter} does not take records: {failed[0]}.")
        return too_large


@dataclass(frozen=True, slots=True)
class _DeadLetter:
    """A record that does not fit, and why."""

    record: RawRecord
    reason: str
    source: str

    def sent(self, *, whole: bool) -> dict[str, Any]:
        """The record as it came, with our headers; or these alone."""
        told = {"reason": self.reason[:REASON_CHARACTERS_MAX], "source": self.source, "offset": str(self.record.offset)}
        ours = [(f"restante-{name}", text.encode(errors="replace")) for name, text in told.items()]
        if not whole:
            return {"headers": ours}
        own = () if self.record.headers == UNREADABLE else self.record.headers
        return {"value": self.record.value, "key": self.record.key, "headers": [*own, *ours]}
