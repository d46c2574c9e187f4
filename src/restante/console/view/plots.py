"""Plots as SVG, drawn by the server: lines over the last hour, minutes of health, and bars.

A plot is markup like any other, so a page shows it at once, a stream sends it again when it moves, and no library is
needed. The script reads the values from the element to show those under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from restante.console.view.figures import short
from restante.console.view.markup import Markup, tag

WIDTH, HEIGHT = 480, 96
_POINTS_MAX = 240
_TOP = 6
_COLUMN_WIDTH_MAX = 40.0
_HOUR = 3_600.0
_SPAN_SECONDS_MIN = 300.0
"""The shortest span of a plot, so that the first samples of a hub that has just started lie apart and not in one spot."""

PlotValues = Sequence[float | None]


def line_plot(times: Sequence[float], values: PlotValues, *, label: str, unit: str = "") -> Markup:
    """A line over the last hour, or as long as there are values, filled below; gaps where there is no value."""
    if not times:
        return tag("p", "No samples yet: the first comes within seconds.", class_="empty plot-empty")
    at, shown = thinned(times, values)
    end = at[-1]
    span_seconds = min(_HOUR, max(_SPAN_SECONDS_MIN, end - at[0]))
    top = _nice(max((value for value in shown if value is not None), default=0.0))
    points = [
        (WIDTH * (1 - (end - time) / span_seconds), None if value is None else _y(value, top))
        for time, value in zip(at, shown, strict=True)
    ]
    drawn = [(x, y) for x, y in points if x >= 0]
    latest = next((value for value in reversed(shown) if value is not None), 0.0)
    drawing = tag(
        "svg",
        _grid(top),
        tag("path", class_="area", d=_area(drawn)),
        tag("path", class_="line", d=_line(drawn)),
        tag("line", class_="grid base", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT),
        viewBox=f"0 0 {WIDTH} {HEIGHT + 1}",
        preserveAspectRatio="none",
        class_="plot",
        role="img",
        aria_label=f"{label} over the last hour: now {short(latest)} {unit}, at most {short(max_of(shown))} {unit}".strip(),
        data_times=_numbers([round(time) for time in at]),
        data_values=_numbers([None if value is None else float(f"{value:.4g}") for value in shown]),
        data_unit=unit,
        data_span=span_seconds,
    )
    return _framed(top, drawing)


def _grid(top: float) -> tuple[Markup, ...]:
    """Lines at the top and at the half of it."""
    return tuple(tag("line", class_="grid", x1=0, x2=WIDTH, y1=y, y2=y) for y in (_y(top, top), _y(top / 2, top)))


def _framed(top: float, drawing: Markup, shown: Callable[[float], str] = short) -> Markup:
    """A plot, and what its highest line stands for."""
    named = shown(top).replace(".0 ", " ")
    return tag("div", tag("span", named, class_="top", aria_hidden="true"), drawing, class_="framed")


def max_of(values: PlotValues) -> float:
    return max((value for value in values if value is not None), default=0.0)


def thinned(times: Sequence[float], values: PlotValues) -> tuple[list[float], list[float | None]]:
    """The points of a plot, thinned to as many as it can show: means of equal stretches, counted from the end."""
    step = math.ceil(len(times) / _POINTS_MAX)
    if step <= 1:
        return list(times), list(values)
    at: list[float] = []
    means: list[float | None] = []
    for end in range(len(times), 0, -step):
        part = [value for value in values[max(0, end - step) : end] if value is not None]
        at.append(times[end - 1])
        means.append(sum(part) / len(part) if part else None)
    return at[::-1], means[::-1]


def _numbers(values: Sequence[float | None]) -> str:
    return msgspec.json.encode(values).decode()


def _nice(value: float) -> float:
    """The next round number, where the grid's line is drawn."""
    if value <= 0:
        return 1.0
    size = float(10 ** math.floor(math.log10(value)))
    return next(step * size for step in (1, 2, 5, 10) if step * size >= value * 0.999)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - (HEIGHT - _TOP) * min(1.0, value / top), 1)


def _stretches(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            found.append([])
        else:
            found[-1].append((round(x, 1), y))
    return [stretch for stretch in found if stretch]


def _line(points: Sequence[tuple[float, float | None]]) -> str:
    return "".join(_path(stretch) for stretch in _stretches(points))


def _path(stretch: Sequence[tuple[float, float]]) -> str:
    if len(stretch) == 1:
        x, y = stretch[0]
        return f"M{max(0.0, x - 2)} {y}H{x}"
    return "M" + "L".join(f"{x} {y}" for x, y in stretch)


def _area(points: Sequence[tuple[float, float | None]]) -> str:
    parts = [
        f"M{stretch[0][0]} {HEIGHT}L" + "L".join(f"{x} {y}" for x, y in stretch) + f"V{HEIGHT}Z"
        for stretch in _stretches(points)
    ]
    return "".join(parts)


def minute_strip(states: Sequence[tuple[str, str]], *, label: str) -> Markup:
    """One cell a minute, the newest at the right: the state of each, and what is said of it."""
    blank = [tag("rect", class_="cell", x=index * 8, width=7, height=20, rx=1) for index in range(60 - len(states))]
    cells = [
        tag("rect", tag("title", said), class_=f"cell {state}", x=index * 8, width=7, height=20, rx=1)
        for index, (state, said) in enumerate(states, start=60 - len(states))
    ]
    return tag(
        "svg",
        blank,
        cells,
        viewBox="0 0 480 20",
        preserveAspectRatio="none",
        class_="strip",
        role="img",
        aria_label=label,
    )


def column_plot(
    values: Sequence[tuple[str, float]], *, label: str, tones: Sequence[str] = (), shown: Callable[[float], str] = short
) -> Markup:
    """A column for each name, such as the lag of each partition; `tones` are classes of the columns."""
    top = _nice(max((value for _, value in values), default=0.0))
    width = min(_COLUMN_WIDTH_MAX, WIDTH / max(1, len(values)))
    columns = [
        tag(
            "rect",
            tag("title", f"{name}: {shown(value)}"),
            class_=f"column {tones[index] if tones else ''}".strip(),
            x=round(index * width + width * 0.1, 2),
            width=round(width * 0.8, 2),
            y=_y(max(0.0, value), top),
            height=round(HEIGHT - _y(max(0.0, value), top), 1),
        )
        for index, (name, value) in enumerate(values)
    ]
    ground = tag("line", class_="grid base", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT)
    drawn = tag(
        "svg", _grid(top), columns, ground, viewBox=f"0 0 {WIDTH} {HEIGHT + 1}", preserveAspectRatio="none", class_="plot columns",
        role="img", aria_label=label,
    )  # fmt: skip
    return _framed(top, drawn, shown)
