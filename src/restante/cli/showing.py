"""How the commands show numbers and progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_UNITS = ("B", "kB", "MB", "GB", "TB")


def progress_bar() -> Progress:
    """Bars on standard error, gone when they are done; nothing at all where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def counted(number: int, what: str) -> str:
    """`1 message`, `12,000 messages`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def size(count: float) -> str:
    """Bytes, in the unit that suits them."""
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    return f"{seconds * 1_000:,.0f} ms" if seconds < 1 else f"{seconds:,.2f} s"
