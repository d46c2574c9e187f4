"""Writes the modules for programs that wait from those for asynchronous programs. With `--check`: names those that are stale.

The asynchronous module is the source. `async` and `await` are dropped, names are changed by the tables below, and so are the
words of docstrings and comments. Two comments say where the two differ in a line or so, each on a line of its own:

- `# async only`: the statement below it is left out.
- `# sync: code`: this code takes its place.

Where they differ in more than that, the difference is in modules of its own, which have the same names and are written by
hand: `BY_HAND` lists them. Imports that are not needed any more are removed by the linter, and the formatter has the last word.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "restante" / "client"
RUFF = (sys.executable, "-m", "ruff", "--config", str(ROOT / "pyproject.toml"))

GENERATED: Mapping[str, str] = {
    "batches/acknowledger_async.py": "batches/acknowledger_sync.py",
    "batches/batches_async.py": "batches/batches_sync.py",
    "consignments/consignments_async.py": "consignments/consignments_sync.py",
    "consignments/large_send_async.py": "consignments/large_send_sync.py",
    "feed/feed_async.py": "feed/feed_sync.py",
    "actions/actions_async.py": "actions/actions_sync.py",
    "groups/groups_async.py": "groups/groups_sync.py",
    "live/live_async.py": "live/live_sync.py",
    "producers/producer_async.py": "producers/producer_sync.py",
    "publishing/buffer_carrier_async.py": "publishing/buffer_carrier_sync.py",
    "publishing/buffered_async.py": "publishing/buffered_sync.py",
    "jobs/jobs_async.py": "jobs/jobs_sync.py",
    "publishing/pipeline_async.py": "publishing/pipeline_sync.py",
    "sources/sources_async.py": "sources/sources_sync.py",
    "surface/asynchronous.py": "surface/sync.py",
    "surface/pages_async.py": "surface/pages_sync.py",
    "surface/recipient_async.py": "surface/recipient_sync.py",
    "transport/http_async.py": "transport/http_sync.py",
}
"""The modules that are generated, by the source of each, in `restante.client`."""

BY_HAND: Mapping[str, str] = {
    "batches/joint_async.py": "the event loop gathers the calls of one turn; one of the threads sends for all that wait",
    "concurrency/waits_async.py": "tasks need no lock, and a task for each call; `threading.Condition`, and a thread for each call",
    "feed/feed_crew_async.py": "tasks are cancelled; threads cannot be called off",
    "groups/member_crew_async.py": "a question is called off when the member has other partitions; it waits a second at most",
    "live/live_follower_async.py": "the connection fills the inbox; a thread fills it, under a lock",
    "live/live_socket_async.py": "cuts frames itself, for speed; writes in a thread of its own",
    "producers/producer_carrier_async.py": "locks of the event loop; a waiting line of threads",
    "publishing/buffer_doors_async.py": "a lock lets callers in, callbacks are awaited; callers that wait stand in line",
    "sending/sender_async.py": "a task while anything is due, and a timer; threads that take turns to watch",
    "sockets/publish_socket_async.py": "time limits around what is awaited; time limits given to each call",
    "surface/connect_async.py": "a hub is awaited or entered; a hub is given at once",
    "transport/http_carrier_async.py": "cancelled by the event loop; a long wait is left to a thread, so that Ctrl-C ends it",
}
"""Modules that are written twice, and why: first the way of the asynchronous module, then that of the one that waits."""

NAMES: Mapping[str, str] = {
    "AsyncSocketDoor": "SyncSocketDoor",
    "StopAsyncIteration": "StopIteration",
    "asynchronous": "sync",
    "connect_async": "connect",
    "connected": "connect",
}
"""Beside `AsyncLink` and the like, which lose their `Async`, `feed_async` and the like, and `__aenter__` and the like."""

UNWRAPPED = {"AsyncOpening", "Awaitable"}
"""The names that are left out: of `Awaitable[int]` only `int` is left; of `AsyncOpening(partial(begin, link))`, which is begun when awaited, `begin(link)`."""

WORDS: Sequence[tuple[str, str]] = (
    (r"\ban `async with\b", "a `with"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait (?=\w)", ""),
    (r"\brestante\.aio\.", "restante."),
    (r" They may be asynchronous functions\.", ""),
    (r" A call that is cancelled has only stopped waiting: close it again\.", ""),
    (r"\bToo much under way is an error: see `room`\.", "Waits only while too much is under way."),
    (r"\basynchronous programs\b", "programs that wait"),
    (r"\bany task of one event loop\b", "any thread"),
    (r"\bin the event loop\b", "in a thread of it"),
    (r"\ba cancellation\b", "Ctrl-C"),
    (r"\btask(s?)\b", r"thread\1"),
)
"""The changes to docstrings and comments, made one after the other."""

HEAD = "# Generated from `{source}` by `make generate` (tools/generate_sync.py): change that module, not this one.\n"

_NAME_RULES = (
    (re.compile(r"Async(?=[A-Z])"), ""),
    (re.compile(r"_async$"), "_sync"),
    (re.compile(r"^__a(?=(enter|exit|iter|next)__$)"), "__"),
)
_WORD_RULES = tuple((re.compile(pattern), other) for pattern, other in WORDS)
_NAME_IN_TEXT = re.compile(r"\bAsync[A-Z]\w*|\b\w+_async\b")
_ASYNC_LINT = re.compile(r" *# noqa: ASYNC\d+.*")
_ASYNC_ONLY = "# async only"
_SYNC = "# sync: "


class Edit(NamedTuple):
    """A piece of the source, and what takes its place."""

    start: int
    end: int
    text: str = ""


class _Places:
    """The places of lines and columns in a text. The parser counts columns in bytes, the tokenizer in characters."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def of_token(self, place: tuple[int, int]) -> int:
        return self._starts[place[0] - 1] + place[1]

    def of_node(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def of_line(self, line: int) -> int:
        return self._starts[line - 1]

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.of_node(node.lineno, node.col_offset), self.of_node(node.end_lineno, node.end_col_offset)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a module is stale")
    check = parser.parse_args(arguments).check
    stale = list(outdated(CLIENT, GENERATED))
    if check:
        problems = [f"{target.relative_to(ROOT)} is stale: run `make generate`." for target, _ in stale]
        problems += [f"{source} is in no table of tools/generate_sync.py." for source in unlisted(CLIENT)]
        print(*problems, sep="\n", end="\n" if problems else "")
        return 1 if problems else 0
    for target, text in stale:
        target.write_text(text, encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}")
    return 0


def outdated(folder: Path, pairs: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The modules that are not what their sources give, with what they should be."""
    for source, target in pairs.items():
        text = generated(folder / source, folder / target)
        if not (folder / target).exists() or (folder / target).read_text(encoding="utf-8") != text:
            yield folder / target, text


def unlisted(folder: Path) -> list[str]:
    """The asynchronous modules that no table has."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*_async.py")}
    return sorted(found - GENERATED.keys() - BY_HAND.keys())


