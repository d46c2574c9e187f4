"""The processes of `examples/catalog`. What they do under load is in `test_kills.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.catalog.crew import Crew


def test_what_does_not_start_is_said_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "restante.db").write_bytes(b"no database at all" * 100)
    with Crew(tmp_path) as crew, pytest.raises(RuntimeError, match=r"hub did not start: see .*hub\.log"):
        crew.start_hub()
