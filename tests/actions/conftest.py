"""A world of actions on both engines, and over several shards behind a door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.stores.memory import MemoryStore
from restante.stores.sqlite.store import SqliteStore
from tests.actions.action_world import ActionWorld, SeveralActionWorld


@pytest.fixture(params=["memory", "sqlite", "doors"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(place: str, tmp_path: Path) -> Iterator[ActionWorld]:
    made = _world(place, tmp_path / "data")
    yield made
    made.hub.close()


def _world(place: str, folder: Path) -> ActionWorld:
    if place == "doors":
        return SeveralActionWorld(folder)
    return ActionWorld(MemoryStore() if place == "memory" else SqliteStore.open(folder))
