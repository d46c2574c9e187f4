"""A door with a backplane: it hands publishes in itself, so it takes them also while their shard is being replaced.

A publish that waits until its messages are stored gets its answer from their shard: when Kafka has confirmed a record, the
door asks the shard about that place of the log. A shard that is away is asked again when it is back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from typing import NamedTuple

from restante.calls.backplane import AwaitRecords, ReadBackplane, ReadFitness
from restante.calls.publishing import Publish
from restante.cluster.shard_lines import ShardLines
from restante.errors import RestanteError, Unavailable
from restante.hub.backplane.doorway import Doorway, RecordParcel
from restante.hub.backplane.parcels import NotForBackplane, RecordCut, column_parcels, letter_parcels
from restante.hub.backplane.publish_checks import NOT_LOOKED_AT, goes_through, refuse_delayed, takes_nothing
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.backplane.accept import Accept
from restante.model.backplane.backplane_answers import BackplaneStatus, RecordOutcome
from restante.model.mailboxes.answers import LogPosition, Receipt
from restante.model.publishing.few_or_many import Few
from restante.model.sources.source import refuse_positions
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partition_of
from restante.ports.backplane import Backplane
from restante.server.doors.publish_parts import PublishCut
from restante.settings import Settings
from restante.wire.problems import error_of

_log = logging.getLogger("restante.backplane")
_ASK_SECONDS = 2.0
"""How long a shard is waited for at a time."""
_AGAIN_SECONDS = 0.2
_LOOK_SECONDS = 0.5
_FITNESS_SECONDS = 2.0
_FIRST_LOOK_SECONDS = 3.0


class AskedRecord(NamedTuple):
    """A record that Kafka has, of a publish that waits until it is stored."""

    number: int
    place: LogPosition


class DoorBackplane:
    """The backplane of one door. Used in its event loop."""

    def __init__(self, backplane: Backplane, lines: ShardLines, settings: Settings) -> None:
        seconds = settings.backplane.stored_seconds
        self.doorway = Doorway(backplane, os.urandom(16), seconds, self._delivered)
        self._backplane = backplane
        self._lines = lines
        count, bytes_max = lines.partition_count, backplane.record_bytes_max
        self._cut = RecordCut(count, bytes_max, lambda name: partition_of(name, count), os.urandom, _now)
        self._unfit: str | None = NOT_LOOKED_AT
        self._fitness: list[str | None] = [None] * len(lines.lines)
        """The reason of each shard why the log does not fit."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: dict[int, list[AskedRecord]] = {}
        """The records that each shard is to be asked for in this turn of the loop."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Return when publishes can be taken, or after a while: a Kafka that is away keeps nobody from the other routes."""
        self._loop = asyncio.get_running_loop()
        self._begin(self._look_after())
        self._begin(self._ask_fitness())
        await asyncio.wait((self._begin(self._look_at_log()),), timeout=_FIRST_LOOK_SECONDS)

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._backplane.close)
        self.doorway.give_up()

    async def publish(self, call: Publish, cut: PublishCut, caller: Grant) -> Receipt | None:
        """Publish through the backplane; None if the publish has to go straight to the shards."""
        if not goes_through(call, has_backplane=True):
            return None
        if self._reason is not None:
            raise takes_nothing(self._reason)
        loop = asyncio.get_running_loop()
        dispatch = self.doorway.dispatch(call.accept or Accept.STORED)
        future: asyncio.Future[CommitRequest[Receipt]] = loop.create_future()
        dispatch.waiter = future
        try:
            parcels = self._letters(call, cut, caller)
            if parcels is not None:
                self.doorway.send(dispatch, parcels)
            else:
                parcels = await loop.run_in_executor(None, self._columns, call, cut, caller)
                await loop.run_in_executor(None, self.doorway.send, dispatch, parcels)
        except NotForBackplane:
            if call.accept is Accept.ACCEPTED:
                raise
            return None
        return (await future).answer()

    @property
    def _reason(self) -> str | None:
        """Why nothing is taken, if that is so."""
        return self._unfit or next((own for own in self._fitness if own is not None), None)

    def publish_letters(self, letters: Sequence[Letter], listener: Listener[Receipt]) -> bool:
        """A few messages that are plainly right and the caller's to send; False if they have to go another way."""
        if self._reason is not None:
            return False
        try:
            parcels = letter_parcels(self._cut, letters)
        except NotForBackplane:
            return False
        dispatch = self.doorway.dispatch(Accept.STORED)
        dispatch.waiter = listener
        self.doorway.send(dispatch, parcels)
        return True

    def _letters(self, call: Publish, cut: PublishCut, caller: Grant) -> Sequence[RecordParcel] | None:
        """A few messages that are plainly right; None if the rules have to take a closer look."""
        if not isinstance(call.sent, Few) or call.partition is not None:
            return None
        letters = cut.plain_letters(call.sent, caller)
        return None if letters is None else letter_parcels(self._cut, letters)

    def _columns(self, call: Publish, cut: PublishCut, caller: Grant) -> Sequence[RecordParcel]:
        """Any messages, checked whole."""
        columns = cut.checked_columns(call.sent, caller)
        refuse_positions(columns)
        if call.partition is not None:
            cut.check_parcel(call, call.partition)
        refuse_delayed(columns, self._cut.clock())
        return list(column_parcels(self._cut, columns))

    def _delivered(self, number: int, place: LogPosition) -> None:
        """Have the loop gather a record that the log has taken. A thread of the backplane calls this."""
        assert self._loop is not None, "a door that publishes was started"
        try:
            self._loop.call_soon_threadsafe(self._gather, AskedRecord(number, place))
        except RuntimeError:
            return  # The loop has gone, and with it everybody who could have waited.

    def _gather(self, record: AskedRecord) -> None:
        """Gather the questions of one turn of the loop, which are asked together."""
        gathered = self._gathered.setdefault(self._lines.of_partition(record.place.partition), [])
        if not gathered:
            asyncio.get_running_loop().call_soon(self._ask_gathered)
        gathered.append(record)

    def _ask_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for shard, records in gathered.items():
            self._begin(self._ask(shard, records))

    async def _ask(self, shard: int, records: Sequence[AskedRecord]) -> None:
        """Ask the owner until it has told of all, or nobody waits for them any more."""
        while records:
            asked = tuple((place.partition, place.position, place.messages) for _, place in records)
            try:
                outcomes = await self._lines.lines[shard].call(AwaitRecords(asked, _ASK_SECONDS))
            except RestanteError as error:
                if not self._lines.goes_on(error) and not isinstance(error, Unavailable):
                    _log.error("Shard %d does not say what became of records: %s", shard, error.message)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                for record, outcome in zip(records, outcomes, strict=True):
                    self._tell(record, outcome)
            records = [record for record in records if self.doorway.is_waiting(record.number)]

    def _tell(self, record: AskedRecord, outcome: RecordOutcome) -> None:
        told = outcome.receipt or (None if outcome.problem is None else error_of(outcome.problem))
        if told is not None:
            self.doorway.told(self.doorway.door, record.number, told)

    async def _look_after(self) -> None:
        """Answer those who have waited long enough."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.doorway.give_up(time.monotonic())

    async def _look_at_log(self) -> None:
        """Until the log is seen to fit, nothing is taken."""
        while self._unfit is not None:
            try:
                await self.look()
            except RestanteError as error:
                self._take_nothing(error)
            if self._unfit is not None:
                await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Whether the log fits: `InvalidSettings` if not. If nobody says, it is asked again later."""
        loop, count = asyncio.get_running_loop(), self._lines.partition_count
        try:
            await loop.run_in_executor(None, self._backplane.check, count)
            self._unfit = None
        except Unavailable as error:
            self._take_nothing(error)

    def _take_nothing(self, error: RestanteError) -> None:
        if self._unfit != error.message:
            _log.warning("The backplane takes nothing yet: %s", error.message)
        self._unfit = error.message

    async def _ask_fitness(self) -> None:
        """A shard knows more: whether the log is still the one that it has stored. One that is away said so last."""
        while True:
            for shard, line in enumerate(self._lines.lines):
                try:
                    self._fitness[shard] = await line.call(ReadFitness())
                except RestanteError:
                    continue
            await asyncio.sleep(_FITNESS_SECONDS)


def _now() -> int:
    return time.time_ns() // 1_000


async def read_backplane(lines: ShardLines, call: ReadBackplane, caller: Grant) -> BackplaneStatus:
    """The answers of all shards, as one."""
    found = await lines.all(call, caller)
    totals = {name: sum(getattr(own, name) for own in found) for name in _SUMMED}
    return BackplaneStatus(
        topic=found[0].topic,
        failure=next((own.failure for own in found if own.failure is not None), None),
        partitions=tuple(sorted([own for one in found for own in one.partitions], key=lambda own: own.partition)),
        **totals,
    )


_SUMMED = ("waiting", "lost", "records", "messages", "duplicates", "skipped", "refused", "missed")
