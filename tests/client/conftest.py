"""Fixtures of the client's tests: a real hub behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante.client.surface import sync
from restante.ports.content import Content, OriginPort
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tests.client.proxy import CuttingProxy

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
ORIGINS = {"series": OriginPort(content=lambda request: Content(data=b"a,b\n", media_type="text/csv"))}
QUICK = restante.Retrying(times=5, seconds=20, first_pause=0.001, longest_pause=0.01)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS, origins=ORIGINS) as served:
        yield served


@pytest.fixture
def hub(running: ServedHub) -> Iterator[sync.Hub]:
    with restante.connect(running.url) as connected:
        yield connected


@pytest.fixture
def proxy(running: ServedHub) -> Iterator[CuttingProxy]:
    with CuttingProxy(running.url) as between:
        yield between


@pytest.fixture
def behind(proxy: CuttingProxy) -> Iterator[sync.Hub]:
    """The same hub, through a proxy that a test can cut."""
    with restante.connect(proxy.url, retries=QUICK) as connected:
        yield connected


@pytest.fixture(params=["in process", "wire"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Hub]:
    """A hub in this process, and one over the network: the surface is the same."""
    if request.param == "wire":
        yield request.getfixturevalue("hub")
    else:
        with restante.open(tmp_path / "here", settings=SETTINGS) as opened:
            yield opened
