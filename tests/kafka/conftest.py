"""One Kafka for all tests of a session, and a hub for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tests.kafka.broker import Broker

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", settings=SETTINGS) as running:
        yield running


@pytest.fixture
def hub(served: ServedHub) -> Iterator[Hub]:
    with restante.connect(served.url) as hub:
        yield hub
