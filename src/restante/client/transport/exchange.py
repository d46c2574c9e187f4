"""Steps and replies: what a call asks of the driver that does its I/O, and what the driver answers.

A call is a generator, a `Dialogue`: it yields steps and is sent their replies, until it returns its answer or raises. It
does no I/O itself, so synchronous and asynchronous drivers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

from restante.model.storage.changes import Buffer

T = TypeVar("T")
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One attempt over HTTP. The reply is a `Response` or a `Failure`."""

    method: str
    path: str
    """Percent-encoded, from the root of the hub."""
    timeout: float
    """Seconds, from connecting to the last byte of the answer."""
    query: Pairs = ()
    headers: Pairs = ()
    body: Buffer | None = None

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class LinkFrame:
    """One frame over the publish socket, including connecting. The reply is a `Response` or a `Failure`."""

    number: int
    content: str | bytes
    timeout: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of `seconds`. The reply is None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LongWork:
    """A computation that may take long. Asynchronous drivers run it in a thread. The reply is its result."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. For a frame, the status is 200, or that of its problem or of the refused connection."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: memoryview


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that got no answer."""

    reason: str
    reached: bool
    """Whether the hub may have received the request, and so may have carried it out."""


Step: TypeAlias = HttpRequest | LinkFrame | Pause | LongWork
Reply: TypeAlias = Response | Failure
Dialogue: TypeAlias = Generator[Step, Any, T]
