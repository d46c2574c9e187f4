"""The plots of the docs, drawn from the JSON of a run: `python -m bench.plots bench/results/normal.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
COLOURS = {"restante": "#3f51b5", "blob": "#9e9e9e", "rows": "#d98032", "commit": "#9e9e9e"}
BARS = (
    ("publish_one", "publish to one recipient", "publish 51,200\nto one"),
    ("publish_many", "publish to 5,000 recipients", "publish 51,200\nto 5,000"),
    ("peek", "peek 51,200", "peek 51,200"),
    ("dequeue", "dequeue 51,200", "dequeue 51,200"),
)


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Every plot whose workloads were run."""
    workloads = report["workloads"]
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    if any(workloads.get(name, {}).get("series") for name in ("sustained", "growth")):
        drawn.append(_growth(workloads, folder / "bench-growth.png"))
    if any(name in workloads for name, _, _ in BARS):
        drawn.append(_bars(workloads, folder / "bench-bars.png"))
    return drawn


def _growth(workloads: dict[str, Any], path: Path) -> Path:
    """Throughput as the store grows; of two series by one name the longer."""
    series: dict[str, Any] = {}
    for name in ("sustained", "growth"):
        series |= workloads.get(name, {}).get("series", {}).get("growth", {})
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label=name, color=_colour(name))
    axes.set_xlabel("messages stored")
    axes.set_ylabel("messages published a second")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.legend(frameon=False)
    return _save(figure, axes, path)


def _bars(workloads: dict[str, Any], path: Path) -> Path:
    """Publish, peek and dequeue beside the references, on a scale of logarithms."""
    groups = [(label, _times(workloads[name], what)) for name, what, label in BARS if name in workloads]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, (_, times) in enumerate(groups):
        width = 0.8 / len(times)
        for number, (name, milliseconds) in enumerate(times):
            centre = place + (number - (len(times) - 1) / 2) * width
            bar = axes.bar(centre, milliseconds, width * 0.92, color=_colour(name))
            axes.bar_label(bar, [f"{_family(name)}\n{milliseconds:.3g}"], fontsize=7, padding=2)
    axes.set_xticks(range(len(groups)), [label for label, _ in groups])
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds, durable")
    axes.margins(y=0.18)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return _save(figure, axes, path)


def _times(workload: dict[str, Any], what: str) -> Sequence[tuple[str, float]]:
    """Ours and each reference, in milliseconds."""
    lines = [line for line in workload["lines"] if line["what"] == what and line["reference"]]
    figures = [lines[-1]["ours"], *(line["reference"] for line in lines)]
    return [(figure["name"], figure["value"] * 1e3) for figure in figures]


def _family(name: str) -> str:
    return name.partition(",")[0]


def _colour(name: str) -> str:
    return COLOURS.get(_family(name), "#607d8b")


def _short(value: float, _: object) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def _save(figure: Any, axes: Axes, path: Path) -> Path:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
    return path


if __name__ == "__main__":
    for image in draw(json.loads(Path(sys.argv[1]).read_text()), IMAGES):
        print(image)
