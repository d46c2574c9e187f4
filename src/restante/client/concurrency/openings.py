"""Openings of an asynchronous program: to be awaited, or entered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

_ENTER = "use it in an `async with` statement, or `await` it"


class _Entered(Protocol):
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


T = TypeVar("T", bound=_Entered)


class Unopened:
    """An object that an asynchronous program enters or awaits before it uses it. Used too early, it says so."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: not open yet; {_ENTER}>"

    if not TYPE_CHECKING:  # Checkers know what it has; this is for programs that nobody checks.

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"{type(self).__name__!r} has no {name!r}: it is not open yet; {_ENTER}")


class AsyncOpening(Unopened, Generic[T]):
    """Something to be opened: `await` it, or use it in an `async with` statement."""

    def __init__(self, opening: Callable[[], Awaitable[T]]) -> None:
        self._open = opening
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None, "it was entered"
        await self._opened.__aexit__(kind, error, trace)
