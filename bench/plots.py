"""The plots of the docs, drawn from the JSON of a run: `python -m bench.plots bench/results/normal.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
COLOURS = {
    "restante": "#3f51b5",
    "blob": "#9e9e9e",
    "rows": "#d98032",
    "commit": "#9e9e9e",
    "postgresql": "#5b8db8",
    "valkey": "#c0564f",
    "nats": "#5da271",
    "rabbitmq": "#d98032",
}
BARS = (
    ("publish_one", "publish to one recipient", "publish 51,200\nto one"),
    ("publish_many", "publish to 5,000 recipients", "publish 51,200\nto 5,000"),
    ("peek", "peek 51,200", "peek 51,200"),
    ("dequeue", "dequeue 51,200", "dequeue 51,200"),
)
WIRE_TIMES = (
    ("wire_publish_one", "W1 publish 51,200 to one", "publish 51,200\nto one"),
    ("wire_publish_many", "W2 publish 50,000 to 5,000", "publish 50,000\nto 5,000"),
    ("wire_fetch", "W3 fetch 51,200", "fetch 51,200"),
    ("wire_acknowledge", "W4 acknowledge 51,200", "acknowledge 51,200"),
)
WIRE_RATES = (
    ("wire_connections", "W5 64 connections, by the clients", "64 connections,\nby the clients"),
    ("wire_connections", "W5 64 connections, over bare sockets", "64 connections,\nover bare sockets"),
    ("wire_pipelined", "W5 one pipelined link", "one pipelined link"),
)
WIRE_BATCHES = (
    ("wire_batches", "W7 100,000 items, calls of 100, one at a time", "calls of 100,\none at a time"),
    ("wire_batches", "W7 100,000 items, calls of 100, 8 under way", "calls of 100,\n8 under way"),
    ("wire_batches", "W7 100,000 items, calls of 1,000, one at a time", "calls of 1,000,\none at a time"),
    ("wire_batches", "W7 100,000 items, calls of 1,000, 8 under way", "calls of 1,000,\n8 under way"),
)
WIRE_FEED = (
    ("wire_feed", "W9 10⁶ read from the start, in process", "in process"),
    ("wire_feed", "W9 10⁶ read from the start, over the wire", "over the wire"),
)
WIRE_LIVE = (
    ("wire_live_throughput", "W11 1,000 connections, by the clients", "1,000 mailboxes,\nby the clients"),
    ("wire_live_throughput", "W11 1,000 connections, over bare sockets", "1,000 mailboxes,\nover bare sockets"),
    ("wire_live_fanout", "W13 one to 1,000 clients, by the clients", "one to 1,000,\nby the clients"),
    ("wire_live_fanout", "W13 one to 1,000 clients, over bare sockets", "one to 1,000,\nover bare sockets"),
)
WIRE_LIVE_TIMES = (
    ("wire_live_latency", "W12 1,000 messages a second, p50, by the clients", "p50,\nby the clients"),
    ("wire_live_latency", "W12 1,000 messages a second, p99, by the clients", "p99,\nby the clients"),
    ("wire_live_latency", "W12 1,000 messages a second, p50, over bare sockets", "p50,\nover bare sockets"),
    ("wire_live_latency", "W12 1,000 messages a second, p99, over bare sockets", "p99,\nover bare sockets"),
)
SPARK_RATES = (
    ("wire_spark_write", "from Spark into the hub"),
    ("wire_spark_read", "from the hub into Spark"),
)
CONSIGNMENT_SERIES = (
    ("commit a message", "commit, µs a message", 1e6),
    ("longest meanwhile", "longest call meanwhile, ms", 1e3),
)
BATCH_SERIES = (
    ("batch rate", "items acknowledged a second", 1.0),
    ("batch stored", "MB stored", 1e-6),
    ("batch resident", "MB of memory", 1e-6),
)
ROOM_PANELS = (
    ("seconds to open", 1.0, ("open_seconds", "killed_seconds")),
    ("MB of resident memory", 1e-6, ("resident",)),
    (
        "milliseconds a call",
        1e3,
        ("publish_seconds", "publish_processor_seconds", "single_seconds", "peek_seconds", "dequeue_seconds"),
    ),
)


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Every plot whose workloads were run."""
    workloads = report["workloads"]
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    if any(workloads.get(name, {}).get("series") for name in ("sustained", "growth", "room")):
        drawn.append(_growth(workloads, folder / "bench-growth.png"))
    if "open_seconds" in (series := workloads.get("room", {}).get("series", {})):
        drawn.append(_room(series, folder / "bench-room.png"))
    if any(name in workloads for name, _, _ in BARS):
        drawn.append(_bars(workloads, folder / "bench-bars.png"))
    for name, chosen, label, unit in (
        ("bench-peers-bulk.png", WIRE_TIMES, "milliseconds, durable", 1e3),
        ("bench-peers-small.png", WIRE_RATES, "durable publishes a second", 1.0),
        ("bench-peers-batches.png", WIRE_BATCHES, "items acknowledged a second, durable", 1.0),
        ("bench-peers-feed.png", WIRE_FEED, "messages read a second", 1.0),
        ("bench-peers-live.png", WIRE_LIVE, "messages received a second, durable", 1.0),
        ("bench-peers-live-latency.png", WIRE_LIVE_TIMES, "milliseconds from publish to receipt", 1e3),
    ):
        if groups := _wire_groups(workloads, chosen, unit):
            # Some are near one another: the length of a bar is to be what it says.
            linear = chosen in {WIRE_BATCHES, WIRE_FEED, WIRE_LIVE}
            drawn.append(_grouped_bars(groups, label, folder / name, linear=linear))
    if series := workloads.get("consignments", {}).get("series"):
        drawn.append(_consignments(series, folder / "bench-consignments.png"))
    if series := workloads.get("batches_alone", {}).get("series"):
        drawn.append(_batch(series, folder / "bench-batches.png"))
    spark = [(title, workloads[name]) for name, title in SPARK_RATES if name in workloads]
    if spark:
        drawn.append(_spark(spark, folder / "bench-spark.png"))
    if series := workloads.get("wire_spark_lag", {}).get("series"):
        drawn.append(_lag(series, folder / "bench-spark-lag.png"))
    return drawn


