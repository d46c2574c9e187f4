"""The machine a run was made on, so that its figures can be judged."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

RAW_BYTES = 51_200 * 229


def describe(folder: Path) -> dict[str, object]:
    """The facts of the machine, and of the disk under the folder."""
    return {
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "file_system": file_system(folder),
        "fdatasync_4_kib_seconds": _write_cost(folder, 4_096, repetitions=200),
        "fdatasync_raw_send_seconds": _write_cost(folder, RAW_BYTES, repetitions=9),
        "load_average_before": load_average(),
    }


def load_average() -> float:
    """The load of the last minute. If it is above 1 before a run, other programs were using the machine."""
    return round(os.getloadavg()[0], 2)


def file_system(folder: Path) -> str:
    """The type of the file system that holds the folder: the longest mount point above it."""
    resolved = folder.resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(len(point), kind) for point, kind in mounts if resolved.is_relative_to(point)]
    return max(above)[1] if above else "unknown"


def _write_cost(folder: Path, size: int, *, repetitions: int) -> float:
    """The median time to overwrite so many bytes of a file and have them on the disk."""
    path = folder / "write-cost"
    octets = os.urandom(size)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        return statistics.median(_write_once(descriptor, octets) for _ in range(repetitions))
    finally:
        os.close(descriptor)
        path.unlink()


def _write_once(descriptor: int, octets: bytes) -> float:
    start = time.perf_counter()
    os.pwrite(descriptor, octets, 0)
    os.fdatasync(descriptor)
    return time.perf_counter() - start


def _field(path: Path, name: str) -> str | None:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return None
