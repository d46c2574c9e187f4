"""How far a program that reads along has come: kept in a file, shown on a line while it goes on, and at the end.

The file is only ever behind what is safe, never ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from restante.cli.shared.new_files import new_file
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.model.columns.plain_text import plain
from restante.model.figures import counted, duration, rate


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    positions: dict[int, int]


class Positions:
    """The number after which to go on, for each partition. Without a file the positions are only remembered."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.found = {} if path is None else _read(path)
        """The positions at the start; partitions that nobody reads now stay in the file."""

    def record(self, safe: Mapping[int, int]) -> None:
        """Record the positions up to which all is safe. They only go forward. The file is on the disk when this returns."""
        changed = {partition: number for partition, number in safe.items() if number > self.found.get(partition, -1)}
        if not changed:
            return
        self.found |= changed
        if self._path is not None:
            ordered = dict(sorted(self.found.items()))
            with new_file(self._path) as file:
                file.write(msgspec.json.format(msgspec.json.encode(_Kept(ordered)), indent=2) + b"\n")


def _read(path: Path) -> dict[int, int]:
    try:
        kept = json_decoder(_Kept).decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidRequest(f"{path} is no file of positions: {error}.") from error
    if any(number < 0 for pair in kept.positions.items() for number in pair):
        raise InvalidRequest(f"{path} is no file of positions: no number in it may be below 0.")
    return kept.positions


_POSITIONS_SHOWN_MAX = 32


@dataclass(slots=True)
class Summary:
    """The progress of a command that reads the feed."""

    changes: int = 0
    rows: int = 0
    stored: int = 0
    seconds: float = 0.0
    positions: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(max(end - self.positions.get(partition, 0), 0) for partition, end in self.ends.items())

    def line(self) -> str:
        """The line that is shown while reading goes on."""
        found = f"{counted(self.stored, 'message')} stored, " if self.stored else ""
        return f"{found}{counted(self.changes, 'change')}, {rate(self.changes, self.seconds)}, lag {self.lag:,}"

    def told(self) -> str:
        found = f"{counted(self.stored, 'message')} of a snapshot and " if self.stored else ""
        speed = f"{duration(self.seconds)} ({rate(self.changes + self.stored, self.seconds)})"
        places = [f"{partition}: {number}" for partition, number in sorted(self.positions.items())]
        more = [f"and {len(places) - _POSITIONS_SHOWN_MAX:,} more"] if len(places) > _POSITIONS_SHOWN_MAX else []
        shown = ", ".join([*places[:_POSITIONS_SHOWN_MAX], *more]) or "none"
        return f"{found}{counted(self.changes, 'change')} in {speed}; lag {self.lag:,}.\nPositions: {shown}"

    def as_json(self) -> str:
        counts = {"changes": self.changes, "rows": self.rows, "stored": self.stored}
        places = {"positions": dict(sorted(self.positions.items())), "lag": self.lag}
        answer = counts | {"seconds": round(self.seconds, 3)} | places
        return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


Show = Callable[[str], None]


@contextmanager
def status_line(*, quiet: bool) -> Iterator[Show]:
    """A line on standard error that says how far it is, where there is a terminal; it is gone at the end."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        yield lambda _line: None
        return
    with console.status("reading") as status:
        yield lambda line: status.update(Text(plain(line)))
