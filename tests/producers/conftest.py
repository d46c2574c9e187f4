"""Fixtures of the tests of numbered publishing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.producers.desk import Desk


@pytest.fixture(params=["memory", "sqlite", "wire"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    opened = Desk(request.param, tmp_path / "data")
    yield opened
    opened.close()
