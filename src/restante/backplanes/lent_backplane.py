"""A backplane that several hubs of one process use: each reads with a reader of its own, and all hand in by one producer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from restante.ports.backplane import Backplane, BackplaneReader, HearOutcome, LogEnds


class LentBackplane:
    """A backplane lent to one hub. Only the lender closes it."""

    def __init__(self, lender: Backplane) -> None:
        self._lender = lender
        self.name = lender.name
        self.record_bytes_max = lender.record_bytes_max

    def check(self, partition_count: int) -> None:
        self._lender.check(partition_count)

    def produce(self, partition: int, content: bytes, report: HearOutcome) -> None:
        self._lender.produce(partition, content, report)

    def reader(self, starts: Mapping[int, int]) -> BackplaneReader:
        return self._lender.reader(starts)

    def ends(self, partitions: Sequence[int]) -> dict[int, LogEnds]:
        return self._lender.ends(partitions)

    def failure(self) -> str | None:
        return self._lender.failure()

    def close(self) -> None:
        """Others use it still."""
