"""Holds the documentation against the code: reports everything missing, stale or broken, and fails on any.

A name counts as documented when it stands in code type (between backticks, or in a fenced block) on its page.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
import typing
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path

import msgspec
import typer
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "restante"

FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
LINK = re.compile(
    r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s+(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE
)
CODE_ROW = re.compile(r"^\| `([a-z_]+)` \| (\d{3}) \|", re.MULTILINE)
ROUTE = re.compile(r"^\| `([A-Z]+ /[^`]*)` \| ([a-z, ]+) \|", re.MULTILINE)
UPPER_CASE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
HOUSE = "internals/architecture.md"
UNITS = {"KIB", "MIB", "GIB"}  # In limits.py, yet no limits.


# Pages


def code_on(page: str) -> list[str]:
    """The pieces of code type on a page of docs/; none when the page is missing (which the caller then reports)."""
    path = DOCS / page
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [match[0] for match in FENCE.finditer(text)] + [match[2] for match in SPAN.finditer(FENCE.sub("", text))]


def words_on(page: str) -> set[str]:
    return {word for piece in code_on(page) for word in WORD.findall(piece)}


def missing(what: str, names: Iterable[str], page: str) -> Iterator[str]:
    """A problem for each name that the page does not have."""
    written = words_on(page)
    return (f"docs/{page}: {what} `{name}` is missing" for name in sorted(set(names) - written))


# Errors, settings, limits, commands, routes, metrics, dependencies


def subclasses(parent: type[object]) -> Iterator[type[object]]:
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


def check_errors() -> Iterator[str]:
    errors = importlib.import_module("restante.errors")
    codes = {str(vars(error)["code"]) for error in subclasses(errors.RestanteError) if "code" in vars(error)}
    page = "reference/errors.md"
    yield from missing("error code", codes, page)
    status_of = importlib.import_module("restante.wire.problems").status_of
    for code, status in CODE_ROW.findall((DOCS / page).read_text(encoding="utf-8")):
        if code not in codes:
            yield f"docs/{page}: `{code}` is no error code"
        elif status_of(code) != int(status):
            yield f"docs/{page}: the status of `{code}` is {status_of(code)}, not {status}"


def structs_in(kind: object) -> Iterator[type[msgspec.Struct]]:
    """The Structs that a type annotation speaks of, at any depth of its arguments."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in typing.get_args(kind):
        yield from structs_in(argument)


def fields_of(struct: type[msgspec.Struct]) -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        yield field.encode_name
        for nested in structs_in(field.type):
            yield from fields_of(nested)


def check_settings() -> Iterator[str]:
    settings = importlib.import_module("restante.settings")
    yield from missing("setting", fields_of(settings.Settings), "reference/settings.md")


def check_limits() -> Iterator[str]:
    page = "reference/limits.md"
    limits = {name for name in vars(importlib.import_module("restante.limits")) if name.isupper()} - UNITS
    yield from missing("limit", limits, page)
    stale = {word for word in words_on(page) if UPPER_CASE.fullmatch(word)} - limits
    yield from (f"docs/{page}: `{name}` is no limit of restante.limits" for name in sorted(stale))


def check_spaces() -> Iterator[str]:
    space = importlib.import_module("restante.model.storage.changes").Space
    yield from missing("space", {one.name for one in space}, "internals/storage.md")


def commands_of(app: typer.Typer, path: str) -> Iterator[str]:
    """The full name of each command that is not hidden, such as `restante tour`."""
    for command in app.registered_commands:
        if not command.hidden:
            name = command.name or getattr(command.callback, "__name__", "").rstrip("_").replace("_", "-")
            yield f"{path} {name}"
    for group in app.registered_groups:
        if group.typer_instance is not None and not group.hidden:
            name = group.name or group.typer_instance.info.name
            yield from commands_of(group.typer_instance, f"{path} {name}" if name else path)


def check_commands() -> Iterator[str]:
    page = "reference/commands.md"
    app = getattr(importlib.import_module("restante.cli"), "app", None)
    if not isinstance(app, typer.Typer):
        yield "restante.cli: there is no Typer named `app`"
        return
    code = "\n".join(code_on(page))
    for command in commands_of(app, "restante"):
        if not re.search(rf"{re.escape(command)}(?![\w-])", code):
            yield f"docs/{page}: command `{command}` is missing"


