"""Gives the protocols of the client's surface the signatures of the classes that keep them. With `--check`: names stale ones.

A protocol (`Recipient` in `surface.py`) has its docstrings, its properties and its order by hand. The signature of a method that the
class (`Recipient` in `recipient_sync.py`) has too is copied from there, and a method that the protocol lacks is added. So an
option of a call is written once, in the asynchronous surface.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "restante" / "client"
FORMAT = (sys.executable, "-m", "ruff", "--config", str(ROOT / "pyproject.toml"), "format", "--quiet")

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "batches/batch_surface.py": ("batches/acknowledger_sync.py", "batches/batches_sync.py"),
    "consignments/consignment_surface.py": ("consignments/consignments_sync.py",),
    "feed/feed_surface.py": ("feed/feed_sync.py",),
    "jobs/job_surface.py": ("jobs/jobs_sync.py",),
    "live/live_surface.py": ("live/live_sync.py",),
    "sources/source_surface.py": ("sources/sources_sync.py",),
    "surface/surface.py": ("publishing/pipeline_sync.py", "surface/recipient_sync.py", "surface/sync.py"),
}
"""From a module of protocols to those that keep them, in `restante.client`."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a protocol is stale")
    check = parser.parse_args(arguments).check
    stale = list(outdated(CLIENT, PROTOCOLS))
    for path, text in stale:
        if not check:
            path.write_text(text, encoding="utf-8")
        print(
            f"{path.relative_to(ROOT)} is stale: run `make generate`." if check else f"wrote {path.relative_to(ROOT)}"
        )
    return int(check and bool(stale))


def outdated(folder: Path, protocols: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Path, str]]:
    """The modules of protocols whose signatures are not those of the classes that keep them, with what they should be."""
    for protocol, sources in protocols.items():
        text = _formatted(renewed(folder, protocol, sources), folder / protocol)
        if (folder / protocol).read_text(encoding="utf-8") != text:
            yield folder / protocol, text


def _formatted(text: str, path: Path) -> str:
    command = [*FORMAT, "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def renewed(folder: Path, protocol: str, sources: tuple[str, ...]) -> str:
    """The text of a module of protocols, with the signatures that its sources have now; not yet formatted."""
    kept = {name: methods for source in sources for name, methods in _classes(folder / source)}
    text = (folder / protocol).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    # From the end, so that the places before it stay true.
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ClassDef) and node.name in kept:
            _renew(lines, node, kept[node.name])
    return "".join(lines)


def _classes(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The classes of a module, each with the signatures of its public methods."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, {each.name: _signature(lines, each) for each in _methods(node)}


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The public methods of a class in their order; properties are none."""
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    return [each for each in functions if not each.decorator_list and not each.name.startswith("_")]


def _signature(lines: list[str], node: ast.FunctionDef) -> str:
    """The text from `def` to the colon."""
    first = node.body[0]
    written = [*lines[node.lineno - 1 : first.lineno - 1], lines[first.lineno - 1][: first.col_offset]]
    return "".join(written).rstrip()


def _renew(lines: list[str], node: ast.ClassDef, signatures: Mapping[str, str]) -> None:
    """Put the signatures into a protocol, the last of its methods first."""
    methods = _methods(node)
    lacking = signatures.keys() - {each.name for each in methods}
    end = node.end_lineno or node.lineno
    lines[end:end] = [f"{text} ...\n" for name, text in signatures.items() if name in lacking]
    for each in reversed(methods):
        if each.name in signatures:
            start, stop = each.lineno - 1, each.body[0].lineno
            written = "".join(lines[start:stop])
            lines[start:stop] = [written.replace(_signature(lines, each), signatures[each.name], 1)]


if __name__ == "__main__":
    sys.exit(main())
