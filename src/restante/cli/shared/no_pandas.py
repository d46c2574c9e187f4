"""The commands that have no frames of pandas do without it, and so start in half the time.

It is for them alone: what else runs in a process may have frames.
"""

from __future__ import annotations

import sys
import threading

from restante.no_pandas import pandas_hidden

_WITH_FRAMES = ("jobs", "tour")
"""Commands that may use Spark, and so pandas."""
_own_process = threading.Event()


def say_command(name: str) -> None:
    """This process runs the command, and nothing else."""
    if name not in _WITH_FRAMES:
        _own_process.set()


def leave_pandas_out() -> None:
    """Let pyarrow look for pandas now, and find none: in a process of a command, unless pandas is in use already."""
    if not _own_process.is_set() or "pandas" in sys.modules:
        return
    import pyarrow as pa

    with pandas_hidden():
        # The Python of pyarrow looks for pandas when it first makes an array, its C++ when it first gives one to NumPy.
        pa.array([0]).to_numpy()
