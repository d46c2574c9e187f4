"""Keeps functions and modules small: prints how long they are, names those above the bounds, and fails on any.

The length of a function is its lines from `def` to its end, docstring included, decorators not.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "restante"

FUNCTION_LINES_MAX = 70
FUNCTION_LINES_P99 = 47
FUNCTION_LINES_MEDIAN = 8
MODULE_LINES_MAX = 500
FOLDER_MODULES_MAX = 24
"""Of modules in one folder; about 20 is aimed at."""


class Piece(NamedTuple):
    """A function or a module: where it is and how long."""

    place: str
    lines: int


def functions_of(path: Path) -> list[Piece]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    where = path.relative_to(ROOT)
    return [
        Piece(f"{where}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in found
    ]


def percentile(pieces: Sequence[Piece], fraction: float) -> int:
    """The smallest length that at least this fraction of the pieces do not exceed."""
    lengths = sorted(piece.lines for piece in pieces)
    return lengths[math.ceil(fraction * len(lengths)) - 1] if lengths else 0


def main() -> int:
    paths = sorted(SOURCE.rglob("*.py"))
    modules = [Piece(str(path.relative_to(ROOT)), len(path.read_text(encoding="utf-8").splitlines())) for path in paths]
    functions = [function for path in paths for function in functions_of(path)]
    folders = [
        Piece(str(folder.relative_to(ROOT)), sum(path.parent == folder for path in paths))
        for folder in sorted({path.parent for path in paths})
    ]
    rows = [
        ("function, median", percentile(functions, 0.5), FUNCTION_LINES_MEDIAN),
        ("function, 99th percentile", percentile(functions, 0.99), FUNCTION_LINES_P99),
        ("function, longest", percentile(functions, 1.0), FUNCTION_LINES_MAX),
        ("module, longest", percentile(modules, 1.0), MODULE_LINES_MAX),
        ("modules in a folder, most", percentile(folders, 1.0), FOLDER_MODULES_MAX),
    ]
    print(f"{len(functions)} functions in {len(modules)} modules; lines:")
    for what, lines, bound in rows:
        print(f"  {what:<26}{lines:>5}  of at most {bound:>3}{'' if lines <= bound else '  TOO LONG'}")
    offenders = [piece for piece in functions if piece.lines > FUNCTION_LINES_MAX]
    offenders += [piece for piece in modules if piece.lines > MODULE_LINES_MAX]
    offenders += [piece for piece in folders if piece.lines > FOLDER_MODULES_MAX]
    if percentile(functions, 0.99) > FUNCTION_LINES_P99:
        offenders += [piece for piece in functions if FUNCTION_LINES_P99 < piece.lines <= FUNCTION_LINES_MAX]
    for piece in sorted(offenders, key=lambda piece: -piece.lines):
        print(f"  {piece.lines:>5}  {piece.place}")
    return int(any(lines > bound for _, lines, bound in rows))


if __name__ == "__main__":
    sys.exit(main())
