"""A hub in memory, on SQLite, and over HTTP: each test of jobs runs on all three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.server.serve import start
from restante.settings import Settings
from restante.stores.memory import MemoryStore

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)


@pytest.fixture(scope="module", params=["memory", "sqlite", "http"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Shared by the tests of a module: each has jobs of its own names."""
    folder = tmp_path_factory.mktemp("jobs") / "data"
    if request.param == "http":
        with start(folder, settings=SETTINGS) as running, restante.connect(running.url) as connected:
            yield connected
    else:
        store = MemoryStore() if request.param == "memory" else None
        with restante.open(None if store else folder, settings=SETTINGS, store=store) as opened:
            yield opened