def generated(source: Path, target: Path) -> str:
    text = HEAD.format(source=source.name) + converted(source.read_text(encoding="utf-8"))
    # Without `await`, a loop that hands on what it gets has a shorter form.
    shorter = 'lint.extend-safe-fixes=["UP028"]'
    text = _ruff(text, target, "check", "--fix-only", "--config", shorter)
    return _ruff(text, target, "format")


def _ruff(text: str, target: Path, *arguments: str) -> str:
    command = [*RUFF, *arguments, "--quiet", "--stdin-filename", str(target), "-"]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def converted(text: str) -> str:
    """The source for programs that wait, before it is formatted."""
    places, tree = _Places(text), ast.parse(text)
    edits = [*_cuts(places, tree), *_shortened(places, tree), *_words(places, text)]
    pieces, done = [], 0
    # If two edits begin at one place, the longer one comes first, and edits within it are skipped.
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= done:
            pieces += [text[done : edit.start], edit.text]
            done = edit.end
    return "".join([*pieces, text[done:]])


def _cuts(places: _Places, tree: ast.Module) -> Iterator[Edit]:
    """The statements that are for asynchronous programs only, and what takes their place."""
    ends = {node.lineno: node.end_lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    for number, line in enumerate(places.lines, start=1):
        said = line.strip()
        if said.startswith(_ASYNC_ONLY):
            end = ends.get(number + 1)
            if end is None:
                raise ValueError(f"Line {number}: no statement begins below `{_ASYNC_ONLY}`.")
            yield Edit(places.of_line(number), places.of_line(end + 1))
        elif said.startswith(_SYNC):
            start = places.of_line(number) + line.index(_SYNC)
            yield Edit(start, start + len(_SYNC))


def _shortened(places: _Places, tree: ast.Module) -> Iterator[Edit]:
    """Shorten what is more than a word: parentheses around `await`, and what wraps something to be awaited."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            inner = node.func if isinstance(node, ast.Call) else node.value
            if isinstance(inner, ast.Await):
                start, end = places.span(inner)
                yield from _without_parentheses(places, start, end)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in UNWRAPPED:
            yield from _only(places, node, node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNWRAPPED:
            yield from _called(places, node)


def _without_parentheses(places: _Places, start: int, end: int) -> Iterator[Edit]:
    text = "".join(places.lines)
    if text[start - 1] == "(" and text[end] == ")":
        yield Edit(start - 1, start)
        yield Edit(end, end + 1)


def _only(places: _Places, outer: ast.expr, inner: ast.expr) -> Iterator[Edit]:
    (start, end), (inner_start, inner_end) = places.span(outer), places.span(inner)
    yield Edit(start, inner_start)
    yield Edit(inner_end, end)


def _called(places: _Places, node: ast.Call) -> Iterator[Edit]:
    """`AsyncOpening(partial(begin, link))` is `begin(link)`."""
    (made,) = node.args
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name) or made.func.id != "partial":
        raise ValueError(f"Line {node.lineno}: what is opened is to be a `partial`.")
    function, *others = [places.span(each) for each in made.args]
    following = [start for start, _ in others] + [
        places.of_node(each.lineno, each.col_offset) for each in made.keywords
    ]
    yield Edit(places.span(node)[0], function[0])
    yield Edit(function[1], min(following), "(") if following else Edit(function[1], function[1], "(")
    yield Edit(places.span(made)[1], places.span(node)[1])


def _words(places: _Places, text: str) -> Iterator[Edit]:
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, following in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        start, end = places.of_token(token.start), places.of_token(token.end)
        if token.type == tokenize.NAME and token.string in {"async", "await"}:
            yield Edit(start, places.of_token(following.start))
        elif token.type == tokenize.NAME:
            yield Edit(start, end, name(token.string))
        elif token.type == tokenize.COMMENT and _ASYNC_LINT.match(token.string):
            yield Edit(start, end)
        elif token.type in {tokenize.STRING, tokenize.COMMENT} and not token.string.startswith(_SYNC):
            yield Edit(start, end, _said(token.string))


def name(given: str) -> str:
    """The name in the other module of a name of the asynchronous one."""
    if given in NAMES:
        return NAMES[given]
    for pattern, other in _NAME_RULES:
        given = pattern.sub(other, given)
    return given


def _said(text: str) -> str:
    for pattern, other in _WORD_RULES:
        text = pattern.sub(other, text)
    return _NAME_IN_TEXT.sub(lambda match: name(match[0]), text)


if __name__ == "__main__":
    sys.exit(main())
