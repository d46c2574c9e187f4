"""`OtherShards`: what live clients send to recipients that another shard has, carried to its owner."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from restante.calls.call import Answer, Call
from restante.errors import NotOwner, OutcomeUnknown
from restante.hub.door.in_process_watch import in_thread
from restante.hub.engine.commit_request import closed
from restante.hub.engine.core import Core
from restante.limits import SHARD_PATIENCE_SECONDS
from restante.ports.carrier import Silent

_THREADS_MAX = 8
_PAUSE_SECONDS = 0.05


class OtherShards:
    """The way from the live clients of one shard to the other shards. Its threads are its own: a silent shard holds up nothing else."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "restante-other-shards")

    def partition_of(self, recipient: str) -> int | None:
        """The partition of a recipient, if another shard has it."""
        if self._core.shard is None:
            return None
        partition = self._core.locate(recipient).partition
        return None if partition in self._core.owned else partition

    async def ask(self, partition: int, call: Call[Answer]) -> Answer:
        """Have the owner of a partition carry a call out, which may be repeated: it is asked again for a while."""
        return await in_thread(self._threads, partial(self._asked, partition, call), closed)

    def _asked(self, partition: int, call: Call[Answer]) -> Answer:
        assert self._core.shard is not None, "a hub that has all partitions asks nobody"
        deadline = time.monotonic() + SHARD_PATIENCE_SECONDS
        while True:
            try:
                return self._core.shard.carrier.carry(partition, call)
            except NotOwner:
                if time.monotonic() > deadline:
                    raise
            except Silent as error:
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(error.message) from error
            if self._core.closing.wait(_PAUSE_SECONDS):
                raise closed()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
