"""A hub in memory, on SQLite, and over HTTP: each test of source positions runs on all three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.server.serve import start
from restante.settings import Settings
from restante.stores.memory import MemoryStore

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)


@pytest.fixture(params=["memory", "sqlite", "http"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    if request.param == "http":
        with start(tmp_path / "data", settings=SETTINGS) as running, restante.connect(running.url) as connected:
            yield connected
    else:
        store = MemoryStore() if request.param == "memory" else None
        with restante.open(None if store else tmp_path / "data", settings=SETTINGS, store=store) as opened:
            yield opened
