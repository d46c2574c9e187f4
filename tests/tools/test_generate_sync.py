"""The tool that writes the client for programs that wait: what it makes of a source, and that it notices stale modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generate_sync

SOURCE = '''"""Pages for asynchronous programs, read by a task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from pages.link_async import AsyncLink
from pages.openings import AsyncOpening


class Pages:
    """Use it in an `async with` statement, over `AsyncLink`."""

    def __init__(self, link: AsyncLink, ended: Callable[[], Awaitable[None]]) -> None:
        self._link = link
        self._ended = ended

    async def __aenter__(self) -> int:
        return (await self._link.first()).number

    async def read(self, timeout: float) -> AsyncIterator[int]:  # noqa: ASYNC109 - has its own error
        async for page in self._link:
            for each in page:
                yield each
        # async only: it would be read twice.
        if self._ended is None:
            return
        # sync: self._link.rest()
        await self._ended()


def open_pages(link: AsyncLink, key: str) -> AsyncOpening[Pages]:
    return AsyncOpening(partial(_open, link, key=key))
'''

EXPECTED = '''# Generated from `pages_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""Pages for programs that wait, read by a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pages.link_sync import Link


class Pages:
    """Use it in a `with` statement, over `Link`."""

    def __init__(self, link: Link, ended: Callable[[], None]) -> None:
        self._link = link
        self._ended = ended

    def __enter__(self) -> int:
        return self._link.first().number

    def read(self, timeout: float) -> Iterator[int]:
        for page in self._link:
            yield from page
        self._link.rest()
        self._ended()


def open_pages(link: Link, key: str) -> Pages:
    return _open(link, key=key)
'''

PAIRS = {"pages_async.py": "pages_sync.py"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pages_async.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "pages_sync.py").write_text(EXPECTED, encoding="utf-8")
    return tmp_path


def test_a_source_loses_what_makes_it_asynchronous(folder: Path) -> None:
    assert generate_sync.generated(folder / "pages_async.py", folder / "pages_sync.py") == EXPECTED


def test_a_module_that_is_what_its_source_gives_is_left_alone(folder: Path) -> None:
    assert list(generate_sync.outdated(folder, PAIRS)) == []


@pytest.mark.parametrize("changed", ["pages_async.py", "pages_sync.py"])
def test_a_stale_module_is_noticed(folder: Path, changed: str) -> None:
    text = (folder / changed).read_text(encoding="utf-8")
    (folder / changed).write_text(text.replace("_ended", "_over"), encoding="utf-8")
    ((target, _),) = generate_sync.outdated(folder, PAIRS)
    assert target == folder / "pages_sync.py"


def test_a_missing_module_is_stale(folder: Path) -> None:
    (folder / "pages_sync.py").unlink()
    assert list(generate_sync.outdated(folder, PAIRS)) == [(folder / "pages_sync.py", EXPECTED)]


def test_the_check_names_what_is_stale_and_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_sync, "ROOT", folder)
    monkeypatch.setattr(generate_sync, "CLIENT", folder)
    monkeypatch.setattr(generate_sync, "GENERATED", PAIRS)
    (folder / "pages_sync.py").write_text("", encoding="utf-8")
    (folder / "other_async.py").write_text("", encoding="utf-8")
    assert generate_sync.main(["--check"]) == 1
    said = capsys.readouterr().out
    assert "pages_sync.py is stale" in said
    assert "other_async.py is in no table" in said
    assert (folder / "pages_sync.py").read_text(encoding="utf-8") == ""
    (folder / "other_async.py").unlink()
    assert generate_sync.main([]) == 0
    assert generate_sync.main(["--check"]) == 0


def test_a_mark_without_a_statement_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no statement begins below"):
        generate_sync.converted("# async only\n\npass\n")


def test_every_module_written_by_hand_is_there() -> None:
    assert [source for source in generate_sync.BY_HAND if not (generate_sync.CLIENT / source).exists()] == []
