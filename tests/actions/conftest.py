"""A world of actions on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.stores.memory import MemoryStore
from restante.stores.sqlite.store import SqliteStore
from tests.actions.action_world import ActionWorld


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ActionWorld]:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "data")
    made = ActionWorld(store)
    yield made
    made.hub.close()
