"""How a night was collected, as a picture: in the terminal, and as a PNG where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from restante.samples.night_steps import PlotPoint

_COLUMNS_MAX = 60
_ROWS = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def print_plot(console: Console, moments: Sequence[PlotPoint]) -> None:
    """Messages collected over time, as columns of blocks."""
    if not moments:
        return
    whole, seconds = moments[-1].collected, moments[-1].seconds
    label = f"{whole:,}"
    columns = max(10, min(_COLUMNS_MAX, console.width - len(label) - 4))
    console.print("\nCollected, over the seconds since all of it was delivered\n", style="bold")
    for row, line in enumerate(lines_of(shares(moments, columns))):
        left = label if row == 0 else "0" if row == _ROWS - 1 else ""
        console.print(f"{left:>{len(label)}} │{line}", style="cyan", soft_wrap=True)
    console.print(f"{'':>{len(label)}} └{'─' * columns}")
    console.print(f"{'':>{len(label)}}  0{f'{seconds:,.1f} s':>{columns - 1}}", soft_wrap=True)


def shares(moments: Sequence[PlotPoint], columns: int) -> list[float]:
    """The share of everything that was collected by the end of each of so many equal stretches of time."""
    whole, seconds = moments[-1].collected, moments[-1].seconds
    found, collected, after = [], 0, iter(moments)
    following = next(after, None)
    for column in range(1, columns + 1):
        until = seconds * column / columns
        while following is not None and (following.seconds <= until or column == columns):
            collected, following = following.collected, next(after, None)
        found.append(collected / whole)
    return found


def lines_of(heights: Sequence[float]) -> list[str]:
    """Columns of these heights, from 0 to 1, as lines from the top."""
    eighths = [round(height * _ROWS * 8) for height in heights]
    rows = reversed(range(_ROWS))
    return ["".join(_EIGHTHS[max(0, min(8, count - row * 8))] for count in eighths) for row in rows]


def save_plot(path: Path, moments: Sequence[PlotPoint]) -> bool:
    """Whether there is a picture now: not without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.step([0.0, *(one.seconds for one in moments)], [0, *(one.collected for one in moments)], where="post")
    axes.set_xlabel("seconds since everything was delivered")
    axes.set_ylabel("messages collected")
    axes.set_title("A night, collected")
    axes.grid(visible=True, alpha=0.3)
    axes.set_ylim(bottom=0)
    figure.savefig(path, dpi=120)
    return True
