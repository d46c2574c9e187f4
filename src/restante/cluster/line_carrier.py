"""`LineCarrier`: how the hub of a shard reaches the others, from whichever thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

from restante.calls.call import Answer, Call
from restante.cluster.shard_lines import ShardLines
from restante.errors import OutcomeUnknown, Unavailable
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.model.shards.ranges import Ranges
from restante.ports.carrier import Silent

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
