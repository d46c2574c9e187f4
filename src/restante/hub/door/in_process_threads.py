"""The shared base of the parts of the asynchronous link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from restante.calls.call import Call
from restante.hub.door.hub import OpenHub

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Protocol):
    """A link that has calls of its hub done in threads of its own."""

    @property
    def hub(self) -> OpenHub: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


OwnWays: TypeAlias = Mapping[type[Call[Any]], Callable[[Any, Any], Awaitable[Any]]]
"""A table from the type of a call to the function of the asynchronous link that carries it out in the event loop, or waits there."""
