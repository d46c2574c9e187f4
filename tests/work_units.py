"""How tests are shared out among the workers of pytest-xdist, and what the workers report: as little as is needed.

By itself pytest-xdist gives out single tests, looks for each in the list of all of them, counts what a worker was ever
given, and has six messages for each test. With thousands of tests that takes half a minute of processor time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import SupportsIndex

import pytest
from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

from tests.profiles import by_profile

TESTS_MAX = 8
"""In the tier for people, a unit has so many neighbouring tests of one file at most; in the others, where a test may take
minutes, one. Those of a group (`xdist_group`) are one unit."""
ENOUGH_TESTS = 2
"""A worker with more tests than that gets no more for now."""
_LOOKED_AT_BY_OPTION = ("durations", "xmlpath")
"""Options that want to know of each phase of each test."""


class UnitScheduling(LoadGroupScheduling):  # type: ignore[misc]  # untyped
    """Gives out units of neighbouring tests, so that what a module makes once is made in few workers."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Places(self.registered_collections[node])

    def schedule(self) -> None:
        if self.collection is None:
            names = next(iter(self.registered_collections.values()))
            self._units = dict(units_of(names, super()._split_scope, by_profile(dev=TESTS_MAX, ci=1)))
        super().schedule()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget units that are done: each test would count them all, and the successor of a worker that died would get them."""
        name, given = self.registered_collections[node][item_index], self.assigned_work[node]
        unit = given[self._units[name]]
        unit[name] = True
        if all(unit.values()):
            del given[self._units[name]]
        self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker units until it has some tests: it begins its last one only when it knows the next, or that there is none.

        By itself pytest-xdist gives one unit, and asks again when a test is done. The successor of a worker that died may get a
        unit of one test, and would wait for ever.
        """
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) <= ENOUGH_TESTS:
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker a unit. One that has just died hears nothing of it, and its units go to another when its death is known."""
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]


def units_of(names: Iterable[str], group_of: Callable[[str], str], most: int) -> Iterator[tuple[str, str]]:
    """The unit of each test: its group, or its file with the number of the unit in it."""
    seen = Counter[str]()
    for name in names:
        group, file = group_of(name), name.partition("::")[0]
        if group != name:
            yield name, group
        else:
            yield name, f"{file} {seen[file] // most}"
            seen[file] += 1


class _Places(list[str]):
    """A list of names that knows where each is."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(self)}

    def index(self, value: str, start: SupportsIndex = 0, stop: SupportsIndex = -1, /) -> int:
        return self._places[value]


def report_little(config: pytest.Config) -> None:
    """In a worker: not that a test begins, nor that its fixtures were made and put away, unless that failed or cost much."""
    if any(config.getoption(option, None) for option in _LOOKED_AT_BY_OPTION):
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _sparing(plugin.sendevent)


def _sparing(send: Callable[..., None]) -> Callable[..., None]:
    def sparing(name: str, **told: object) -> None:
        if name != "logstart" and not _is_idle(told.get("data")):
            send(name, **told)

    return sparing


def _is_idle(report: object) -> bool:
    """Whether it says no more than that fixtures were made, or put away."""
    return (
        isinstance(report, dict)
        and report.get("when") in {"setup", "teardown"}
        and report.get("outcome") == "passed"
        and not report.get("user_properties")
    )
