"""Holds what users read to plain words: fails on words of the inside, and on words that nobody says.

Looked at are the README, the pages of docs/ that are not about the inside, every help text of the command line, the help
of every metric, the texts of the tour, the API description with its pages, every text that the code may show (errors,
log lines), and the docstrings of the client, which `help()` shows. Words of the inside (docs/internals/glossary.md) may
stand in the reference, where a page can explain them; in the README, in guides, help, metrics and the tour they are out.

And every docstring and comment of the package, of bench, examples and tools names its thing in the first clause: "The answer
of a peek", not "What a peek answered" or "From the hub: …"; that of a class does not begin with How, Where or Why. No later
sentence begins with a question word in place of a noun, and none leaves open who does something: it names the caller, the
shard, the thread.
"""

from __future__ import annotations

import ast
import importlib
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PLAIN = re.compile(
    r"\b(whoever|whomever|tells|(?<!Made-)anew|mend(s|ed|ing)?|(?<!fall )(?<!falls )behind(?! a proxy))\b",
    re.IGNORECASE,
)
"""Not said: who does it, what happens, again, fix or correct, after."""
NAMELESS = re.compile(
    r"(What|Whoever|Who|Those|That|It|Its|So|Of|And|Or|Then)\b"
    r"|(Whether|How|Why|When|Where)( often| far| long| many)? (it|they)\b"
    r"|The same([,;.]| (for|as|of|in|on|without|if|where|after)\b)"
    r"|(All|One|Some) (of (it|them|these|those|many|several|a few)|that|up to|at once)\b"
)
"""How a docstring or a comment begins whose first clause does not say what it is about."""
NAMELESS_DOCSTRING = re.compile(rf"{NAMELESS.pattern}|(To|From|By|In|On|Through|Such|Says)\b")
"""How a docstring begins so, too: it says where, or for whom, before it says what."""
NAMELESS_CLASS = re.compile(rf"{NAMELESS_DOCSTRING.pattern}|(How|Where|Why)\b")
"""How the docstring of a class begins so, too: a class is a thing, not a question."""
FACELESS = re.compile(
    r"(?<=[.;] )(Who|Whom|Whose|What)\b(?! must stay true)[^.;?]*[.;]"
    r"|\b(somebody|whoever|whomever|who asks|whence|thereby)\b",
    re.IGNORECASE,
)
"""A sentence of a docstring or a comment that does not say who does something, or what."""
INSIDE = re.compile(r"\b(mailbags?|shelf|shelves|drawers?|filing|cabinets?)\b", re.IGNORECASE)
CODE = re.compile(r"`[^`\n]+`")
"""A name of the code: a guide may say how a setting or a measure is called."""
SAMPLES = ("samples", "cli/serving")
SOURCES = ROOT / "src" / "restante"
COMMENTED = (SOURCES, *(ROOT / folder for folder in ("bench", "examples", "tools")))
DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
GUIDES = ("README.md", "docs/index.md", "docs/concepts.md", "docs/guide", "docs/tutorial")


def pages() -> Iterator[tuple[str, str]]:
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        if DOCS / "internals" not in page.parents:
            yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


def helps() -> Iterator[tuple[str, str]]:
    app = importlib.import_module("restante.cli").app
    yield from _helps_of(typer.main.get_command(app), "restante")


