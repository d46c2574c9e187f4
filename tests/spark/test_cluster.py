"""The source and the sink on a real cluster, whose machines get a URL and a token and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from tests.spark.cluster import Cluster
from tests.spark.driver import RECIPIENTS
from tests.spark.driving import LOCAL, Driver, DriverError
from tests.spark.gate import Gate
from tests.spark.served import HubProcess
from tests.spark.small_spark import SMALL_JAVA

COUNT = 3_000
STAGE_OF_FAULTY = "writer=000001"


class Guarded(HubProcess):
    """A hub that asks for tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()
        tokens = TokenFile(folder / "tokens.json")
        self.publisher, self.reader = (tokens.create(roles=[role]) for role in (Role.PUBLISHER, Role.READER))

    def connect(self) -> Hub:
        return restante.connect(self.url, token=self.reader)


@pytest.fixture(scope="module")
def cluster(own_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    settings = {
        **LOCAL,
        "spark.master": cluster.url,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SMALL_JAVA,
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
    }
    with Driver(tmp_path_factory.mktemp("driver") / "driver.log", settings) as started:
        yield started


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with Guarded(tmp_path / "hub") as served:
        yield served


def writing(url: str, token: str, **more: str) -> dict[str, str]:
    return {"url": url, "token": token, "origin": "grid", "mediaType": "application/json", **more}


def arrived(hub: Guarded) -> dict[str, list[int]]:
    """Of each recipient the numbers of its messages, in their order."""
    found: dict[str, list[tuple[int, int]]] = {}
    with hub.connect() as connected:
        for page in connected.snapshot(columns=["sequence_number", "recipient", "data"]):
            for row in page.table.to_pylist():
                number = int(row["data"].partition(b":")[2].partition(b",")[0])
                found.setdefault(row["recipient"], []).append((row["sequence_number"], number))
    return {recipient: [number for _, number in sorted(own)] for recipient, own in found.items()}


EXPECTED = {f"r{own}": list(range(own, COUNT, RECIPIENTS)) for own in range(RECIPIENTS)}


def test_what_a_cluster_writes_it_reads_again(
    cluster: Cluster, driver: Driver, guarded: Guarded, tmp_path: Path
) -> None:
    assert "RESTANTE_TOKEN" not in os.environ
    driver.ask("write", options=writing(guarded.url, guarded.publisher), count=COUNT, parts=4)
    assert arrived(guarded) == EXPECTED
    reading = {"url": guarded.url, "token": guarded.reader}
    rows = driver.ask("batch_rows", options=reading)
    assert len(rows) == len({(row[0], row[1]) for row in rows}) == COUNT
    places = {"table": str(tmp_path / "table"), "checkpoint": str(tmp_path / "checkpoint")}
    driver.ask("stream_out", options=reading, format="parquet", **places)
    told = driver.ask("table_rows", format="parquet", table=places["table"])
    assert sorted(row[-1] for row in told) == sorted(row[-1] for row in rows)
    assert all(list(cluster.worker(number).glob("app-*/*/stderr")) for number in range(2)), "both have worked"


def test_a_token_of_the_wrong_role_is_refused(driver: Driver, guarded: Guarded) -> None:
    with pytest.raises(DriverError, match="publisher"):
        driver.ask("write", options=writing(guarded.url, guarded.reader), count=10, parts=1)
    assert arrived(guarded) == {}


def test_a_task_that_stalls_is_done_by_another_and_leaves_nothing_twice(driver: Driver, guarded: Guarded) -> None:
    with Gate(guarded.url) as gate:
        options = writing(gate.url, guarded.publisher, parcelBytes="65536")
        driver.ask("write", options=options, count=COUNT, parts=4, fault="stall")
        staged = [request for request in gate.requests if STAGE_OF_FAULTY in request]
        assert len({request.partition("attempt=")[2].partition("&")[0] for request in staged}) == 2
    assert arrived(guarded) == EXPECTED
