"""How far somebody who reads along has come: on a line while it goes on, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from restante.model.columns.plain_text import plain
from restante.model.figures import counted, duration, rate

_POSITIONS_SHOWN_MAX = 32


@dataclass(slots=True)
class Summary:
    """How far it has come."""

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
