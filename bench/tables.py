"""Writes the tables of a run into the docs: `python -m bench.tables bench/results/consignments.json …`.

A table stands between two markers that name its workload, `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`. Workloads
without markers are left alone: their tables are written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
HEADINGS = ("workload", "ours", "reference", "ratio", "goal", "met")
MET = {None: "", True: "yes", False: "**no**"}


def filled(page: str, report: dict[str, Any]) -> str:
    """The page with the tables of this report."""
    for name, workload in report["workloads"].items():
        head, begin, rest = page.partition(f"<!-- bench:{name} -->\n")
        _, end, tail = rest.partition(f"<!-- /bench:{name} -->")
        if end:
            page = f"{head}{begin}\n{table(workload['lines'])}\n\n{_about(report)}\n\n{end}{tail}"
    return page


def table(lines: Sequence[dict[str, Any]]) -> str:
    rows = [HEADINGS, ("---",) * len(HEADINGS), *map(_cells, lines)]
    return "\n".join(f"| {' | '.join(row)} |" if row[0] != "---" else f"|{'|'.join(row)}|" for row in rows)


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    reference, ratio = line["reference"], line["ratio"]
    return (
        line["what"],
        line["ours"]["text"],
        f"{reference['text']} ({reference['name']})" if reference else "",
        f"{ratio:.2f} ×" if ratio is not None else "",
        line["goal"] or "",
        MET[line["met"]],
    )


def _about(report: dict[str, Any]) -> str:
    machine = report["machine"]
    flush = machine["fdatasync_4_kib_seconds"] * 1e3
    return (
        f"Run of {report['date']} on {machine['cores']} cores ({machine['cpu']}), {machine['file_system']}, one flush of 4 KiB "
        f"in {flush:.2f} ms; load average before it {machine['load_average_before']}."
    )


def main(paths: Sequence[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in paths:
        page = filled(page, json.loads(Path(path).read_text(encoding="utf-8")))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
