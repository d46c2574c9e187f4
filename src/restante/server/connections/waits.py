"""Waiting on behalf of a client, until it leaves, or the hub closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from restante.server.connections.exchange import ClientGone, Exchange
from restante.server.desk import Desk

T = TypeVar("T")


async def unless_gone(desk: Desk, exchange: Exchange, waiting: Coroutine[Any, Any, T]) -> T | None:
    """The result of the wait; None when the hub is closing. Raises if the client has gone or is no longer admitted."""
    work = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(exchange.gone())
    drained = asyncio.ensure_future(desk.draining.wait())
    try:
        with desk.passes.held(exchange) as held:
            await asyncio.wait((work, gone, drained, held.lost), return_when=asyncio.FIRST_COMPLETED)
            if held.lost.done():
                held.check()
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
        del work, gone, drained, task  # An error's traceback holds this frame, and a task the error: break the cycle.
