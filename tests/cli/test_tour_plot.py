"""The picture of a night: heights that are right, in blocks and in a file."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from restante.cli.serving.tour_plot import lines_of, print_energy, print_plot, save_plot, shares
from restante.samples.night_steps import PlotPoint

SETTLEMENT = [{"product": "night", "energy_wh": 2_000_000}, {"product": "day", "energy_wh": 1_234_500_000}]
MOMENTS = [PlotPoint(0.5, 10), PlotPoint(1.0, 60), PlotPoint(2.0, 100)]


def test_each_column_is_what_was_collected_by_its_end() -> None:
    assert shares(MOMENTS, 4) == [0.1, 0.6, 0.6, 1.0]
    assert shares([PlotPoint(0.0, 7)], 3) == [1.0, 1.0, 1.0]


def test_heights_are_drawn_in_eighths_of_a_line() -> None:
    lines = lines_of([0.0, 0.5, 1.0, 1 / 64])
    assert len(lines) == 8
    assert lines[0] == "  █ "
    assert lines[3] == "  █ "
    assert lines[4] == " ██ "
    assert lines[7] == " ██▁"


@pytest.mark.parametrize("width", [20, 80, 240])
def test_the_plot_fits_and_has_its_numbers(width: int) -> None:
    console = Console(file=StringIO(), width=width)
    print_plot(console, SETTLEMENT, [PlotPoint(1.5, 12_345)])
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "12,345 │" in shown
    assert "1.50 s" in shown
    assert "1,234.50" in shown
    blocks = [line for line in shown.splitlines() if "│" in line]
    assert len(blocks) == len(SETTLEMENT) + 8
    assert all(len(line) <= width for line in blocks)


def test_the_longest_bar_is_of_the_most_energy() -> None:
    console = Console(file=StringIO(), width=60)
    print_energy(console, SETTLEMENT)
    assert isinstance(console.file, StringIO)
    night, day = (line.count("█") for line in console.file.getvalue().splitlines() if "│" in line)
    assert night == 0
    assert day > 20


def test_nothing_is_drawn_of_nothing() -> None:
    console = Console(file=StringIO())
    print_plot(console, [], [])
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == ""


def test_the_plot_is_saved_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert save_plot(tmp_path / "night.png", SETTLEMENT, MOMENTS)
    assert (tmp_path / "night.png").read_bytes().startswith(b"\x89PNG")
