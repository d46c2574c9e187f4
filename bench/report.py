"""The report of a run: a table on the screen, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.outcome import Figure, Line, Outcome, bytes_text, seconds_text
from bench.scale import QUICK, Scale


@dataclass(slots=True)
class Report:
    command: str
    date: str
    scale: Scale
    machine: dict[str, object]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """The facts of each server that was asked to take part: version and settings, or what is missing."""

    def as_json(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "date": self.date,
            "scale": asdict(self.scale),
            "machine": self.machine,
            **({"servers": self.servers} if self.servers else {}),
            "workloads": {
                name: {
                    "seconds": round(self.seconds[name], 1),
                    "lines": [_line_json(line) for line in outcome.lines],
                    "series": outcome.series,
                    "notes": outcome.notes,
                    **_figures_json(outcome),
                }
                for name, outcome in self.outcomes.items()
            },
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n")

    def print(self, console: Console) -> None:
        smaller = "; much smaller than the lines say" if self.scale is QUICK else ""
        table = Table("workload", title=f"restante, {self.scale.name} run of {self.date}{smaller}")
        for heading in ("ours", "reference", "ratio"):
            table.add_column(heading, justify="right")
        table.add_column("goal")
        table.add_column("met?")
        for outcome in self.outcomes.values():
            for line in outcome.lines:
                table.add_row(*_cells(line))
            table.add_section()
        if any(outcome.lines for outcome in self.outcomes.values()):
            console.print(table)
        if any(outcome.figures for outcome in self.outcomes.values()):
            console.print(self._all_figures())
        for name, facts in self.servers.items():
            console.print(f"[bold]{name}[/bold]: {'; '.join(facts.values())}")
        for note in self._notes():
            console.print(note, style="dim")

    def _all_figures(self) -> Table:
        """Every way that was measured, those that no line names among them."""
        table = Table("workload", "way", title="every way, as measured")
        table.add_column("median", justify="right")
        table.add_column("from … to", justify="right", style="dim")
        for outcome in self.outcomes.values():
            for what, figure in outcome.figures:
                table.add_row(what, figure.name, figure.text, _spread(figure))
            table.add_section()
        return table

    def _notes(self) -> Sequence[str]:
        facts = ", ".join(f"{name} {_fact(name, value)}" for name, value in self.machine.items())
        return [f"machine: {facts}", *(note for outcome in self.outcomes.values() for note in outcome.notes)]


def _fact(name: str, value: object) -> str:
    if name.endswith("_seconds") and isinstance(value, float):
        return seconds_text(value)
    return bytes_text(value) if name.endswith("_bytes") and isinstance(value, int) else str(value)


def _cells(line: Line) -> tuple[str, ...]:
    reference = "" if line.reference is None else f"{line.reference.text} ({line.reference.name})"
    ratio = "" if line.ratio is None else f"{line.ratio:.2f} ×"
    goal = "" if line.goal is None else line.goal.text
    return (
        line.what,
        line.ours.text,
        reference,
        ratio,
        goal,
        {None: "", True: "yes", False: "[bold]NO[/bold]"}[line.met],
    )


def _spread(figure: Figure) -> str:
    if not figure.samples:
        return ""
    return " … ".join(Figure(value, figure.unit).text for value in (min(figure.samples), max(figure.samples)))


def _figures_json(outcome: Outcome) -> dict[str, Any]:
    found = [{"what": what, **_figure_json(figure)} for what, figure in outcome.figures]
    return {"figures": found} if found else {}


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "what": line.what,
        "ours": _figure_json(line.ours),
        "reference": None if line.reference is None else _figure_json(line.reference),
        "ratio": line.ratio,
        "goal": None if line.goal is None else line.goal.text,
        "met": line.met,
    }


def _figure_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit.value,
        "text": figure.text,
        "samples": list(figure.samples),
    }
