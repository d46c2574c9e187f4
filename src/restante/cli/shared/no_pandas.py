"""pyarrow imports pandas, wherever it is installed, with its first array: to know a frame of pandas when it sees one.

The commands that have no such frames do without it, and so start in half the time. It is for them alone: what else
runs in a process may have frames.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


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

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array(
            [0]
        ).to_numpy()  # Its Python looks when it makes an array, its C++ when it gives one to NumPy: both once.
    finally:
        sys.meta_path.remove(finder)
