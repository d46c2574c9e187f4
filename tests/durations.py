"""What tests cost: the processor time of each, written down, and a bound for those of the tier for people.

`make test` runs pytest with this plugin, which writes down each test that took more than a second; `make check` reads
that file, where there is one, and fails when it holds a test over the bound. Processor time, with that of child
processes that have ended, says what a test costs whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

WRITTEN_SECONDS = 1.0
SECONDS_MAX = 5.0
FILE = Path(__file__).parent.parent / ".pytest_cache" / "durations.json"

_BEGAN = pytest.StashKey[float]()
_COST = "processor_seconds"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEGAN] = _spent()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cost = _spent() - item.stash[_BEGAN]
    if call.when == "teardown" and cost > WRITTEN_SECONDS:
        report.user_properties.append((_COST, cost))
    return report


def _spent() -> float:
    return sum(os.times()[:4])


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer())


class _Writer:
    """Gathers what the workers report, in the process that started them."""

    def __init__(self) -> None:
        self._costs: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _COST and isinstance(value, float):
                self._costs[report.nodeid] = round(value, 1)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.getoption("lf"):
            return  # A run of what failed before says nothing of the others.
        costly = dict(sorted(self._costs.items(), key=lambda one: -one[1]))
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(costly, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    if not FILE.exists():
        print("Nothing is known of what tests cost: `make test` writes it down.")
        return 0
    costs: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8"))
    found = [f"{name}: {seconds} s" for name, seconds in costs.items() if seconds > SECONDS_MAX]
    for line in found:
        print(f"{line} of processor time, more than {SECONDS_MAX:g} s. Split the test, or move it to another tier.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