def check_routes() -> Iterator[str]:
    """Every route is in a table of the page with its method, the roles that it takes, and nothing is there besides."""
    page = "reference/http.md"
    app = importlib.import_module("restante.server.app")
    routes = app.ROUTES
    wanted = {f"{route.method} {route.path}": roles_of(route.roles) for route in routes}
    wanted |= {f"WS {socket.path}": roles_of(socket.roles) for socket in app.SOCKETS}
    path = DOCS / page
    found = dict(ROUTE.findall(path.read_text(encoding="utf-8") if path.exists() else ""))
    for name, roles in wanted.items():
        if name not in found:
            yield f"docs/{page}: route `{name}` is missing"
        elif set(found[name].split(", ")) != set(roles.split(", ")):
            yield f"docs/{page}: route `{name}` takes {roles}, not {found[name]}"
    yield from missing("query parameter", {name for route in routes for name in route.query}, page)
    yield from (f"docs/{page}: `{name}` is no route" for name in sorted(found.keys() - wanted.keys()))


def roles_of(roles: frozenset[Enum] | None) -> str:
    """The roles of a route, as the page has them; that an operator may use every one is said once."""
    if roles is None:
        return "none"
    return ", ".join(str(role.value) for role in roles) or "operator"


def metrics_of_a_hub() -> Iterator[str]:
    """The names of the metrics as a scraper sees them, of a hub that is opened for it in memory."""
    serving = importlib.import_module("restante.server.serve")
    store = importlib.import_module("restante.stores.memory").MemoryStore()
    with serving.start(None, store=store) as running:
        for family in running.desk.metrics.registry.collect():
            yield f"{family.name}_total" if family.type == "counter" else family.name


def check_metrics() -> Iterator[str]:
    page = "reference/metrics.md"
    metrics = set(metrics_of_a_hub())
    yield from missing("metric", metrics, page)
    stale = {word for word in words_on(page) if word.startswith("restante_")} - metrics
    stale -= {f"{name}_bucket" for name in metrics}
    yield from (f"docs/{page}: `{name}` is no metric" for name in sorted(stale))


def check_dependencies() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted: list[str] = list(project["project"]["dependencies"])
    for extra in project["project"].get("optional-dependencies", {}).values():
        wanted += extra
    for group in project["dependency-groups"].values():
        wanted += [entry for entry in group if isinstance(entry, str)]
    names = {match[0] for match in map(WORD.match, wanted) if match}
    yield from missing("dependency", names - {project["project"]["name"]}, "internals/dependencies.md")


# Links and navigation


def links_of(path: Path) -> Iterator[str]:
    """The relative targets that a page links to, without their anchors."""
    text = SPAN.sub("", FENCE.sub("", path.read_text(encoding="utf-8")))
    for match in LINK.finditer(text):
        target = (match[1] or match[2] or match[3]).partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            yield target


def check_entrances() -> Iterator[str]:
    """Both first pages link to every page; the pages about single decisions have an index of their own."""
    decisions = DOCS / "internals" / "decisions"
    pages = {page for page in DOCS.rglob("*.md") if page.parent != decisions} | {decisions / "index.md"}
    yield from unlinked(ROOT / "README.md", pages)
    yield from unlinked(DOCS / "index.md", pages)
    yield from unlinked(decisions / "index.md", set(decisions.glob("*.md")))


def unlinked(entrance: Path, pages: set[Path]) -> Iterator[str]:
    linked = {(entrance.parent / target).resolve() for target in links_of(entrance)}
    for page in sorted(pages - linked - {entrance, DOCS / "index.md"}):
        yield f"{entrance.relative_to(ROOT)}: no link leads to {page.relative_to(ROOT)}"


def check_links() -> Iterator[str]:
    pages = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
    if not (ROOT / "README.md").exists():
        yield "README.md: is missing"
    for page in pages:
        for target in links_of(page):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: the link to {target} leads nowhere"


TARGET = re.compile(r"^([a-z][a-z-]*)(%?):", re.MULTILINE)
MADE = re.compile(r"(?:`|\$ )make ([a-z][a-z-]*)")


def check_targets() -> Iterator[str]:
    """The Makefile has every target that a page names. The changelog also names targets that are gone."""
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    whole, begun = {name for name, more in targets if not more}, tuple(name for name, more in targets if more)
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]:
        for name in MADE.findall(page.read_text(encoding="utf-8")):
            if name not in whole and not name.startswith(begun):
                yield f"{page.relative_to(ROOT)}: the Makefile has no target {name}"


HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHORED = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)")


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as Python-Markdown makes it."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings. Of equal headings only the first can be linked to."""
    return {anchor_of(heading) for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))}


def check_anchors() -> Iterator[str]:
    for page in [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]:
        for target, anchor in ANCHORED.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path = page.parent / target if target else page
            if path.suffix == ".md" and path.exists() and anchor not in anchors_of(path):
                yield f"{page.relative_to(ROOT)}: {target or 'the page'} has no heading for #{anchor}"


def pages_in(nav: object) -> Iterator[str]:
    """The pages that a navigation tree of lists, dicts and paths names."""
    if isinstance(nav, str):
        if "://" not in nav:
            yield nav
    elif isinstance(nav, dict):
        for entry in nav.values():
            yield from pages_in(entry)
    elif isinstance(nav, list):
        for entry in nav:
            yield from pages_in(entry)


def check_navigation() -> Iterator[str]:
    """Everything in docs/ can be reached: from the navigation, or by links from there on."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    named = [*pages_in(config["nav"]), *map(str, config["extra_css"]), *map(str, config["extra_javascript"])]
    waiting = [(DOCS / page).resolve() for page in named]
    yield from (f"mkdocs.yml: docs/{page} is missing" for page in named if not (DOCS / page).exists())
    reached: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in reached or not path.is_file():
            continue
        reached.add(path)
        if path.suffix == ".md":
            waiting += [(path.parent / target).resolve() for target in links_of(path)]
    for path in sorted(DOCS.rglob("*")):
        if path.is_file() and path.resolve() not in reached:
            yield f"{path.relative_to(ROOT)}: nothing in the navigation leads to it"


def folders_in(place: Path) -> set[Path]:
    """The folders directly below `place` that hold files, whether they have an `__init__.py` or not."""
    files = (path.relative_to(place).parts for path in place.rglob("*") if path.is_file())
    return {place / parts[0] for parts in files if len(parts) > 1 and "__pycache__" not in parts}


def folders_below(place: Path) -> set[Path]:
    return {folder for one in folders_in(place) for folder in (one, *folders_below(one))}


def check_rooms() -> Iterator[str]:
    """Every folder of the package is on the page about the architecture, and no other."""
    folders = {path.relative_to(SOURCE).as_posix() for path in folders_below(SOURCE)}
    text = (DOCS / HOUSE).read_text(encoding="utf-8")
    yield from (f"docs/{HOUSE}: folder `{name}/` is missing" for name in sorted(folders) if f"`{name}/`" not in text)
    named = {name.rstrip("/") for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`", text)}
    yield from (f"docs/{HOUSE}: there is no folder `{name}/`" for name in sorted(named - folders))


def check_threads() -> Iterator[str]:
    """The table of threads has every thread that the code starts, and no other."""
    tasks = importlib.import_module("restante.hub.door.subjects").TASKS
    threads = {f"restante-{task.name}" for task in tasks}
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" not in path.relative_to(SOURCE).parts:
            names = set(thread_names(ast.parse(path.read_text(encoding="utf-8"))))
            if path == SOURCE / "hub" / "engine" / "tasks.py":
                names.discard("restante-…")  # These are the tasks.
            if None in names:
                yield f"{path.relative_to(ROOT)}: a thread has no name that begins with `restante-`"
            threads.update(filter(None, names))
    table = (DOCS / HOUSE).read_text(encoding="utf-8").partition("\n## Threads\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    yield from (f"docs/{HOUSE}: thread `{name}` is missing" for name in sorted(threads - listed))
    yield from (f"docs/{HOUSE}: no code starts a thread `{name}`" for name in sorted(listed - threads))


STARTERS = {"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "start_new_thread", "Sender"}
"""The names of calls that start threads. The threads of a `Sender` are named where the `Sender` is made."""


def thread_names(tree: ast.Module) -> Iterator[str | None]:
    """The names of the threads that a module starts; None for a thread that is not named `restante-…`.

    `restante-job-{name}` is `restante-job-…`. The default threads of an event loop are `asyncio_…`.
    """
    nodes = list(ast.walk(tree))
    imports = [one for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names]
    spelled = {one.asname: one.name for one in imports if one.asname}

    def last(called: ast.expr) -> str:
        name = ast.unparse(called).rpartition(".")[2]
        return spelled.get(name, name)

    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    own = {id(node) for one in classes if one.name in STARTERS for node in ast.walk(one)}
    for one in classes:
        if any(last(base) in STARTERS for base in one.bases):
            yield next((_thread_name(node) for node in _calls(one) if last(node.func) == "__init__"), None)
    later = _names_given_later(nodes)
    for node in _calls(tree):
        if last(node.func) in STARTERS and id(node) not in own:
            yield _thread_name(node) or later.get(id(node))
        by_default = last(node.func) == "run_in_executor" and _text_of(node.args[0]) == "None"
        if by_default or last(node.func) == "to_thread":
            yield "asyncio_…"


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _thread_name(call: ast.Call) -> str | None:
    said = [word.value for word in call.keywords if word.arg in ("name", "thread_name_prefix")]
    return next((name for name in map(_text_of, [*said, *call.args]) if name.startswith("restante-")), None)


def _names_given_later(nodes: Iterable[ast.AST]) -> dict[int, str]:
    """The names that threads are given after they are made, as a `Timer` is: `timer.name = "restante-…"`, by their calls."""
    found: dict[int, str] = {}
    for function in nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            said = {ast.unparse(one.targets[0]): one.value for one in ast.walk(function) if isinstance(one, ast.Assign)}
            for target, value in said.items():
                name = _text_of(said.get(f"{target}.name", value))
                if name.startswith("restante-"):
                    found[id(value)] = name
    return found


def _text_of(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


LAYERS = ("model", "hub", "client", "cli")
"""The packages whose folders are subjects."""
NO_SUBJECT = {"door"}
"""The folders of the hub that are none."""


def check_packages() -> Iterator[str]:
    """Packages stand in the tree of CONTRIBUTING.md; subjects, folders of the hub or of several layers, in its list."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    packages = {path.name for path in folders_in(SOURCE)}
    tree = set(re.findall(r"^    ([a-z]+)/", text, re.MULTILINE))
    yield from (f"CONTRIBUTING.md: package {name}/ is missing" for name in sorted(packages - tree))
    yield from (f"CONTRIBUTING.md: there is no package {name}/" for name in sorted(tree - packages))
    folders = Counter(path.name for layer in LAYERS for path in folders_in(SOURCE / layer))
    subjects = {path.name for path in folders_in(SOURCE / "hub")} - NO_SUBJECT
    subjects |= {name for name, layers in folders.items() if layers > 1}
    paragraph = text.partition("the folders are subjects")[2].partition("`docs/")[0]
    listed = set(re.findall(r"`([a-z_]+)`", paragraph))
    yield from (f"CONTRIBUTING.md: subject `{name}` is missing" for name in sorted(subjects - listed))
    yield from (f"CONTRIBUTING.md: `{name}` is no subject" for name in sorted(listed - subjects))


