"""The asynchronous door: `restante.aio.open`."""

from __future__ import annotations

from restante.assembly import open_async as open  # the public name

__all__ = ["open"]
