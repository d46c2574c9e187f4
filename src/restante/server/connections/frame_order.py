"""The order of frames of the pipelined link: what each has to wait for, so that they are stored in the order sent.

A commit may put numbered frames of a producer group off that wait behind another of theirs. So frames of the same group
may follow each other without a pause; but another one could overtake those that wait. It goes into the queue when they
are stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from restante.model.producers.producer import ProducerNumbers

Publishing = asyncio.Task[None]


@dataclass(slots=True)
class _Lane:
    """The numbered frames under way in one partition: all are of one group."""

    group: int
    tasks: set[Publishing] = field(default_factory=set)


class FrameOrder:
    """The numbered frames of one connection that are under way."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}

    def ahead(self, partition: int | None, producer: ProducerNumbers | None) -> list[Publishing]:
        """The frames that the next frame must not overtake."""
        if not self._lanes:
            return []
        if partition is None:
            return [task for lane in self._lanes.values() for task in lane.tasks]
        lane = self._lanes.get(partition)
        if lane is None or (producer is not None and producer.group == lane.group):
            return []
        return list(lane.tasks)

    def add(self, task: Publishing, partition: int, producer: ProducerNumbers) -> None:
        """A numbered frame went into the queue, behind all that it must not overtake."""
        lane = self._lanes.get(partition)
        if lane is None or lane.group != producer.group:
            lane = self._lanes[partition] = _Lane(producer.group)
        lane.tasks.add(task)
        task.add_done_callback(lambda done: self._remove(done, partition, lane))

    def _remove(self, task: Publishing, partition: int, lane: _Lane) -> None:
        lane.tasks.discard(task)
        if not lane.tasks and self._lanes.get(partition) is lane:
            del self._lanes[partition]