def _spark(workloads: Sequence[tuple[str, dict[str, Any]]], path: Path) -> Path:
    """Everything that was measured of writing and reading, on a scale of logarithms."""
    figure, panels = plt.subplots(
        len(workloads), 1, figsize=(8, 1 + 1.6 * len(workloads)), layout="constrained", squeeze=False, sharex=True
    )
    for axes, (title, workload) in zip(panels.flat, workloads, strict=True):
        rates = sorted(((own["name"], own["value"]) for own in workload["figures"]), key=lambda pair: pair[1])
        bars = axes.barh([name for name, _ in rates], [rate for _, rate in rates])
        for bar, (name, _) in zip(bars, rates, strict=True):
            bar.set_color(_colour(name))
        axes.bar_label(bars, [f"{rate:,.0f}" for _, rate in rates], fontsize=6, padding=2)
        axes.set_xscale("log")
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.margins(x=0.1)
    panels.flat[-1].set_xlabel("messages a second")
    return _save(figure, panels.flat, path)


def _lag(series: dict[str, Any], path: Path) -> Path:
    """How far the analytical store is behind, second by second."""
    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    for lines in series.values():
        for name, points in lines.items():
            axes.plot(*zip(*points, strict=True), label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel("seconds behind the hub")
    axes.set_ylim(bottom=0)
    return _save(figure, axes, path)


def _batch(series: dict[str, Any], path: Path) -> Path:
    """A batch as it is acknowledged in random order: how fast, what it stores, what it takes of memory."""
    figure, panels = plt.subplots(1, len(BATCH_SERIES), figsize=(9, 2.8), layout="constrained")
    for axes, (name, label, unit) in zip(panels, BATCH_SERIES, strict=True):
        for whose, points in series[name].items():
            places, values = zip(*points, strict=True)
            axes.plot(places, [value * unit for value in values], marker="o", markersize=3, color=_colour(whose))
        axes.set_xlabel("items acknowledged")
        axes.set_title(label, fontsize=9)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(FuncFormatter(_short))
        axes.yaxis.set_major_formatter(FuncFormatter(_short))
    return _save(figure, panels, path)


def _consignments(series: dict[str, Any], path: Path) -> Path:
    """The plot of what a commit costs by its size, and how long others take meanwhile."""
    figure, panels = plt.subplots(1, len(CONSIGNMENT_SERIES), figsize=(9, 3.2), layout="constrained")
    for axes, (name, label, unit) in zip(panels, CONSIGNMENT_SERIES, strict=True):
        _plot_by_size(axes, label, unit, series[name], "messages of the consignment")
    return _save(figure, panels, path)


def _plot_by_size(axes: Any, label: str, unit: float, series: dict[str, Any], sizes: str) -> None:
    """Draw one panel: values, in another unit, by a size that goes over magnitudes."""
    for what, points in series.items():
        places, values = zip(*points, strict=True)
        axes.plot(places, [value * unit for value in values], marker="o", markersize=3, label=what)
    axes.set_xlabel(sizes)
    axes.set_title(label, fontsize=9)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.legend(frameon=False, fontsize=6)


def _growth(workloads: dict[str, Any], path: Path) -> Path:
    """Throughput as the store grows; of two series by one name the longer."""
    series: dict[str, Any] = {}
    for name in ("sustained", "growth", "room"):
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


def _room(series: dict[str, Any], path: Path) -> Path:
    """The plot of what opening, memory and calls take, by how much is stored."""
    figure, panels = plt.subplots(1, len(ROOM_PANELS), figsize=(9, 3), layout="constrained")
    for axes, (label, unit, names) in zip(panels, ROOM_PANELS, strict=True):
        shown = {what: points for name in names for what, points in series[name].items()}
        _plot_by_size(axes, label, unit, shown, "messages stored")
    return _save(figure, panels, path)


def _bars(workloads: dict[str, Any], path: Path) -> Path:
    """Publish, peek and dequeue beside the references, on a scale of logarithms."""
    groups = [(label, _times(workloads[name], what)) for name, what, label in BARS if name in workloads]
    return _grouped_bars(groups, "milliseconds, durable", path)


def _grouped_bars(
    groups: Sequence[tuple[str, Sequence[tuple[str, float]]]], label: str, path: Path, *, linear: bool = False
) -> Path:
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, (_, times) in enumerate(groups):
        width = 0.8 / len(times)
        for number, (name, value) in enumerate(times):
            centre = place + (number - (len(times) - 1) / 2) * width
            bar = axes.bar(centre, value, width * 0.92, color=_colour(name))
            text = f"{value:.3g}" if value < 1e3 else f"{value:,.0f}"
            axes.bar_label(
                bar, [f"{_family(name)}\n{text}"], fontsize=5.5 if linear or len(times) > 3 else 7, padding=2
            )
    axes.set_xticks(range(len(groups)), [name for name, _ in groups])
    axes.set_yscale("linear" if linear else "log")
    axes.set_ylabel(label)
    axes.margins(y=0.18)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1e4 else f"{value:,g}"))
    return _save(figure, axes, path)


def _wire_groups(
    workloads: dict[str, Any], chosen: Sequence[tuple[str, str, str]], unit: float
) -> list[tuple[str, Sequence[tuple[str, float]]]]:
    """Ours and the fastest way of each server, which is the first that a line names."""
    groups: list[tuple[str, Sequence[tuple[str, float]]]] = []
    for workload, what, label in chosen:
        lines = [line for line in workloads.get(workload, {}).get("lines", ()) if line["what"] == what]
        figures = [line["reference"] for line in lines if line["reference"]]
        fastest = {_family(figure["name"]): figure["value"] * unit for figure in reversed(figures)}
        if fastest:
            groups.append((label, [("restante", lines[0]["ours"]["value"] * unit), *sorted(fastest.items())]))
    return groups


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


def _save(figure: Any, panels: Axes | Iterable[Axes], path: Path) -> Path:
    for axes in (panels,) if isinstance(panels, Axes) else panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
    return path


if __name__ == "__main__":
    for image in draw(json.loads(Path(sys.argv[1]).read_text()), IMAGES):
        print(image)
