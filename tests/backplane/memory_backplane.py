"""A backplane in the memory of this process, with the same promises as Kafka's."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from restante.errors import InvalidSettings, Unavailable
from restante.limits import BACKPLANE_RECORD_BYTES_DEFAULT
from restante.ports.backplane import Delivered, FetchedRecord, HearOutcome, LogEnds


class MemoryBackplane:
    """A backplane in memory that outlives the hubs that use it: closing is theirs, the records stay."""

    def __init__(self, partitions: int, *, record_bytes_max: int = BACKPLANE_RECORD_BYTES_DEFAULT) -> None:
        self.name = "memory"
        self.record_bytes_max = record_bytes_max
        self.away: str | None = None
        """Say why, and nothing is taken or read until it is None again."""
        self._logs: list[list[bytes]] = [[] for _ in range(partitions)]
        self._changed = threading.Condition()

    def check(self, partition_count: int) -> None:
        if partition_count != len(self._logs):
            raise InvalidSettings(f"The log has {len(self._logs)} partitions, and the hub {partition_count}.")

    def produce(self, partition: int, content: bytes, report: HearOutcome) -> None:
        with self._changed:
            self._require()
            self._logs[partition].append(content)
            position = len(self._logs[partition]) - 1
            self._changed.notify_all()
        report(Delivered(position))

    def reader(self, starts: Mapping[int, int]) -> MemoryReader:
        return MemoryReader(self, starts)

    def ends(self, partitions: Sequence[int]) -> dict[int, LogEnds]:
        with self._changed:
            self._require()
            return {number: LogEnds(0, len(self._logs[number])) for number in partitions}

    def failure(self) -> str | None:
        return self.away

    def close(self) -> None:
        """Others may still read it."""

    def taken(self, at: dict[int, int], records_max: int, seconds: float) -> list[FetchedRecord]:
        with self._changed:
            self._require()
            if not self._any(at):
                self._changed.wait(seconds)
            found: list[FetchedRecord] = []
            for partition, start in at.items():
                own = self._logs[partition][start : start + records_max - len(found)]
                found += [FetchedRecord(partition, start + place, content) for place, content in enumerate(own)]
            return found

    def _any(self, at: dict[int, int]) -> bool:
        return any(len(self._logs[partition]) > start for partition, start in at.items())

    def _require(self) -> None:
        if self.away is not None:
            raise Unavailable(f"The backplane does not answer: {self.away}.")


class MemoryReader:
    def __init__(self, backplane: MemoryBackplane, starts: Mapping[int, int]) -> None:
        self._backplane = backplane
        self._at = dict(starts)

    def take(self, records_max: int, seconds: float) -> Sequence[FetchedRecord]:
        found = self._backplane.taken(self._at, records_max, seconds)
        for record in found:
            self._at[record.partition] = record.position + 1
        return found

    def close(self) -> None:
        """Close nothing: nothing is held."""
