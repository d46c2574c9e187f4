"""A Spark night as a plot of two panels, in the terminal, and as a PNG where matplotlib is installed.

The first panel has the energy that was settled, by product; the second, how the messages were collected over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from restante.samples.night_steps import PlotPoint

_COLUMNS_MAX = 60
_ROWS = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WATT_HOURS = 1_000_000
"""How many watt-hours a megawatt-hour has."""

SettlementRows = Sequence[Mapping[str, Any]]


def print_plot(console: Console, settlement: SettlementRows, moments: Sequence[PlotPoint]) -> None:
    """Print both panels of the plot, one below the other."""
    print_energy(console, settlement)
    print_collected(console, moments)


def print_energy(console: Console, settlement: SettlementRows) -> None:
    """The energy of each product as a bar."""
    if not settlement:
        return
    names, values = energy_of(settlement)
    figures = [f"{value:,.2f}" for value in values]
    left, right = max(map(len, names)), max(map(len, figures))
    columns = max(1, min(_COLUMNS_MAX, console.width - left - right - 4))
    console.print("\nEnergy settled, in MWh by product\n", style="bold")
    for name, value, figure in zip(names, values, figures, strict=True):
        bar = "█" * round(value / (max(values) or 1) * columns)
        console.print(f"{name:<{left}} │{bar:<{columns}} {figure:>{right}}", style="cyan", soft_wrap=True)


def print_collected(console: Console, moments: Sequence[PlotPoint]) -> None:
    """Messages collected over time, as columns of blocks."""
    if not moments:
        return
    whole, seconds = moments[-1].collected, moments[-1].seconds
    label = f"{whole:,}"
    columns = max(10, min(_COLUMNS_MAX, console.width - len(label) - 4))
    console.print("\nMessages collected, over the seconds since the delivery\n", style="bold")
    for row, line in enumerate(lines_of(shares(moments, columns))):
        left = label if row == 0 else "0" if row == _ROWS - 1 else ""
        console.print(f"{left:>{len(label)}} │{line}", style="cyan", soft_wrap=True)
    console.print(f"{'':>{len(label)}} └{'─' * columns}")
    console.print(f"{'':>{len(label)}}  0{f'{seconds:,.2f} s':>{columns - 1}}", soft_wrap=True)


def energy_of(settlement: SettlementRows) -> tuple[list[str], list[float]]:
    """The products and their energy in megawatt-hours."""
    return [str(row["product"]) for row in settlement], [row["energy_wh"] / _WATT_HOURS for row in settlement]


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


def save_plot(path: Path, settlement: SettlementRows, moments: Sequence[PlotPoint]) -> bool:
    """Write both panels, side by side; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(11, 4), layout="constrained")
    energy, mail = figure.subplots(1, 2)
    energy.bar(*energy_of(settlement))
    energy.set(title="Energy settled", xlabel="product", ylabel="MWh")
    mail.step([0.0, *(one.seconds for one in moments)], [0, *(one.collected for one in moments)], where="post")
    mail.set(title="Messages collected", xlabel="seconds since the delivery", ylabel="messages", ylim=(0, None))
    mail.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=120)
    return True
