"""Fixtures of the hub's tests: each test runs on every engine, and on the reference hub, which must keep up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from restante.client.surface.surface import Hub
from restante.ports.content import OriginPort
from restante.settings import Settings
from tests.hub.engines import ENGINES, Engine, FakeClock
from tests.hub.letters import SETTINGS


class HubOpener:
    """Opens a hub on what the engine has stored, having closed the one it gave before."""

    def __init__(self, engine: Engine, clock: FakeClock) -> None:
        self._engine = engine
        self._clock = clock
        self._opened: Hub | None = None

    def __call__(self, *, settings: Settings = SETTINGS, origins: Mapping[str, OriginPort] | None = None) -> Hub:
        self.close()
        self._opened = self._engine.open(settings=settings, origins=origins or {}, clock=self._clock)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return ENGINES[request.param](tmp_path / "data")


@pytest.fixture
def open_hub(engine: Engine, clock: FakeClock) -> Iterator[HubOpener]:
    opener = HubOpener(engine, clock)
    yield opener
    opener.close()


@pytest.fixture
def hub(open_hub: HubOpener) -> Hub:
    return open_hub()
