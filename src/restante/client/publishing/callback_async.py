"""Calling the callbacks of a buffered producer, for asynchronous programs: they may be asynchronous functions."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from restante.errors import RestanteError
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], Awaitable[None] | None]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], Awaitable[None] | None]

_log = logging.getLogger(__name__)


async def call_back(callback: Callable[[], object]) -> None:
    """Call a callback, and wait for it if it is asynchronous. What it raises is logged, and harms nobody."""
    try:
        answer = callback()
        if inspect.isawaitable(answer):
            await answer
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        _log.exception("A callback of the buffered producer was cancelled.")
    except Exception:  # noqa: BLE001 - the producer is not to suffer from it
        _log.exception("A callback of the buffered producer failed.")
