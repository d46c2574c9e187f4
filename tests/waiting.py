"""Waiting for what nobody tells: looks that become rarer, and end with an error."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS_SECONDS = 240
"""Only a test that hangs waits so long. Its own time-out, a little later, would not say for what."""


def wait_until(fulfilled: Callable[[], object], what: str = "it is so", *, seconds: float = HANGS_SECONDS) -> None:
    """Look until it is so. Between looks the program sleeps: a hub of the same process needs the interpreter."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not fulfilled():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.25)
