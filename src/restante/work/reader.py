"""Reading for a worker: one question over all its partitions that have room, which waits at the hub until there is more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from restante.calls.groups import ReadNext
from restante.client.transport.link import AsyncLink
from restante.errors import GenerationStale, GroupUnknown, MemberUnknown, RestanteError, Unavailable
from restante.limits import GROUP_PARTITIONS_AT_ONCE_MAX, WAIT_SECONDS_MAX
from restante.model.back_off import back_off
from restante.model.groups.group_answers import NextAnswer, ReadAfter
from restante.model.work.core import ReadOn, WorkCore
from restante.work.action_pages import action_page, few_page
from restante.work.lease import WorkSaid

PAGE_ACTIONS_MAX = 2_000
_ROOM_LEAST = 500
"""A partition that has read far ahead is read on when it has room for so many: not one action at a time."""
_GATHER_SECONDS = 0.002
"""The pause before the next question after an answer with little in it, so that actions that come meanwhile share one answer."""
_GATHER_ACTIONS = 100
"""An answer with so many is much."""
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 2.0
_log = logging.getLogger("restante.work")


class ReadsFor(Protocol):
    """The member for which `WorkReader` reads."""

    @property
    def member_id(self) -> str | None: ...
    def beat_now(self) -> None: ...


class WorkReader:
    """Reads pages into the core of a worker, one question at a time."""

    def __init__(
        self,
        group: str,
        core: WorkCore,
        link: AsyncLink,
        *,
        lease: ReadsFor,
        may_read: Callable[[int, int], bool],
        said: Callable[[], WorkSaid],
        wake: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._group = group
        self._core = core
        self._link = link
        self._lease = lease
        self._may_read = may_read
        self._said = said
        self._wake = wake
        self._monotonic = monotonic
        self._changed = asyncio.Event()
        self._asking: asyncio.Task[NextAnswer] | None = None
        self._asked: frozenset[tuple[int, int]] = frozenset()
        self._served: dict[int, int] = {}
        """When each partition was served last: the one that has waited longest comes first, because an answer has limited room."""
        self._turn = 0
        self._failures = 0

    def look(self) -> None:
        """Look once more: there may be more to read, or other partitions: a question that waits without them is put again."""
        self._changed.set()
        if self._asking is not None and not {(own.partition, own.generation) for own in self._reads()} <= self._asked:
            self._asking.cancel()

    async def run(self) -> None:
        """Read until it is cancelled."""
        while True:
            self._changed.clear()
            reads, member_id = self._reads(), self._lease.member_id
            if not reads or member_id is None:
                await self._changed.wait()
                continue
            answer = await self._answer(member_id, reads)
            if answer is not None and self._took(answer) < _GATHER_ACTIONS:
                await asyncio.sleep(_GATHER_SECONDS)

    def _reads(self) -> list[ReadOn]:
        least = min(_ROOM_LEAST, self._core.read_ahead)
        reads = [own for own in self._core.reads() if own.limit >= least]
        reads = [own for own in reads if self._may_read(own.partition, own.generation)]
        reads.sort(key=lambda own: self._served.get(own.partition, 0))
        return reads[:GROUP_PARTITIONS_AT_ONCE_MAX]

    async def _answer(self, member_id: str, reads: Sequence[ReadOn]) -> NextAnswer | None:
        try:
            answer = await self._ask(member_id, reads)
        except GenerationStale as error:
            self._stale(error)
        except (MemberUnknown, GroupUnknown):
            self._lease.beat_now()
            await self._rest()
        except RestanteError as error:
            level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
            if not self._failures:
                _log.log(level, "Nothing can be read for the group %s: %s", self._group, error)
            await self._rest()
        else:
            self._failures = 0
            return answer
        return None

    async def _ask(self, member_id: str, reads: Sequence[ReadOn]) -> NextAnswer | None:
        after = tuple(
            ReadAfter(partition=own.partition, generation=own.generation, position=own.position) for own in reads
        )
        limit = min(PAGE_ACTIONS_MAX, *(own.limit for own in reads)) if len(reads) > 1 else reads[0].limit
        said = self._said()
        call = ReadNext(
            self._group,
            member_id,
            after,
            limit=min(limit, PAGE_ACTIONS_MAX),
            wait=WAIT_SECONDS_MAX,
            few=True,
            running=said.running,
            revision=said.revision,
        )
        self._asked = frozenset((own.partition, own.generation) for own in reads)
        self._asking = asyncio.ensure_future(self._link.call(call))
        try:
            await asyncio.wait((self._asking,))
            return None if self._asking.cancelled() else self._asking.result()
        finally:
            self._asking.cancel()
            self._asking = None

    def _took(self, answer: NextAnswer) -> int:
        """Gives how many actions came."""
        hub_now, now = answer.now.timestamp(), self._monotonic()
        for page in answer.pages:
            self._turn += 1
            self._served[page.partition] = self._turn
            self._core.page(action_page(page, hub_now), now)
        for few in answer.few:
            self._core.page(few_page(few, hub_now), now)
        self._wake()
        return sum(page.table.num_rows for page in answer.pages) + sum(len(few.changes) for few in answer.few)

    def _stale(self, error: GenerationStale) -> None:
        """Drop the partitions of which another generation is in force: they are not this worker's any more. A heartbeat says which are."""
        stale = error.details.get("stale")
        known = self._core.partitions
        for own in stale if isinstance(stale, list) else ():
            partition = int(own["partition"])
            if partition in known and known[partition] != int(own["generation"]):
                self._core.lost(partition)
        self._lease.beat_now()
        self._wake()

    async def _rest(self) -> None:
        self._failures += 1
        await asyncio.sleep(back_off(self._failures, first=_PAUSE_SECONDS, longest=_PAUSE_SECONDS_MAX))
