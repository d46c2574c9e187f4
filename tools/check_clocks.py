"""Keeps times out of what tests assert: a machine that is busy takes longer, and its tests must pass all the same.

A promise about time is measured by the benchmarks; a test asserts what came before what, or how often. So

- no test asserts anything about a clock that only measures, nor about what was reckoned from a clock: how long something
  took, or whether it was done before a deadline;
- no test compares how long something took outside an assertion, either;
- no test asserts that something came within seconds: it waits for it, and its own time-out ends a hang.

Times of a wall clock may be asserted as they were read: that what happened is dated between two looks is an order. A loop
may end at a deadline. `tests/waiting.py` asserts one, for all tests: it only says what a test that hangs was waiting for.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAITING = ROOT / "tests" / "waiting.py"
WALLS = frozenset(
    {"time.time", "time.time_ns"} | {f"datetime.{kind}.{how}" for kind, how in (
        ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"))}
)  # fmt: skip
MEASURES = frozenset(
    f"time.{name}{unit}"
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
    for unit in ("", "_ns")
)
PASSED_THROUGH = frozenset(
    {"abs", "dict", "float", "int", "list", "max", "min", "round", "set", "sorted", "sum", "tuple"}
)
"""Functions whose answer is a time if what they are given is one."""
PARTS = frozenset({"total_seconds", "seconds", "microseconds", "days", "timestamp", "pop", "copy"})
"""The parts of a time that are times themselves."""
PUTS = frozenset({"append", "add", "extend", "put", "appendleft"})
"""Methods that make a value one of many."""
WAITS = frozenset({"wait", "within", "acquire"})
"""Methods that wait for so many seconds, and options of methods that say how many."""
HANGS_SECONDS = 60
"""A time after which nothing comes any more."""
Scope = ast.FunctionDef | ast.AsyncFunctionDef


class Time(IntEnum):
    """The relation of a value to clocks; the greater it is, the less may be asserted of it."""

    NONE = 0
    WALL = 1
    """A look at a wall clock."""
    MEASURE = 2
    """A look at a clock that only measures."""
    DEADLINE = 3
    """A look at a clock with something added, or what comes of comparing with that."""
    SPAN = 4
    """The difference of looks at a clock."""


def asserted_times(source: str) -> list[int]:
    """The lines on which a time is asserted, or how long something took is compared."""
    return sorted(set(_Module(ast.parse(source)).faults()))


class _Module:
    """The names of a module that have to do with clocks."""

    def __init__(self, tree: ast.Module) -> None:
        self._scopes = dict(_scopes(tree))
        self._imported = dict(_imports(self._scopes))
        self._times: dict[tuple[ast.AST | None, str], Time] = {}
        if any(self._clock(node) for node in self._scopes if isinstance(node, ast.Name | ast.Attribute)):
            assignments = [pair for node in self._scopes for pair in self._assigned(node)]
            known = -1
            while known != sum(self._times.values()):
                known = sum(self._times.values())
                for key, value in assignments:
                    self._times[key] = max(self._times.get(key, Time.NONE), self._of(value))

    def faults(self) -> Iterator[int]:
        for node in self._scopes:
            match node:
                case ast.Assert(test=test) if self._of(test) > Time.WALL or _waits(test):
                    yield node.lineno
                case ast.Compare(left=left, comparators=others) if self._most([left, *others]) == Time.SPAN:
                    yield node.lineno

    def _assigned(self, node: ast.AST) -> Iterator[tuple[tuple[ast.AST | None, str], ast.expr]]:
        """The names that get a value here, and the value."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._spread(target, value)
            case ast.AugAssign(target=target, op=how, value=value):
                yield from self._spread(target, ast.BinOp(target, how, value))
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                yield from self._spread(target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from self._spread(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield from self._spread(target, value)
            case ast.Call(func=ast.Attribute(value=target, attr=how), args=[value]) if how in PUTS:
                yield from self._spread(target, value)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                if (function := self._scopes[node]) is not None:
                    yield from (((None, name), value) for name in (function.name, f".{function.name}"))
            case _:
                pass

    def _spread(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[tuple[ast.AST | None, str], ast.expr]]:
        """Where what is known of a name is kept. Attributes are known by their names alone, of whatever they are."""
        match target, value:
            case (ast.Tuple(elts=names), ast.Tuple(elts=values)) if len(names) == len(values):
                for name, own in zip(names, values, strict=True):
                    yield from self._spread(name, own)
            case ((ast.Tuple(elts=names) | ast.List(elts=names)), _):
                for name in names:
                    yield from self._spread(name, value)
            case ast.Name(id=text), _:
                yield (self._outermost(target), text), value
            case ast.Attribute(attr=text), _:
                yield (None, f".{text}"), value
            case ((ast.Subscript(value=whole) | ast.Starred(value=whole)), _):
                yield from self._spread(whole, value)
            case _:
                pass

    def _outermost(self, node: ast.AST) -> ast.AST | None:
        scope = self._scopes.get(node)
        while scope is not None and self._scopes.get(scope) is not None:
            scope = self._scopes[scope]
        return scope

    def _of(self, value: ast.AST) -> Time:
        match value:
            case ast.Name(id=name):
                own, shared = (self._times.get((scope, name), Time.NONE) for scope in (self._outermost(value), None))
                found = max(self._clock(value), own, shared)
            case ast.Attribute(value=whole, attr=name):
                found = max(self._clock(value), self._times.get((None, f".{name}"), Time.NONE))
                found = max(found, self._of(whole)) if name in PARTS else found
            case ast.Call(func=function, args=given):
                through = isinstance(function, ast.Name) and function.id in PASSED_THROUGH
                found = self._most([function, *(given if through else ())])
            case ast.BinOp(left=left, op=how, right=right):
                found = self._most([left, right])
                found = max(found, Time.SPAN if isinstance(how, ast.Sub) else Time.DEADLINE) if found else found
            case ast.Compare(left=left, comparators=others):
                found = self._most([left, *others])
                found = found if found > Time.WALL else Time.NONE
            case ast.JoinedStr():
                found = Time.NONE
            case _:
                found = self._most(ast.iter_child_nodes(value))
        return found

    def _most(self, values: Iterable[ast.AST]) -> Time:
        return max(map(self._of, values), default=Time.NONE)

    def _clock(self, value: ast.expr) -> Time:
        """The clock that a function reads, by where it was imported from; `time` of an event loop by the name of the loop."""
        name = self._full_name(value)
        if name in MEASURES or name.endswith("loop.time"):
            return Time.MEASURE
        return Time.WALL if name in WALLS else Time.NONE

    def _full_name(self, value: ast.expr) -> str:
        match value:
            case ast.Name(id=name):
                return self._imported.get(name, name)
            case ast.Attribute(value=inner, attr=name):
                return f"{self._full_name(inner)}.{name}"
            case ast.Call(func=function):
                return self._full_name(function)
            case _:
                return ""


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names of a module, and what each is called where it was imported from."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((own.asname, own.name) for own in node.names if own.asname)
        elif isinstance(node, ast.ImportFrom):
            yield from ((own.asname or own.name, f"{node.module}.{own.name}") for own in node.names)


def _scopes(tree: ast.AST) -> Iterator[tuple[ast.AST, Scope | None]]:
    """All nodes, and the function that each is in."""
    left: list[tuple[ast.AST, Scope | None]] = [(tree, None)]
    while left:
        node, inside = left.pop()
        yield node, inside
        below = node if isinstance(node, Scope) else inside
        left.extend((child, below) for child in ast.iter_child_nodes(node))


def _waits(test: ast.expr) -> bool:
    """Whether what is asserted waits for some seconds. That nothing comes in them may be asserted."""
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return False
        case _:
            nodes = ast.walk(test)
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = [each.value for each in node.keywords if each.arg in WAITS or node.func.attr in WAITS]
            if any(_is_short(value) for value in (*given, *(node.args[:1] if node.func.attr in WAITS else ()))):
                return True
    return False


def _is_short(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and 0 < value.value < HANGS_SECONDS


def main() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line}: a time is asserted: wait for what is to come (tests/waiting.py), or count"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != WAITING
        for line in asserted_times(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(faults) or "tests: no times asserted")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
