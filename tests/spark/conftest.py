"""What the tests of Spark share: one session for the whole run, and a hub of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.spark.starting import session
from tests.spark.driving import Drivers
from tests.spark.served import HubProcess

HERE = Path(__file__).parent
SECONDS_MAX = 900
"""Of a test: what Spark compiles when it does something for the first time can take long on a machine that is busy."""
SMALL = {
    "spark.driver.memory": "1g",
    # Tests have few rows each: most of what the compilers of Java and Spark would make is never used twice.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one process: there, one session serves them all. And first, for they take the longest."""
    items.sort(key=lambda item: HERE not in item.path.parents)
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
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
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """Programs of their own, for tests that kill them."""
    made = Drivers(tmp_path_factory.mktemp("drivers"))
    yield made
    made.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "hub") as served:
        yield served


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """A folder for tables."""
    folder = tmp_path / "tables"
    folder.mkdir()
    return str(folder)
