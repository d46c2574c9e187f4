"""What the description of a channel is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from restante.server.openapi.parts import Parameter, Schema
from restante.wire.live import Disconnected


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameShape:
    """What one side may say: its name here, what it means, its shape, and how it looks."""

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
    """One web socket. Who may open it is not said here, but taken from the table of sockets."""

    name: str
    path: str
    title: str
    text: str
    frames: tuple[FrameShape, ...]
    said: tuple[Saying, ...]
    """What the hub says without being asked."""
    heard: tuple[Saying, ...]
    """What a client may say."""
    parameters: tuple[Parameter, ...] = ()
    close_codes: Mapping[Disconnected, int] | Mapping[str, int] = field(default_factory=dict)
