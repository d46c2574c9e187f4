"""A hub served on a free port, for each test or shared by a module, and wires to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from restante.server.serve import ServedHub, start
from tests.server.wire import Wire


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data") as running:
        yield running


@pytest.fixture
def wire(running: ServedHub) -> Iterator[Wire]:
    wire = Wire(running.url)
    yield wire
    wire.close()


@pytest.fixture
def new_wire(running: ServedHub) -> Iterator[Callable[..., Wire]]:
    """Makes further connections, closed at the end."""
    wires: list[Wire] = []

    def make(token: str | None = None) -> Wire:
        wires.append(Wire(running.url, token=token))
        return wires[-1]

    yield make
    for wire in wires:
        wire.close()
