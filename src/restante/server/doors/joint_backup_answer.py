"""`GET /v1/backup` of several shards: all hold their commits for one moment, then each gives its part of that moment."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from restante.calls.shards import CutShard, CutStep
from restante.cluster.joint_backup import JointBackup, ShardedData
from restante.cluster.shard_folders import read_table
from restante.cluster.shard_lines import ShardLines
from restante.errors import Unavailable
from restante.server.connections.exchange import ClientGone, Exchange
from restante.server.desk import DoorDesk
from restante.server.doors.upstream import Upstream, UpstreamAnswer, head_bytes
from restante.server.routes.upkeep import BACKUP_HEADERS, CUT

_TRIES = 20
_PAUSE_SECONDS = 0.1
_log = logging.getLogger("restante.server")


async def joint_backup(desk: DoorDesk, lines: ShardLines, upstreams: Sequence[Upstream], exchange: Exchange) -> None:
    data = await desk.link.thread(_data_of, desk.folder)
    cut, held_seconds = await agreed_cut(lines)
    _log.info("backup", extra={"fields": {"held_ms": round(held_seconds * 1_000, 1)}})
    async with AsyncExitStack() as opened:
        opened.push_async_callback(_dropped, lines, cut)
        answers = await asyncio.gather(*(opened.enter_async_context(_part(one, exchange, cut)) for one in upstreams))
        sizes = [int(dict(answer.headers)[b"content-length"]) for answer in answers]
        joint = JointBackup(data, sizes, made_at=time.time_ns() // 1_000, held_seconds=held_seconds)
        length = (b"content-length", b"%d" % joint.size_bytes)
        await exchange.begin(200, media_type="application/x-tar", headers=[length, *BACKUP_HEADERS])
        with desk.passes.held(exchange) as held:
            for shard, answer in enumerate(answers):
                await exchange.go_on(joint.before(shard))
                while (piece := await answer.piece()) is not None:
                    await exchange.go_on(joint.show(shard, piece))
                    if held.lost.done():
                        held.check()
                await exchange.go_on(joint.after(shard))
    await exchange.go_on(joint.end())
    await exchange.end()


def _data_of(folder: Path | None) -> ShardedData:
    table = None if folder is None else read_table(folder)
    if table is None:
        raise Unavailable("The table of the shards is missing. Look at the data folder.")
    return ShardedData(table.partition_count, table.starts, table.key)


async def agreed_cut(lines: ShardLines) -> tuple[str, float]:
    """A cut for which all shards held their commits at one moment, and the seconds of the longest hold.

    A shard that waits too long commits again, and answers None: then all try again.
    """
    for _ in range(_TRIES):
        cut = secrets.token_hex(16)
        try:
            await _step(lines, cut, CutStep.PREPARE)
            await _step(lines, cut, CutStep.HOLD)
            held = await _step(lines, cut, CutStep.RELEASE)
        except BaseException:
            await _dropped(lines, cut)
            raise
        in_time = [seconds for seconds in held if seconds is not None]
        if len(in_time) == len(held):
            return cut, max(in_time)
        await _dropped(lines, cut)
        await asyncio.sleep(_PAUSE_SECONDS)
    raise Unavailable("The shards found no moment for a backup, for their commits take too long just now. Try again.")


async def _step(lines: ShardLines, cut: str, step: CutStep) -> list[float | None]:
    """All shards, side by side, and each is heard before the first of them fails."""
    calls = (line.call(CutShard(cut, step)) for line in lines.lines)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


async def _dropped(lines: ShardLines, cut: str) -> None:
    """Let go what nobody has fetched; a shard that is silent does so by itself."""
    calls = (line.call(CutShard(cut, CutStep.DROP)) for line in lines.lines)
    await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def _part(upstream: Upstream, exchange: Exchange, cut: str) -> AsyncIterator[UpstreamAnswer]:
    """The backup of one shard, on its way. It is made while this waits."""
    head = head_bytes(exchange).removesuffix(b"\r\n") + b"%b: %b\r\n\r\n" % (CUT, cut.encode())
    connection = await upstream.fresh()
    try:
        await connection.ask(head)
        if not await connection.head() or connection.status != 200:
            raise Unavailable(f"{upstream.name} has no part of the backup to give. Try again.")
        yield connection
    except ClientGone as error:
        raise (error if exchange.status else Unavailable(f"{upstream.name} ended. Try again.")) from error
    finally:
        connection.abort()
