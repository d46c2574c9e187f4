"""The outcome of a job, for people and for programs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from restante.cli.shared.output import output, print_json, table_of
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from restante.spark.jobs.work import Outcome

_ROWS_SHOWN_MAX = 20


def print_outcome(name: str, outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        rows = None if outcome.table is None else outcome.table.to_pylist()
        print_json({"job": name, "figures": outcome.figures, "title": outcome.title, "table": rows})
        return
    if outcome.table is not None:
        print_table(outcome.table, outcome.title)
    console = output()
    for figure, value in outcome.figures.items():
        console.print(plain(f"{worded(figure):<24} {shown(value)}"), soft_wrap=True)


def print_table(table: pa.Table, title: str | None, *, rows_max: int = _ROWS_SHOWN_MAX) -> None:
    """The first rows, and how many more there are."""
    console = output()
    if title:
        console.print(f"\n{plain(title)}", style="bold")
    console.print(table_of_rows(table.slice(0, rows_max)))
    if table.num_rows > rows_max:
        console.print(f"and {counted(table.num_rows - rows_max, 'row')} more\n")


def table_of_rows(table: pa.Table) -> Table:
    rows = [[shown(value) for value in row.values()] for row in table.to_pylist()]
    numbers = [name for name in table.column_names if _is_number(table, name)]
    headings = {name: worded(name) for name in table.column_names}
    return table_of(list(headings.values()), rows, right=[headings[name] for name in numbers])


def _is_number(table: pa.Table, name: str) -> bool:
    kind = str(table.schema.field(name).type)
    return kind.startswith(("int", "uint", "float", "double", "decimal"))


def worded(name: str) -> str:
    """`oldest_waiting` as people read it."""
    return name.replace("_", " ")


def shown(value: Any) -> str:  # noqa: ANN401  # whatever a job has to say
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return clock_time(value) if isinstance(value, datetime) else str(value)
