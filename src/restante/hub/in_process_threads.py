"""What the parts of the asynchronous link need of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from restante.hub.hub import Hub

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Protocol):
    """A link that has calls of its hub done in threads of its own."""

    @property
    def hub(self) -> Hub: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
