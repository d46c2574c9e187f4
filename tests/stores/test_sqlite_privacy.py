"""A data folder is its owner's alone, whatever the umask."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import InvalidRequest
from restante.hub.upkeep.restore import restore
from restante.limits import KIB
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from tests.crash.seen import inside

WARNED = "could be reached by other users"


@pytest.fixture(params=[0o000, 0o022], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    paths = (folder, *folder.rglob("*"))
    return {str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode) for path in paths}


def check_private(folder: Path) -> dict[str, int]:
    found = modes(folder)
    folders = {str(folder.name), f"{folder.name}/blobs"}
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}
    return found


def used(folder: Path) -> Hub:
    """A hub that has everything in its folder that a hub may have."""
    TokenFile(folder / "tokens.json").create(roles=[Role.READER])
    hub = restante.open(folder)
    hub.producer.send([restante.Message(recipient="ada", data=b"small")])
    hub.producer.send([restante.Message(recipient="ada", data=bytes(600 * KIB))])
    return hub


def test_all_that_a_hub_makes_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with used(folder) as hub:
        with inside(hub).backup() as stream:
            copied = check_private(folder)
            content = b"".join(stream)
        inside(hub).core.store.checkpoint()
        found = check_private(folder)
    names = {"restante.db", "restante.db-wal", "restante.db-shm", "log-0", "lock", "blobs", "tokens.json"}
    assert {f"data/{name}" for name in names} <= set(found)
    assert any("backup-" in name for name in copied)
    assert any(name.startswith("data/blobs/") for name in found)
    check_private(folder)
    for target in (tmp_path / "new", tmp_path / "there"):
        if target.name == "there":
            target.mkdir()
        restore(BytesIO(content).read, target)
        assert len(check_private(target)) > 3


def test_a_loose_folder_is_tightened_with_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "data"
    used(folder).close()
    strange = folder / "settings.toml"
    strange.touch()
    strange.chmod(0o644)
    assert WARNED not in caplog.text
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    restante.open(folder).close()
    (line,) = [record for record in caplog.records if WARNED in record.getMessage()]
    assert line.levelno == logging.WARNING
    assert "data, data/restante.db" in line.getMessage()
    assert stat.S_IMODE(strange.stat().st_mode) == 0o644, "it is none of the hub's"
    strange.unlink()
    check_private(folder)
    caplog.clear()
    restante.open(folder).close()
    assert not [record for record in caplog.records if record.name.startswith("restante.stores")]


def test_a_loose_folder_of_somebody_else_is_named_and_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    used(folder).close()
    folder.chmod(0o755)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    # As the system does to who is not the owner.
    monkeypatch.setattr(Path, "chmod", refuse)
    restante.open(folder).close()
    monkeypatch.undo()
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "can be reached by other users, and not all of that could be changed" in line.getMessage()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_folder_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "letter.txt").write_text("mine")
    before = modes(folder)
    with pytest.raises(InvalidRequest, match=r"projects holds something else \(letter\.txt\).*Name another folder"):
        restante.open(folder)
    assert modes(folder) == before
    restante.open(folder / "data").close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["lost+found", ".gitkeep", "tokens.json.lock"])
def test_a_folder_that_is_as_good_as_empty_becomes_a_data_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).touch()
    restante.open(folder).close()
    assert (folder / "restante.db").is_file()
