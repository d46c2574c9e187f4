"""The asynchronous doors: `restante.aio.open` and `restante.aio.connect`, and producers that number what they send."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restante.assembly import open_async as open  # the public name
    from restante.client.producers.producer_async import ProducerClient
    from restante.client.publishing.buffered_async import BufferedProducer
    from restante.client.surface.connect_async import connect_async as connect

__all__ = ["BufferedProducer", "ProducerClient", "connect", "open"]

_HOMES = {
    "BufferedProducer": ("restante.client.publishing.buffered_async", "BufferedProducer"),
    "ProducerClient": ("restante.client.producers.producer_async", "ProducerClient"),
    "connect": ("restante.client.surface.connect_async", "connect_async"),
    "open": ("restante.assembly", "open_async"),
}


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: a client needs no store."""
    if name in _HOMES:
        home, own_name = _HOMES[name]
        return getattr(import_module(home), own_name)
    raise AttributeError(f"module 'restante.aio' has no attribute {name!r}")
