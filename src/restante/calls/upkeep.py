"""Upkeep that the hub does by itself in time, and now when it is asked to."""

from __future__ import annotations

from restante.calls.call import Call


class FileNow(Call[int], frozen=True):
    """File everything that waits to be filed. The answer is how many runs were merged."""


class ExpireNow(Call[int], frozen=True):
    """Settle what has expired. The answer is how many messages."""


class RetainNow(Call[int], frozen=True):
    """Remove what is past its retention. The answer is how many messages left history."""
