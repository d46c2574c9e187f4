"""The picture of a night: heights that are right, in blocks and in a file."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from restante.cli.serving.tour_plot import lines_of, print_plot, save_plot, shares
from restante.samples.night_steps import PlotPoint

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
    print_plot(console, [PlotPoint(1.5, 12_345)])
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "12,345 │" in shown
    assert "1.5 s" in shown
    blocks = [line for line in shown.splitlines() if "│" in line]
    assert len(blocks) == 8
    assert all(len(line) <= width for line in blocks)


def test_nothing_is_drawn_of_nothing() -> None:
    console = Console(file=StringIO())
    print_plot(console, [])
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == ""


def test_the_plot_is_saved_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert save_plot(tmp_path / "night.png", MOMENTS)
    assert (tmp_path / "night.png").read_bytes().startswith(b"\x89PNG")
