"""Which tests failed, as `make test AGAIN=yes` and `.ci/run` need to know it: by the names they have in one process too.

pytest-xdist writes the group of a test behind its name, and runs a test once more whose worker process died: by itself pytest would
find no test of the first kind again, and forget those of the second kind when they pass.
"""

from __future__ import annotations

import pytest

ENDED = "restante/ended"
"""The key in pytest's cache of how the last run ended: 1 if all tests were run and some failed, 0 if none did."""
_DIED = "???"
"""The phase of a report that pytest-xdist makes for a test whose worker process died."""


class LastFailures:
    """Corrects what pytest keeps of failures, in the process that started the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._died: set[str] = set()
        self._collected = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._collected = self._collected and not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            (self._died if str(report.when) == _DIED else self._failed).add(name_of(report.nodeid))
        elif report.when == "call":
            self._passed.add(name_of(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        kept, cache = self._config.pluginmanager.get_plugin("lfplugin"), getattr(self._config, "cache", None)
        if kept is not None and cache is not None:  # Neither is there with `-p no:cacheprovider`.
            failed = set(map(name_of, kept.lastfailed)) - (self._passed - self._failed) | self._died
            kept.lastfailed = dict.fromkeys(sorted(filter(self._is_there, failed)), True)
            cache.set(ENDED, int(exitstatus if self._collected else pytest.ExitCode.INTERRUPTED))

    def _is_there(self, name: str) -> bool:
        """Not a worker: pytest-xdist reports that a worker collected other tests than the others as the failure of a file."""
        return (self._config.rootpath / name.partition("::")[0]).exists()


def name_of(nodeid: str) -> str:
    """The name of a test without the group that pytest-xdist may have written behind it; parameters may have an @, too."""
    name, _, group = nodeid.rpartition("@")
    return name if name and "]" not in group else nodeid
