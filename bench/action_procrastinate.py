"""The task of procrastinate that does nothing, for its worker; and how tasks get there before it is timed."""

from __future__ import annotations

import asyncio
import os

from bench.server import driver

_procrastinate = driver("procrastinate")
app = _procrastinate.App(connector=_procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_DATABASE"]))


@app.task(name="nothing")  # type: ignore[untyped-decorator]
async def nothing(number: int) -> int:
    return number


def prepare(count: int) -> None:
    """Make procrastinate's tables, and so many tasks that wait."""
    asyncio.run(_prepare(count))


async def _prepare(count: int) -> None:
    connector = _procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_DATABASE"])
    with app.replace_connector(connector) as own:
        async with own.open_async():
            await own.schema_manager.apply_schema_async()
            for first in range(0, count, 1_000):
                await nothing.batch_defer_async(*({"number": first + n} for n in range(1_000)))
