"""Counters on every engine there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.counters import open_counters
from restante.ports.counters import Counters
from restante.settings import Settings
from tests.counters.valkey import ValkeyServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    running = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    yield running
    running.stop()


@pytest.fixture(params=["memory", "redis"])
def counters(request: pytest.FixtureRequest) -> Iterator[Counters]:
    url = None if request.param == "memory" else request.getfixturevalue("server").url
    opened = open_counters(Settings(counters_url=url))
    yield opened
    opened.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A server with a password."""
    running = ValkeyServer(tmp_path, password="sesame")
    yield running
    running.stop()
