"""The use of this process and those it started, as the kernel counts it (Linux)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes written so far: `disk` sent to the storage layer, `calls` handed to write calls."""

    disk: int
    calls: int

    def __sub__(self, earlier: Written) -> Written:
        return Written(self.disk - earlier.disk, self.calls - earlier.calls)


def written() -> Written:
    """The bytes written by all processes of ours. Those of a finished child are in its parent's figures."""
    counters = [_fields(PROC / str(pid) / "io") for pid in _family()]
    return Written(sum(each["write_bytes"] for each in counters), sum(each["wchar"] for each in counters))


def bytes_read() -> int:
    """The bytes that this process alone has had from read calls, from the disk or from what the kernel remembers of it."""
    return _fields(PROC / "self" / "io")["rchar"]


def resident_bytes(of: int | None = None) -> int:
    """The memory of all processes of ours, or of another one and those that it started."""
    return sum(_fields(PROC / str(pid) / "status").get("VmRSS", 0) for pid in _family(of)) * 1024


def processor_seconds(of: int) -> float:
    """The processor time that a process and those that it started have used so far, in all their threads, in the program and for it."""
    return sum(map(_ticks, _family(of))) / os.sysconf("SC_CLK_TCK")


def processor_seconds_by(of: int, kinds: Sequence[str]) -> dict[str, float]:
    """As `processor_seconds`, of the descendants whose last argument begins with a kind, by kind."""
    found = dict.fromkeys(kinds, 0.0)
    for pid in _family(of):
        last = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").rpartition(b"\0")[2].decode(errors="replace")
        for kind in kinds:
            if last.startswith(kind):
                found[kind] += _ticks(pid) / os.sysconf("SC_CLK_TCK")
    return found


def _ticks(pid: int) -> int:
    """None when the process has ended. The name, which may hold anything, is in brackets before the figures."""
    try:
        figures = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(figures[11]) + int(figures[12])


def _family(of: int | None = None) -> list[int]:
    """This process, or another, and its descendants."""
    found = [of or os.getpid()]
    for pid in found:
        for children in (PROC / str(pid) / "task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def _fields(path: Path) -> dict[str, int]:
    """The lines `name: number` of a file of the kernel; none when the process has ended."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    parts = [line.replace(":", " ").split() for line in lines]
    return {part[0]: int(part[1]) for part in parts if len(part) > 1 and part[1].isdigit()}
