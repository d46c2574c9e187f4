"""Keeps the shape of the code: how long functions and modules are, how full folders, and what files and classes are called.

Prints the lengths, names what is above the bounds, and fails on any.

The length of a function is its lines from `def` to its end, docstring included, decorators not.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "restante"

FUNCTION_LINES_MAX = 70
FUNCTION_LINES_P99 = 47
FUNCTION_LINES_MEDIAN = 8
MODULE_LINES_MAX = 500
FOLDER_MODULES_MAX = 20
"""The number of modules in one folder."""
TWINS = ("sync", "async")
"""How modules end whose classes have one name and mean one thing: one waits, one is asynchronous."""
PER_JOB = "Options"
"""The name of the struct of its options in each job's module; the registry of jobs asks for it by this name."""
CAPITALIZED = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
"""The names of types; those of constants have no small letters."""
ALIASED = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)
"""The nodes that an alias of a type may stand for. Type variables are calls, and no aliases."""

NOUNS = frozenset({"filing", "hashing", "incoming", "outgoing", "publishing", "testing"})
"""Names of files that end in -ing and are nouns, of the glossary or of everybody's language. Others say nothing to a reader
who has not opened the file."""
SILENT = frozenset({"deeds", "doubts", "lay_out", "out_forms", "outtake", "patience", "post", "seen", "shares", "ways"})
"""Names of files that say nothing to a reader who has not opened the file."""
INSIDE = "hub.core"
"""The part that only the hub, and the code that builds one, may touch."""
OUTSIDE = ("cli", "client", "cluster", "console", "server", "spark")
"""Packages that ask a hub."""

DECODERS = "decoders.py"
"""The module that makes decoders, and says why nobody else does."""
TYPED = frozenset({"Decoder", "convert"})
"""The names of msgspec that lay a struct out; `decode` does when it is given a type."""


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


def types_of(path: Path) -> dict[str, str]:
    """The public classes and aliases of types of a module: of a class its place, for each is one of its own; of an alias its meaning."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    found = {node.name: str(path) for node in tree.body if isinstance(node, ast.ClassDef)}
    found |= dict(alias for node in tree.body for alias in _alias(node))
    return {name: meaning for name, meaning in found.items() if not name.startswith("_")}


def _alias(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The name and the meaning of an alias of a type: `X = …`, `X: TypeAlias = …` or `type X = …`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if CAPITALIZED.fullmatch(name):
            if isinstance(value, ALIASED):
                yield name, ast.unparse(value)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
            if ast.unparse(annotation).endswith("TypeAlias"):
                yield name, ast.unparse(value)
        case _ if type(node).__name__ == "TypeAlias":
            yield ast.unparse(node.name), ast.unparse(node.value)  # type: ignore[attr-defined]  # from Python 3.12 on


def names_shared(paths: Sequence[Path]) -> list[str]:
    """Public types of one name that mean several things, and are not twins: at most one module for each of the endings of twins."""
    places: dict[str, dict[Path, str]] = {}
    for path in paths:
        for name, meaning in types_of(path).items():
            places.setdefault(name, {})[path] = meaning
    return [
        f"{name}: {', '.join(str(path.relative_to(SOURCE)) for path in found)}"
        for name, found in sorted(places.items())
        if len(set(found.values())) > 1 and name != PER_JOB and not _are_twins(list(found))
    ]


def _are_twins(paths: Sequence[Path]) -> bool:
    endings = [path.stem.replace("asynchronous", "async").rpartition("_")[2] for path in paths]
    return len(set(endings)) == len(endings) and set(endings) <= set(TWINS)


def gerunds(paths: Sequence[Path]) -> list[str]:
    """Files whose names end in a gerund."""
    last = {path: path.stem.rpartition("_")[2] for path in paths}
    return [str(path.relative_to(SOURCE)) for path in paths if last[path].endswith("ing") and last[path] not in NOUNS]


def silent(paths: Sequence[Path]) -> list[str]:
    """Files whose names say nothing."""
    return [str(path.relative_to(SOURCE)) for path in paths if path.stem in SILENT]


def reached_into(paths: Sequence[Path]) -> list[str]:
    """Lines of packages that ask a hub, in which they reach into it."""
    return [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in paths
        if path.relative_to(SOURCE).parts[0] in OUTSIDE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if INSIDE in line
    ]


def decoders_made(path: Path) -> list[str]:
    """Lines in which a decoder for a type is made with msgspec itself."""
    if path.name == DECODERS:
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_of_msgspec(node.func)]
    return [f"{path.relative_to(SOURCE)}:{node.lineno}" for node in calls if _lays_out(node)]


def _is_of_msgspec(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and ast.unparse(function).startswith("msgspec.")


def _lays_out(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in TYPED or (name == "decode" and any(keyword.arg == "type" for keyword in call.keywords))


def main() -> int:
    paths = sorted(SOURCE.rglob("*.py"))
    wrong = [f"one name, several types: {line}" for line in names_shared(paths)]
    wrong += [f"a file's name is a noun or a plain verb, no gerund: {line}" for line in gerunds(paths)]
    wrong += [
        f"a file's name is a word of the glossary or a plain verb, and says what is in it: {line}"
        for line in silent(paths)
    ]
    wrong += [f"ask the hub, and leave its core alone: {line}" for line in reached_into(paths)]
    wrong += [f"decoders are made in {DECODERS}: {line}" for path in paths for line in decoders_made(path)]
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
    for line in wrong:
        print(f"  {line}")
    return int(bool(wrong) or any(lines > bound for _, lines, bound in rows))


if __name__ == "__main__":
    sys.exit(main())
