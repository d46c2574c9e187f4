"""Fixtures of the commands' tests: a hub to speak to, in a folder and over a socket alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.server.serve import start
from restante.settings import Settings
from tests.cli.places import FolderPlace, HubPlace, Place

QUIET = Settings(partition_count=4, housekeeping_seconds=0)


@pytest.fixture(autouse=True)
def any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width is given from outside, as in a pipe: some that run tests in parallel set one."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder_place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "data")


@pytest.fixture
def hub_place(tmp_path: Path) -> Iterator[HubPlace]:
    with start(tmp_path / "data", QUIET) as running:
        yield HubPlace(running.url)


@pytest.fixture(params=["folder_place", "hub_place"], ids=["folder", "hub"])
def place(request: pytest.FixtureRequest) -> Place:
    """Where the commands find their hub: each test runs on a folder, and on a hub that is served."""
    found: Place = request.getfixturevalue(request.param)
    with found.opened():
        pass
    return found
