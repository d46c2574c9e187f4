"""The table of a run of a job, such as a report, and plots of its columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, tag
from restante.console.view.plots import column_plot
from restante.console.view.tables import section, table
from restante.model.jobs.job_answers import JobRun, RunTable

_COLUMNS_PLOTTED = 4
_ROWS_PLOTTED = 60
_ROWS_SHOWN = 100
_NAME_CHARACTERS = 80


def worded(name: str) -> str:
    """Write a column's name as people read it: `oldest_waiting` as "oldest waiting"."""
    return name.replace("_", " ")


def shown(value: object) -> str:
    """A figure of a run, or a cell of its table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return str(value)


def aligned(cells: Sequence[object]) -> list[str]:
    """The cells of a column; where some are fractions, all numbers have as many places."""
    texts = [shown(cell) for cell in cells]
    fractions = [text for text, cell in zip(texts, cells, strict=True) if isinstance(cell, float)]
    if not fractions or any("e" in text or "n" in text for text in fractions):
        return texts
    places = max(len(text.partition(".")[2]) for text in fractions)
    return [f"{cell:,.{places}f}" if is_number(cell) else text for text, cell in zip(texts, cells, strict=True)]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def report(found: JobRun) -> Child:
    """A plot of each of the first columns of numbers, and the table."""
    if found.table is None:
        return None
    numbers = numeric_columns(found.table)
    return _plots(found.table, numbers), _table(found, found.table, numbers)


def numeric_columns(given: RunTable) -> list[int]:
    """The columns that hold numbers, and nothing else."""
    columns = [[row[place] for row in given.rows] for place in range(len(given.columns))]
    return [
        place
        for place, cells in enumerate(columns)
        if any(map(is_number, cells)) and all(cell is None or is_number(cell) for cell in cells)
    ]


def _table(found: JobRun, given: RunTable, numbers: Sequence[int]) -> Markup:
    heads = [("#" if place in numbers else "") + worded(name) for place, name in enumerate(given.columns)]
    kept = given.rows[:_ROWS_SHOWN]
    columns = [aligned([row[place] for row in kept]) for place in range(len(given.columns))]
    rows = list(zip(*columns, strict=True)) if kept else []
    in_all = max(given.rows_in_all, len(given.rows))
    aside = tag("span", f"{whole(len(rows))} of {counted(in_all, 'row')}", class_="soft")
    inner = table(heads, rows, empty="The report is empty.", caption=given.title or "Report")
    title = f"Report {given.title}" if given.title else "Report"
    return section(title, inner, aside=(aside, tag("span", "computed ", relative(found.began_at), class_="soft")))


def _plots(given: RunTable, numbers: Sequence[int]) -> Markup | None:
    rows = given.rows[:_ROWS_PLOTTED]
    if len(rows) < 2 or not numbers:
        return None
    names = [_name(row, numbers) or f"row {place + 1}" for place, row in enumerate(rows)]
    plots = [_plot(given.columns[place], names, [row[place] for row in rows]) for place in numbers[:_COLUMNS_PLOTTED]]
    return tag("div", plots, class_="pair")


def _name(row: Sequence[object], numbers: Sequence[int]) -> str:
    texts = [str(cell) for place, cell in enumerate(row) if place not in numbers and cell is not None]
    return ", ".join(texts)[:_NAME_CHARACTERS]


def _plot(column: str, names: Sequence[str], cells: Sequence[object]) -> Markup:
    values = [
        (name, float(cell) if isinstance(cell, int | float) else 0.0) for name, cell in zip(names, cells, strict=True)
    ]
    return section(worded(column).capitalize(), column_plot(values, label=f"{worded(column)} of each row"))
