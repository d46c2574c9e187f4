"""What the handlers share: the hub, who may use it, how much is under way, what was counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from restante.hub.hub import Hub
from restante.hub.in_process import InProcess
from restante.server.gate import Gate
from restante.server.live.post import Post
from restante.server.metrics import Metrics
from restante.server.room import Room
from restante.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Desk:
    """One hub as the server sees it."""

    link: InProcess
    settings: Settings
    gate: Gate
    folder: Path | None
    """The data folder, if the store has one."""
    metrics: Metrics
    url: str = ""
    """The address under which this hub is reached."""
    room: Room = field(init=False)
    post: Post = field(init=False)
    """Who is connected, and gets messages pushed."""
    draining: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.room = Room(self.settings.server)
        self.post = Post(self.hub, self.settings.live, self.gate, drain_seconds=self.settings.server.drain_seconds)

    @property
    def hub(self) -> Hub:
        return self.link.hub

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what reads or commits in a thread, if there is room."""
        with self.room.read():
            return await self.link.thread(function, *args, **kwargs)
