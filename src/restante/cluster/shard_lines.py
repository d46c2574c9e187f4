"""`ShardLines`: the ways from one process to all shards; `LineCarrier`: how the hub of a shard uses them from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from restante.calls.call import Answer, Call
from restante.cluster.call_line import CallLine
from restante.cluster.places import LinePlace, SocketPlace, short_path
from restante.errors import OutcomeUnknown, Overloaded, PartitionUnknown, RestanteError, Unavailable
from restante.limits import ADDRESSES_REMEMBERED_MAX, SHARD_PATIENCE_SECONDS
from restante.model.access.access import EVERYTHING, Grant
from restante.model.back_off import back_off
from restante.model.shards.ranges import Ranges, shard_of
from restante.model.storage.partition import partition_of
from restante.ports.carrier import Silent

CALLS_SOCKET = "calls.sock"
REQUESTS_SOCKET = "requests.sock"


def pause_seconds(failures: int) -> float:
    """How long to wait before a shard that was silent so many times is asked again."""
    return back_off(failures, first=0.05, longest=0.1)


class ShardLines:
    """Used in one event loop."""

    def __init__(self, ranges: Ranges, folders: Sequence[Path]) -> None:
        calls = [SocketPlace(short_path(folder / CALLS_SOCKET)) for folder in folders]
        requests = [SocketPlace(short_path(folder / REQUESTS_SOCKET)) for folder in folders]
        self._lead(ranges, [CallLine(place, f"Shard {number}") for number, place in enumerate(calls)], requests)

    def _lead(self, ranges: Ranges, lines: Sequence[CallLine], requests: Sequence[LinePlace]) -> None:
        self.ranges = ranges
        self.partition_count = ranges[-1].stop
        self.lines = lines
        self.requests = requests
        """Where the HTTP servers of the shards are."""
        self.of_name = lru_cache(ADDRESSES_REMEMBERED_MAX)(self._of_name)
        """The shard in which something with this name has its home."""

    def of_partition(self, partition: int) -> int:
        if not 0 <= partition < self.partition_count:
            raise PartitionUnknown(
                f"There is no partition {partition}: partitions go from 0 to {self.partition_count - 1}."
            )
        return shard_of(self.ranges, partition)

    def _of_name(self, name: str) -> int:
        return shard_of(self.ranges, partition_of(name, self.partition_count))

    async def call(self, shard: int, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        """Have a shard answer. It is asked again while it is silent, for a while: the same call again does no harm."""
        deadline = asyncio.get_running_loop().time() + SHARD_PATIENCE_SECONDS
        doubtful, failures = False, 0
        while True:
            try:
                return await self.lines[shard].call(call, caller)
            except RestanteError as error:
                if not self.goes_on(error):
                    raise
                doubtful = doubtful or isinstance(error, OutcomeUnknown)
                failures += 1
                pause = pause_seconds(failures)
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise self.given_up(shard, error, doubtful=doubtful) from None
            await asyncio.sleep(pause)

    def goes_on(self, error: RestanteError) -> bool:
        """Whether a shard is asked again after an error."""
        return is_silent(error)

    def given_up(self, shard: int, error: RestanteError, *, doubtful: bool) -> RestanteError:
        """The error about a shard that was silent for too long. `doubtful`: the call may have been carried out."""
        return OutcomeUnknown(error.message, **error.details) if doubtful else self.away(shard, error)

    def away(self, shard: int, error: RestanteError) -> RestanteError:  # noqa: ARG002 - here all shards are near
        """The error about a shard in which nothing was done."""
        return error

    async def all(self, call: Call[Answer], caller: Grant = EVERYTHING) -> list[Answer]:
        """The answer of each shard. One that is silent makes all of it an error: less would look like all."""
        return await asyncio.gather(*(self.call(shard, call, caller) for shard in range(len(self.lines))))

    def close(self) -> None:
        for line in self.lines:
            line.close()


def is_silent(error: RestanteError) -> bool:
    """Whether the shard was not there, or went away. A refusal by the shard is an answer."""
    return type(error) in (Unavailable, OutcomeUnknown) and not isinstance(error, Overloaded)


_SECONDS = 0.6 * SHARD_PATIENCE_SECONDS


class LineCarrier:
    """Calls to other shards, over lines that a thread of its own holds: a hub asks while it is being opened, too."""

    def __init__(self, ranges: Ranges, folders: Sequence[Path]) -> None:
        self._ranges = ranges
        self._loop = asyncio.new_event_loop()
        self._lines = ShardLines(ranges, folders)
        self._thread = threading.Thread(target=self._loop.run_forever, name="restante-carrier", daemon=True)
        self._thread.start()

    def ranges(self) -> Ranges:
        return self._ranges

    def carry(self, partition: int, call: Call[Answer]) -> Answer:
        line = self._lines.lines[self._lines.of_partition(partition)]
        carrying = asyncio.run_coroutine_threadsafe(line.call(call), self._loop)
        try:
            return carrying.result(_SECONDS)
        except TimeoutError as error:
            carrying.cancel()
            raise Silent(f"{line.name} did not answer within {_SECONDS:g} s.") from error
        except Unavailable as error:
            if type(error) in (Unavailable, OutcomeUnknown):
                raise Silent(error.message) from error
            raise

    def close(self) -> None:
        async def close() -> None:
            self._lines.close()
            await asyncio.sleep(0.01)  # until the connections have gone

        asyncio.run_coroutine_threadsafe(close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