def check_places() -> Iterator[str]:
    """A module, and a name in it, that a page about the inside points at, is there."""
    page = "internals/testing.md"
    for module, name in re.findall(r"`([a-z_/]+\.py)`, `(\w+)`", (DOCS / page).read_text(encoding="utf-8")):
        path = SOURCE / module
        if not (path.exists() and re.search(rf"\b{name}\b", path.read_text())):
            yield f"docs/{page}: there is no `{name}` in `{module}`"
    for path in (ROOT / "CONTRIBUTING.md", *sorted((DOCS / "internals").glob("*.md"))):
        for module in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", path.read_text(encoding="utf-8")):
            if not any((place / module).exists() for place in (SOURCE, ROOT)):
                yield f"{path.relative_to(ROOT)}: there is no `{module}`"
    routes = {path.stem for path in (SOURCE / "server" / "routes").glob("*.py")}
    table = (DOCS / "internals" / "architecture.md").read_text(encoding="utf-8").partition("### The subjects")[2]
    for row in re.findall(r"^\|.*\|([^|]*)\|$", table.partition("###")[0], re.MULTILINE):
        yield from (
            f"docs/internals/architecture.md: there is no `server/routes/{name}.py`"
            for name in re.findall(r"`(\w+)`", row)
            if name not in routes
        )


CHECKS = (
    check_rooms,
    check_threads,
    check_packages,
    check_places,
    check_errors,
    check_settings,
    check_limits,
    check_spaces,
    check_commands,
    check_routes,
    check_metrics,
    check_dependencies,
    check_entrances,
    check_links,
    check_targets,
    check_anchors,
    check_navigation,
)


def main() -> int:
    problems = [problem for check in CHECKS for problem in check()]
    for problem in problems:
        print(problem)
    print(f"docs against code: {len(problems)} problems" if problems else "docs against code: all true")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
