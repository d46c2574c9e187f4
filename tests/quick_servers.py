"""Servers of this process that stop as soon as they may.

Uvicorn looks ten times a second whether it is to stop, and waits a tenth of a second more for connections to go: in
tests that each start a server, that was most of the time they took. Here it looks every few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn.server

LOOK_SECONDS = 0.005


class _Hasty:
    """The module `asyncio` as Uvicorn's server sees it, with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, LOOK_SECONDS))


@contextmanager
def quick_servers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _Hasty())
        yield
