"""Waiting on behalf of a client: not longer than it stays, nor than the hub does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from restante.server.desk import Desk
from restante.server.exchange import ClientGone, Exchange

T = TypeVar("T")


async def unless_gone(desk: Desk, exchange: Exchange, waiting: Coroutine[Any, Any, T]) -> T | None:
    """What is waited for; None when the hub is closing. Nobody waits for a client that has gone."""
    work = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(exchange.gone())
    drained = asyncio.ensure_future(desk.draining.wait())
    try:
        await asyncio.wait((work, gone, drained), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise ClientGone
        return None
    finally:
        for task in (work, gone, drained):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(work, gone, drained, return_exceptions=True)
