"""A hub of several processes for the tour: `restante serve` beside it, ended with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.errors import Unavailable


@contextmanager
def served(folder: Path, port: int | None, shards: int, doors: int) -> Iterator[tuple[str, bool]]:
    """The address of a hub, and whether it has a console, while it serves."""
    from restante.cli.shared.hub_options import settings_here

    counts = ("--shards", str(shards), "--doors", str(doors))
    place = ("--data", str(folder), *(() if port is None else ("--port", str(port))))
    command = (sys.executable, "-m", "restante", "serve", *place, *counts)
    # A tour that is ended otherwise than by Ctrl-C must not leave its hub behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise Unavailable("The hub of several processes did not start; it has said why above.")
            yield line.split()[-1], settings_here().server.console
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            signal.signal(signal.SIGTERM, before)
