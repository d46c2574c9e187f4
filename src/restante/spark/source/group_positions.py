"""A stream as the one member of a group: it begins where the group is, and writes there how far it has read.

A group is shared by members that each have some of its partitions. A stream reads all partitions of its options, so it takes
them all, or none: a group that other members work on is refused, and if one takes a partition over, the stream ends. So two
never write the positions of one group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from restante.calls.groups import DefineGroup, JoinGroup, LeaveGroup, ReadGroup, SendHeartbeat, WriteCheckpoint
from restante.errors import GenerationStale, InvalidOperation, MemberUnknown, RestanteError
from restante.model.groups.group_answers import Assigned, GroupStatus
from restante.spark.source.options import PartitionPositions, SourceReading

_log = logging.getLogger("restante.spark")


class GroupSeat:
    """The membership of one stream, in the process that plans it. A thread keeps its lease."""

    def __init__(self, reading: SourceReading, partitions: Iterable[int]) -> None:
        assert reading.group is not None, "a stream with a group"
        self._group = reading.group
        self._member = reading.reader
        self._filters = reading.filters
        self._partitions = frozenset(partitions)
        self._link = reading.place.link()
        self._heart = reading.place.link()
        self._generations: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._leaving = threading.Event()
        self._member_id, self._interval = self._join()
        threading.Thread(target=self._beat, name="restante-heartbeat", daemon=True).start()

    def positions(self) -> PartitionPositions:
        """Where the group is, in the partitions that are read."""
        return {partition: self._written[partition] for partition in sorted(self._partitions)}

    def write(self, positions: Mapping[int, int]) -> None:
        """Write the positions up to which all was read and kept. A position that the group has passed changes nothing."""
        for partition, position in positions.items():
            if position > self._written[partition]:
                self._checkpoint(partition, position)

    def leave(self) -> None:
        self._leaving.set()
        with suppress(RestanteError):
            self._link.call(LeaveGroup(self._group, self._member_id))
        self._link.close()
        self._heart.close()

    def _checkpoint(self, partition: int, position: int) -> None:
        try:
            self._put(partition, position)
        except GenerationStale:
            self._sit_down_again()
            self._put(partition, position)

    def _put(self, partition: int, position: int) -> None:
        generation = self._generations.get(partition)
        if generation is None:
            raise GenerationStale(f"Partition {partition} is to be given up.")
        call = WriteCheckpoint(self._group, partition, position, generation, release=False)
        self._written[partition] = self._link.call(call).position

    def _join(self) -> tuple[str, float]:
        """`InvalidOperation`, if others have some of the partitions, or the group does actions."""
        status = self._link.call(DefineGroup(self._group, self._filters.origins, self._filters.kinds))
        if status.actions:
            raise InvalidOperation(f"The group {self._group!r} does actions: its positions are those of its workers.")
        joined = self._link.call(JoinGroup(self._group, self._member))
        self._has(joined.partitions)
        if not self._partitions <= self._generations.keys():
            status = self._link.call(ReadGroup(self._group))
            with suppress(RestanteError):
                self._link.call(LeaveGroup(self._group, joined.member_id))
            raise self._shared(status, joined.member_id)
        self._written = {own.partition: own.position for own in joined.partitions}
        return joined.member_id, joined.heartbeat_seconds

    def _sit_down_again(self) -> None:
        """The lease has ended. If nobody has taken its place, the stream goes on."""
        status = self._link.call(ReadGroup(self._group))
        if any(own.member_id != self._member_id for own in status.members):
            raise self._shared(status, self._member_id)
        before = dict(self._written)
        self._member_id, self._interval = self._join()
        if any(self._written[partition] != before[partition] for partition in self._partitions):
            raise InvalidOperation(
                f"Somebody else than this stream has moved the group {self._group!r}. Start again, with a new checkpoint: then the "
                "stream begins where the group is."
            )
        _log.warning("The stream lost its lease in the group %s, and joined again.", self._group)

    def _shared(self, status: GroupStatus, own_id: str) -> InvalidOperation:
        others = sorted(own.member for own in status.members if own.member_id != own_id)
        return InvalidOperation(
            f"The group {self._group!r} has other members ({', '.join(others) or 'they have just left'}). A stream takes all "
            "partitions of its group: stop them, or name another group.",
            group=self._group,
        )

    def _has(self, assigned: Iterable[Assigned]) -> None:
        self._generations = {own.partition: own.generation for own in assigned}

    def _beat(self) -> None:
        while not self._leaving.wait(self._interval):
            try:
                self._has(self._heart.call(SendHeartbeat(self._group, self._member_id)).partitions)
            except MemberUnknown:
                continue  # The next checkpoint is refused, and the stream looks whether it may go on.
            except RestanteError as error:
                _log.warning("A heartbeat of the stream in the group %s failed: %s", self._group, error)
