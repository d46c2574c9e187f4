"""What the tests of Spark share: one session for the whole run, and a hub of its own for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.spark.sessions.start import session
from tests.spark.driving import Drivers
from tests.spark.served import HubHere, HubProcess, SparkHub
from tests.spark.small_spark import SMALL

PREFIX = f"{Path(__file__).parent}{os.sep}"
GROUPS = {"spark": "spark", "own_java": "spark-programs"}
"""From a fixture that starts Java to the group of its tests: each group runs in one process, beside the other."""
SECONDS_MAX = 900
"""Of a test: what Spark compiles when it does something for the first time can take long on a machine that is busy."""


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All with a session in one process: there, one serves them all. And first, for they take the longest."""
    own = {id(item) for item in items if str(item.path).startswith(PREFIX)}
    items.sort(key=lambda item: id(item) not in own)
    for item in items[: len(own)]:
        group = next((GROUPS[name] for name in getattr(item, "fixturenames", ()) if name in GROUPS), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    run = tmp_path_factory.getbasetemp()
    (run.parent if hasattr(request.config, "workerinput") else run).joinpath("spark-session").touch(exist_ok=False)
    started = session(master="local[2]", name="tests", settings=SMALL)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def own_java() -> None:
    """For tests that start programs with a Spark of their own: one at a time, for several would take too much memory."""


@pytest.fixture(scope="session")
def drivers(own_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """Programs of their own, for tests that kill them."""
    made = Drivers(tmp_path_factory.mktemp("drivers"))
    yield made
    made.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[SparkHub]:
    with HubHere(tmp_path / "hub") as served:
        yield served


@pytest.fixture
def hub_process(tmp_path: Path) -> Iterator[HubProcess]:
    """For tests that kill it."""
    with HubProcess(tmp_path / "hub") as served:
        yield served


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """A folder for tables."""
    folder = tmp_path / "tables"
    folder.mkdir()
    return str(folder)
