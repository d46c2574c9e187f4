"""Keeps times out of what tests assert: a machine that is busy takes longer, and its tests must pass all the same.

No test compares how long something took: the difference of two looks at a clock, in the comparison or in a name. A promise
about time is measured by the benchmarks; a test asserts what came before what, or how often. A deadline (`until = clock() +
60`, `clock() < until`) is no such comparison: it only ends a test that hangs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCKS = frozenset(
    {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time", "time"}
)
"""The names of functions that read a clock. Fakes of tests have others."""
MODULES = frozenset({"time", "loop"})
"""The names in front of them."""


def compared_times(source: str) -> Iterator[int]:
    """The lines on which how long something took is compared."""
    tree = ast.parse(source)
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        readings = _named(scope, _reads_clock)
        spans = _named(scope, partial(_is_span, readings=readings))
        for found in (node for node in ast.walk(scope) if isinstance(node, ast.Compare)):
            sides = (found.left, *found.comparators)
            if any(_is_span(side, readings) or (isinstance(side, ast.Name) and side.id in spans) for side in sides):
                yield found.lineno


def _named(scope: ast.AST, wanted: Callable[[ast.AST], bool]) -> set[str]:
    """The names to which a function assigns such values."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = (
                    zip(target.elts, node.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                    else [(target, node.value)]
                )
                found |= {name.id for name, value in pairs if isinstance(name, ast.Name) and wanted(value)}
    return found


def _reads_clock(value: ast.AST) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in CLOCKS
        and isinstance(value.func.value, ast.Name)
        and value.func.value.id in MODULES
    )


def _is_span(value: ast.AST, readings: set[str]) -> bool:
    """Whether a value has a difference of readings of a clock in it."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and any(
            _reads_clock(side) or (isinstance(side, ast.Name) and side.id in readings)
            for side in (node.left, node.right)
        )
        for node in ast.walk(value)
    )


def main() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line}: how long something took is compared"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in sorted(set(compared_times(path.read_text(encoding="utf-8"))))
    ]
    print("\n".join(faults) or "tests: no times asserted")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
