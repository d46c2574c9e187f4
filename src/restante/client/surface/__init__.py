"""The surface that programs see, and the doors to it. Its types are here for annotations: `from restante.client.surface import Hub`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restante.client.surface.surface import *  # noqa: F403 - all of its names, and no others


def __getattr__(name: str) -> object:
    """Import a type when it is asked for: a command that sends one message starts without Arrow."""
    if name[:1].isupper():
        types = import_module("restante.client.surface.surface")
        if name in types.__all__:
            return getattr(types, name)
    raise AttributeError(f"module 'restante.client.surface' has no attribute {name!r}")
