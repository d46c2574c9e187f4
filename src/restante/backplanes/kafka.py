"""A topic of Kafka as a backplane: a topic partition for each partition of the hub.

Records are produced with `acks=all` and by an idempotent producer, to the partition that the door names. Partitions are
assigned by hand: no consumer group decides who reads them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from restante.backplanes.kafka_library import kafka_client, kafka_library, kafka_settings, unavailable
from restante.backplanes.kafka_topic import check_topic, topic_ends
from restante.errors import Overloaded, Unavailable
from restante.limits import BACKPLANE_FETCH_BYTES_MAX, BACKPLANE_FETCH_RECORDS, KIB
from restante.ports.backplane import Delivered, FetchedRecord, HearOutcome, LogEnds, Undelivered
from restante.settings import BackplaneSettings

_BYTES_BESIDE = 4 * KIB
"""The bytes that Kafka may add to a record."""
_POLL_SECONDS = 0.1
_PROBE_SECONDS = 1.0
_FLUSH_SECONDS = 5.0
_LARGE_BYTES = 128 * KIB
_LARGE_SECONDS = 0.01
"""After so many bytes it is worth waiting a moment for more: large records come one after the other, and to store them
together costs a fraction of storing each."""
_NEVER_TAKEN = (
    "MSG_SIZE_TOO_LARGE",
    "TOPIC_AUTHORIZATION_FAILED",
    "_PURGE_QUEUE",
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_TOPIC",
)
_log = logging.getLogger("restante.backplane")


class KafkaBackplane:
    """One topic, for the doors that produce and the owners that read."""

    def __init__(self, settings: BackplaneSettings) -> None:
        assert settings.topic is not None, "without a topic there is no backplane"
        self.name = settings.topic
        self.record_bytes_max = settings.record_bytes_max
        self._settings = settings
        self._library: Any = kafka_library()
        self._common = kafka_settings(settings.brokers, settings.kafka)
        self._lock = threading.Lock()
        self._away: str | None = None
        self._fatal = False
        self._closing = threading.Event()
        self._producer = self._new_producer()
        self._thread = threading.Thread(target=self._serve_reports, name="restante-backplane-reports", daemon=True)
        self._thread.start()

    def _new_producer(self) -> Any:  # noqa: ANN401 - of an untyped library
        own = {
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": round(self._settings.delivery_seconds * 1_000),
            "message.max.bytes": self.record_bytes_max + _BYTES_BESIDE,
            "error_cb": self._hear,
        }
        return kafka_client(self._library.Producer, {"linger.ms": 1, **self._common, **own})

    def check(self, partition_count: int) -> None:
        check_topic(self._settings, self._common, partition_count)

    def produce(self, partition: int, content: bytes, report: HearOutcome) -> None:
        if self._away is not None:
            raise _not_now(self._away)
        try:
            with self._lock:
                self._producer.produce(
                    self.name, content, partition=partition, on_delivery=partial(self._reported, report)
                )
        except BufferError as error:
            raise Overloaded("More records wait for Kafka than there is room for.", retry_after=1) from error
        except self._library.KafkaException as error:
            self._fatal = self._fatal or error.args[0].fatal()
            raise unavailable(error) from error

    def reader(self, starts: Mapping[int, int]) -> KafkaReader:
        return KafkaReader(self._library, self._common, self.name, starts)

    def ends(self, partitions: Sequence[int]) -> dict[int, LogEnds]:
        return topic_ends(self._common, self.name, partitions)

    def failure(self) -> str | None:
        return self._away

    def close(self) -> None:
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self._give_up(self._producer)

    def _give_up(self, producer: Any) -> None:  # noqa: ANN401 - of an untyped library
        """Report what is under way: as delivered, if that comes soon, else as not known."""
        if producer.flush(0.0 if self._away or self._fatal else _FLUSH_SECONDS):
            producer.purge()
            producer.flush(_FLUSH_SECONDS)

    def _serve_reports(self) -> None:
        probe_at = 0.0
        while not self._closing.is_set():
            self._producer.poll(_POLL_SECONDS)
            if self._fatal:
                self._renew()
            if self._away is not None and time.monotonic() >= probe_at:
                self._probe()
                probe_at = time.monotonic() + _PROBE_SECONDS

    def _renew(self) -> None:
        """Make a new Kafka producer: after a fatal error the old one takes nothing more."""
        with self._lock:
            failed, self._producer = self._producer, self._new_producer()
        self._give_up(failed)
        self._fatal = False
        _log.warning("The Kafka producer failed for good, and was replaced.")

    def _probe(self) -> None:
        """While the brokers are away nothing is taken that could tell that they are back: so they are asked."""
        try:
            self._producer.list_topics(self.name, timeout=_PROBE_SECONDS)
        except self._library.KafkaException:
            return
        self._away = None
        _log.info("The brokers answer again.")

    def _hear(self, error: Any) -> None:  # noqa: ANN401 - of an untyped library
        if error.fatal():
            self._fatal = True
        if error.code() == self._library.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - so named there
            self._away = self._away or error.str()
        _log.warning("Kafka: %s", error.str())

    def _reported(self, report: HearOutcome, error: Any, message: Any) -> None:  # noqa: ANN401 - of an untyped library
        if error is None:
            report(Delivered(message.offset()))
        else:
            report(Undelivered(error.str(), error.name() not in _NEVER_TAKEN))


def _not_now(reason: str) -> Unavailable:
    return Unavailable(f"The backplane takes no messages at present: {reason}. Try again.", retry_after=1)


class KafkaReader:
    """A consumer whose partitions are assigned by hand."""

    def __init__(self, library: Any, common: dict[str, Any], topic: str, starts: Mapping[int, int]) -> None:  # noqa: ANN401
        self._library = library
        own = {
            "group.id": "restante-backplane",  # asked for, and used by nobody: no offset is committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        self._consumer = kafka_client(library.Consumer, {"fetch.queue.backoff.ms": 10, **common, **own})
        self._consumer.assign([library.TopicPartition(topic, partition, at) for partition, at in starts.items()])

    def take(self, records_max: int, seconds: float) -> Sequence[FetchedRecord]:
        """Wait for the first record, and take with it what has been fetched already."""
        first = self._consumer.poll(seconds)
        if first is None:
            return ()
        found, size = [first], len(first)
        while len(found) < records_max and size < BACKPLANE_FETCH_BYTES_MAX:
            more = self._consumer.consume(min(BACKPLANE_FETCH_RECORDS, records_max - len(found)), 0)
            if not more and size >= _LARGE_BYTES:
                one = self._consumer.poll(_LARGE_SECONDS)
                more = [] if one is None else [one]
            if not more:
                break
            found += more
            size += sum(map(len, more))
        return [self._record(message) for message in found if not self._is_passing(message)]

    def _record(self, message: Any) -> FetchedRecord:  # noqa: ANN401 - of an untyped library
        return FetchedRecord(message.partition(), message.offset(), message.value() or b"")

    def _is_passing(self, message: Any) -> bool:  # noqa: ANN401 - of an untyped library
        """Whether a polled message is no record, but an error that goes away by itself; other errors are raised."""
        error = message.error()
        if error is None:
            return False
        if error.fatal() or error.name() == "_AUTO_OFFSET_RESET":
            raise unavailable(self._library.KafkaException(error))
        _log.warning("Kafka: %s", error.str())
        return True

    def close(self) -> None:
        self._consumer.close()
