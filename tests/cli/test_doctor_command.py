"""`restante doctor` on folders that are well, and on folders that are not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import restante
from restante.cli import app
from restante.hub.engine.partitions import FORMAT_VERSION
from restante.model.storage.changes import BlobKey, Space
from restante.stores.sqlite import SqliteStore
from tests.cli.patients import Patient, fill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with some of everything, one blob of it large enough for a file."""
    folder = tmp_path / "data"
    with closing(SqliteStore.open(folder)) as store:
        fill(store)
    with restante.open(folder) as hub:
        hub.producer.send([restante.Message(recipient="gwen", data=b"x" * 90_000) for _ in range(5)])
    return folder


def doctor(folder: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", str(folder), *arguments])


def findings(folder: Path) -> list[dict[str, Any]]:
    result = doctor(folder, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == (1 if report["problems"] else 0)
    return list(report["findings"])


@contextmanager
def patient(folder: Path) -> Iterator[Patient]:
    with closing(SqliteStore.open(folder)) as store:
        yield Patient(store)


def the_blob_file(folder: Path) -> Path:
    """The one written last."""
    return max((folder / "blobs").iterdir())


def test_a_healthy_folder_is_sound(folder: Path) -> None:
    result = doctor(folder)
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith(": sound")
    assert "messages in" in result.output


def test_a_flipped_bit_in_a_blob_file_is_named(folder: Path) -> None:
    path = the_blob_file(folder)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (finding,) = findings(folder)
    assert finding["severity"] == "problem"
    assert finding["partition"] == 0
    assert "of the data fails its checksum; mailboxes in it: gwen/default/default." in finding["detail"]
    result = doctor(folder)
    assert result.exit_code == 1
    assert result.output.rstrip().endswith(": 1 problem")


def test_a_flipped_bit_in_an_inline_blob_is_named(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "restante.db")) as database, database:
        query = "SELECT id, data FROM blobs WHERE data IS NOT NULL ORDER BY length DESC"
        number, data = database.execute(query).fetchone()
        damaged = bytearray(data)
        damaged[-1] ^= 128
        database.execute("UPDATE blobs SET data = ? WHERE id = ?", (bytes(damaged), number))
    (finding,) = findings(folder)
    assert f"blob {number}" in finding["what"]
    assert "fails its checksum" in finding["detail"]


def test_a_missing_blob_file_is_named(folder: Path) -> None:
    the_blob_file(folder).unlink()
    found = findings(folder)
    assert [entry["severity"] for entry in found] == ["problem", "note"]
    assert "missing" in found[0]["detail"]


def test_a_blob_left_by_a_crash_is_a_note_and_no_problem(folder: Path) -> None:
    with patient(folder) as store:
        store.store.put_blob(BlobKey(0, 5_000), [b"left behind"], fence=store.store.raise_fences(1))
    assert [entry["severity"] for entry in findings(folder)] == ["note"]
    result = doctor(folder)
    assert result.exit_code == 0
    assert result.output.rstrip().endswith(": sound, 1 note")


def test_a_wrong_waiting_counter_is_a_problem(folder: Path) -> None:
    with patient(folder) as store:
        store.edit_counters(waiting=1)
    (finding,) = findings(folder)
    assert finding["what"] == "counters"
    assert "the counter says 1" in finding["detail"]


def test_a_locked_folder_is_a_clear_error(folder: Path) -> None:
    with restante.open(folder):
        result = doctor(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith("error data_locked: ")


def test_a_folder_without_data_is_a_clear_error_and_is_left_alone(tmp_path: Path) -> None:
    result = doctor(tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_wrong_command(tmp_path: Path) -> None:
    assert doctor(tmp_path / "nowhere").exit_code == 2


def test_a_lost_database_is_not_taken_for_a_new_folder(folder: Path) -> None:
    (folder / "restante.db").unlink()
    result = doctor(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith("error data_damaged: ")
    assert not (folder / "restante.db").exists()


def test_a_file_that_is_no_database_is_a_clear_error(folder: Path) -> None:
    (folder / "restante.db").write_bytes(b"not a database at all, but long enough " * 100)
    result = doctor(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith("error data_damaged: ")


def test_a_newer_layout_is_refused(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "restante.db")) as database:
        database.execute("PRAGMA user_version = 99")
    result = doctor(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith("error format_unsupported: ")


def test_a_newer_format_of_the_data_is_said(folder: Path) -> None:
    with patient(folder) as store:
        store.edit(Space.META, 0, lambda deed: [FORMAT_VERSION + 1, *deed[1:]])
    (finding,) = findings(folder)
    assert finding["what"] == "deed"
    assert finding["partition"] is None
    assert f"format version {FORMAT_VERSION + 1}" in finding["detail"]


def test_examining_a_folder_changes_nothing_in_it(folder: Path) -> None:
    def stored() -> object:
        with closing(sqlite3.connect(folder / "restante.db")) as database:
            tables = [database.execute(f"SELECT * FROM {name}").fetchall() for name in ("entries", "blobs", "fences")]
        return tables, the_blob_file(folder).read_bytes()

    before = stored()
    assert doctor(folder).exit_code == 0
    assert stored() == before
