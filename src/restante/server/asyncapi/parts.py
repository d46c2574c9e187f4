"""Parts of the description of a channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from restante.server.openapi.parts import Parameter, Schema
from restante.wire.live import Disconnected


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameShape:
    """A frame that one side may send: its name here, what it means, its shape, and how it looks."""

    name: str
    text: str
    schema: Schema
    examples: tuple[object, ...]
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """Frames of one side that belong together. With `answers` the other side answers by those."""

    name: str
    text: str
    frames: tuple[str, ...]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketChannel:
    """One web socket. The roles that may open it are not said here, but taken from the table of sockets."""

    name: str
    path: str
    title: str
    text: str
    frames: tuple[FrameShape, ...]
    said: tuple[Saying, ...]
    """The frames that the hub sends without being asked."""
    heard: tuple[Saying, ...]
    """The frames that a client may send."""
    parameters: tuple[Parameter, ...] = ()
    close_codes: Mapping[Disconnected, int] | Mapping[str, int] = field(default_factory=dict)
