"""The tool that gives protocols their signatures: an option of a method is written once, in the class that keeps the protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generate_protocols

PROTOCOL = '''"""The surface."""

from typing import Protocol


class Pages(Protocol):
    """Pages."""

    end: int

    @property
    def position(self) -> int: ...
    def read(self, limit: int) -> str:
        """The next page."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Pages: ...


class Others(Protocol):
    def read(self, limit: int) -> str: ...
'''

KEPT = '''"""What keeps it."""


class Pages:
    def __init__(self, link: int) -> None:
        self._link = link

    @property
    def position(self) -> int:
        return 1

    def read(
        self,
        limit: int,
        *,
        wait: float = 0,  # in seconds
    ) -> str:
        """The next page, with all that is said of it."""
        return self._read(limit, wait)

    def close(self) -> None:
        self._link = 0

    def skip(self, count: int) -> None:
        """Leave some out."""

    def _read(self, limit: int, wait: float) -> str:
        return ""
'''

EXPECTED = '''"""The surface."""

from typing import Protocol


class Pages(Protocol):
    """Pages."""

    end: int

    @property
    def position(self) -> int: ...
    def read(
        self,
        limit: int,
        *,
        wait: float = 0,  # in seconds
    ) -> str:
        """The next page."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Pages: ...
    def skip(self, count: int) -> None: ...


class Others(Protocol):
    def read(self, limit: int) -> str: ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "surface.py").write_text(PROTOCOL, encoding="utf-8")
    (tmp_path / "pages_sync.py").write_text(KEPT, encoding="utf-8")
    return tmp_path


def test_signatures_are_those_of_the_class_and_all_else_stays(folder: Path) -> None:
    ((path, text),) = generate_protocols.outdated(folder, {"surface.py": ("pages_sync.py",)})
    assert path == folder / "surface.py"
    assert text == EXPECTED


def test_a_protocol_that_was_renewed_is_not_stale(folder: Path) -> None:
    (folder / "surface.py").write_text(EXPECTED, encoding="utf-8")
    assert list(generate_protocols.outdated(folder, {"surface.py": ("pages_sync.py",)})) == []


def test_the_protocols_of_the_client_are_those_of_its_classes() -> None:
    assert list(generate_protocols.outdated(generate_protocols.CLIENT, generate_protocols.PROTOCOLS)) == []