def _helps_of(command: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - a command of Click, or a group
    yield f"{path} --help", command.help or ""
    yield from ((f"{path} {one.opts[0]}", one.help) for one in command.params if getattr(one, "help", None))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps_of(inner, f"{path} {name}")


def metrics() -> Iterator[tuple[str, str]]:
    serving = importlib.import_module("restante.server.serve")
    store = importlib.import_module("restante.stores.memory").MemoryStore()
    with serving.start(None, store=store) as running:
        for family in running.desk.metrics.registry.collect():
            yield f"the metric {family.name}", family.documentation


def tour() -> Iterator[tuple[str, str]]:
    """The texts in the modules of the tour, less what explains the code."""
    for folder in SAMPLES:
        for path in sorted((ROOT / "src" / "restante" / folder).glob("*.py")):
            yield from ((path.relative_to(ROOT).as_posix(), text) for text in _texts_of(ast.parse(path.read_text())))


def _texts_of(tree: ast.Module) -> Iterator[str]:
    remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in remarks:
            yield node.value


def shown_texts() -> Iterator[tuple[str, str]]:
    """Every text of the code that a user may read: sentences, not names."""
    for path in sorted(SOURCES.rglob("*.py")):
        texts = _texts_of(ast.parse(path.read_text(encoding="utf-8")))
        yield from ((path.relative_to(ROOT).as_posix(), text) for text in texts if " " in text.strip())


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of the client, which `help()` shows."""
    for path in sorted((SOURCES / "client").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, DOCUMENTED) and not node.name.startswith("_"):
                yield f"{path.relative_to(ROOT).as_posix()}, {node.name}", ast.get_docstring(node) or ""


def remarks(source: str) -> Iterator[tuple[int, str, re.Pattern[str]]]:
    """The docstrings of a module, its classes, functions and values, and its comments: line, text, and how it may not begin."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for place, statement in enumerate(body if isinstance(body, list) else ()):
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    is_of_class = isinstance(node, ast.ClassDef) and not place
                    beginnings = NAMELESS_CLASS if is_of_class else NAMELESS_DOCSTRING
                    yield statement.lineno, " ".join(text.split()), beginnings
                case _:
                    pass
    yield from ((line, text, NAMELESS) for line, text in comments(source))


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a module; neighbouring lines that hold nothing else are one."""
    found: dict[int, str] = {}
    first, end = 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, text = token.start[0], token.string.lstrip("# ")
            is_alone = not token.line[: token.start[1]].strip()
            first = first if is_alone and line == end + 1 else line
            end = line if is_alone else -1
            found[first] = f"{found[first]} {text}" if first in found else text
    yield from found.items()


def nameless(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module that do not say who, or what, they are about: line, words."""
    for line, text, beginnings in remarks(source):
        if beginnings.match(text):
            yield line, text[:50]
        yield from ((line, match[0][:50]) for match in FACELESS.finditer(text))


def api() -> Iterator[tuple[str, str]]:
    app = importlib.import_module("restante.server.app")
    openapi = importlib.import_module("restante.server.openapi.document").document(app.ROUTES)
    yield "/openapi.json", json.dumps(openapi, ensure_ascii=False)
    yield "/asyncapi.json", importlib.import_module("restante.server.asyncapi.document").encoded(app.SOCKETS).decode()
    pages = importlib.import_module("restante.server.openapi.html_pages.problem_page")
    yield "/docs/problems", pages.page().decode()


def found(source: str, text: str, *words: re.Pattern[str]) -> Iterator[str]:
    for pattern in words:
        for match in pattern.finditer(text):
            around = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
            yield f"{source}: {match[0]!r} in “…{around}…”"


def problems() -> Iterator[str]:
    for source, text in pages():
        yield from found(source, text, PLAIN)
        if source.startswith(GUIDES):
            yield from found(source, CODE.sub("…", text), INSIDE)
    for told in (helps, metrics, tour):
        for source, text in told():
            yield from found(source, text, PLAIN, INSIDE)
    for path in sorted(path for folder in COMMENTED for path in folder.rglob("*.py")):
        for line, text in nameless(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(ROOT).as_posix()}:{line}"
            yield f"{place}: name the thing in the first clause (The …, or a verb), not “{text}…”"
    for told in (api, shown_texts, docstrings):
        for source, text in told():
            yield from found(source, text, PLAIN)


def main() -> int:
    wrong = list(problems())
    print("\n".join(wrong) if wrong else "words: all plain")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
