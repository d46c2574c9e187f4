"""What a door puts together of groups: what several shards say at the same moment."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from restante.calls.call import Answer, Call
from restante.calls.groups import DefineGroup, JoinGroup, ReadNext, ResetPosition
from restante.cluster.shard_lines import ShardLines
from restante.errors import GenerationStale
from restante.model.access.access import EVERYTHING, Grant
from restante.model.groups.group_answers import ReadAfter
from restante.server.doors.group_parts import read_next
from restante.settings import Settings
from tests.cluster.several import SeveralHub

SHARDS = 2
SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, filing=False)


class AtOnce(ShardLines):
    """Those who wait at shards hear from all of them in one turn of the loop."""

    def __init__(self, several: SeveralHub) -> None:
        super().__init__(several.table.ranges, several.folders)
        self._answers = asyncio.Barrier(SHARDS)
        self._begun = 0
        self.waiting = asyncio.Event()

    async def call(self, shard: int, call: Call[Answer], caller: Grant = EVERYTHING) -> Answer:
        if not getattr(call, "wait", 0):
            return await super().call(shard, call, caller)
        self._begun += 1
        if self._begun == SHARDS:
            self.waiting.set()
        try:
            return await super().call(shard, call, caller)
        finally:
            await self._answers.wait()


def test_all_that_is_stale_is_named_and_no_error_is_left_behind(tmp_path: Path) -> None:
    several = SeveralHub(tmp_path / "data", SETTINGS, shards=SHARDS, doors=0)
    left: list[dict[str, Any]] = []

    async def wait_and_be_refused() -> GenerationStale:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context))
        lines = AtOnce(several)
        await lines.call(0, DefineGroup("g"))
        joined = await lines.call(0, JoinGroup("g", "a"))
        after = [ReadAfter(partition=own.partition, generation=own.generation, position=0) for own in joined.partitions]
        asked = asyncio.ensure_future(
            read_next(lines, ReadNext("g", joined.member_id, tuple(after), wait=30), EVERYTHING)
        )
        await lines.waiting.wait()
        for partition in (0, 3):
            await lines.call(lines.of_partition(partition), ResetPosition("g", partition, 0))
        with pytest.raises(GenerationStale) as refused:
            await asked
        lines.close()
        return refused.value

    error = asyncio.run(wait_and_be_refused())
    several.stop()
    assert {own["partition"] for own in error.details["stale"]} == {0, 3}  # type: ignore[attr-defined]
    gc.collect()
    assert left == []
