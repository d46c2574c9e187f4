"""`restante migrate`: data folders that are new, older, newer, in use, or not ours."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

import restante
from restante.assembly import open_hub
from restante.hub.engine.partitions import FORMAT_VERSION, PartitionRow
from restante.hub.upkeep.migrate import Migrated, format_of, migrate
from restante.model.storage.changes import Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.schema import MIGRATIONS
from tests.cli.patients import Patient, fill
from tests.cli.places import run

NOW = {"layout": len(MIGRATIONS), "format": FORMAT_VERSION}


@contextmanager
def patient(folder: Path) -> Iterator[Patient]:
    with closing(SqliteStore.open(folder)) as store:
        yield Patient(store)


def set_format(store: Patient, version: int) -> None:
    store.edit(Space.META, 0, lambda deed: [version, *deed[1:]])


def format_in(folder: Path) -> int | None:
    with closing(SqliteStore.open(folder)) as store:
        return format_of(store)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder with some of everything, as the first version wrote it."""
    folder = tmp_path / "data"
    with patient(folder) as store:
        fill(store.store)
    with patient(folder) as store:
        set_format(store, 1)
    return folder


def waiting(folder: Path) -> int:
    with restante.open(folder) as hub:
        return sum(status.waiting for status in hub.partitions())


def test_a_folder_is_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_PARTITION_COUNT", "8")
    folder = tmp_path / "below" / "data"
    made = run("migrate", "--data", str(folder))
    assert (made.exit_code, made.stdout) == (0, f"{folder}: created, format {FORMAT_VERSION}.\n")
    again = run("migrate", "--data", str(folder))
    assert (again.exit_code, again.stdout) == (0, f"{folder}: format {FORMAT_VERSION}. There is nothing to do.\n")
    with restante.open(folder) as hub:
        assert len(hub.partitions()) == 8


def test_a_folder_is_created_beside_tokens_that_were_made_for_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    assert run("tokens", "create", "--role", "operator", "--data", folder, "--new").exit_code == 0
    assert run("migrate", "--data", folder).exit_code == 0
    assert format_in(tmp_path / "data") == FORMAT_VERSION


def test_older_data_is_brought_forward_and_stays_as_it_was(older: Path) -> None:
    kept = [space for space in Space if space not in (Space.META, Space.PARTITION)]
    with patient(older) as store:
        before = [store.entries(space) for space in kept]
    result = run("migrate", "--data", str(older))
    assert (result.exit_code, result.stdout) == (0, f"{older}: brought from format 1 to {FORMAT_VERSION}.\n")
    with patient(older) as store:
        assert [store.entries(space) for space in kept] == before
        rows = [msgspec.msgpack.decode(value, type=PartitionRow) for _, value in store.entries(Space.PARTITION)]
        assert all(row.feed_gone == row.visible > 0 for row in rows), "the feed begins with what comes now"
        assert format_of(store.store) == FORMAT_VERSION
        assert store.examined().sound
    assert waiting(older) > 0


def test_a_check_only_looks_and_exits_with_1_if_there_is_something_to_do(older: Path, tmp_path: Path) -> None:
    for folder, told in (
        (older, f"would be brought from format 1 to {FORMAT_VERSION}"),
        (tmp_path / "new", f"would be created, format {FORMAT_VERSION}"),
    ):
        result = run("migrate", "--data", str(folder), "--check")
        assert (result.exit_code, result.stdout) == (1, f"{folder}: {told}.\n")
    assert format_in(older) == 1
    assert not (tmp_path / "new").exists()
    run("migrate", "--data", str(older))
    assert run("migrate", "--data", str(older), "--check").exit_code == 0


def test_it_speaks_json(older: Path) -> None:
    before = {"layout": len(MIGRATIONS), "format": 1}
    for options, changes, was in ((["--check"], True, before), ([], True, before), ([], False, NOW)):
        answer = json.loads(run("migrate", "--data", str(older), "--json", *options).stdout)
        assert answer == {
            "folder": str(older),
            "check": bool(options),
            "changes": changes,
            "before": was,
            "after": NOW,
        }


def test_a_database_of_an_older_layout_is_brought_forward_too(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "data", migrations=MIGRATIONS)) as store:
        fill(store)
    with patient(tmp_path / "data") as damaged:
        set_format(damaged, 1)
    with closing(sqlite3.connect(tmp_path / "data" / "restante.db")) as database:
        database.execute("DROP TABLE log")
        database.execute("PRAGMA user_version = 1")
    folder = str(tmp_path / "data")
    check = run("migrate", "--data", folder, "--check")
    assert (check.exit_code, check.stdout) == (1, f"{folder}: would be brought from layout 1 to {len(MIGRATIONS)}.\n")
    result = run("migrate", "--data", folder)
    way = f"from layout 1 to {len(MIGRATIONS)} and from format 1 to {FORMAT_VERSION}"
    assert (result.exit_code, result.stdout) == (0, f"{folder}: brought {way}.\n")
    assert format_in(tmp_path / "data") == FORMAT_VERSION


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_newer_data_is_refused_and_left_alone(older: Path, options: list[str]) -> None:
    with patient(older) as store:
        set_format(store, FORMAT_VERSION + 1)
        deed = store.entries(Space.META)
    result = run("migrate", "--data", str(older), *options)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error format_unsupported: The data has format version {FORMAT_VERSION + 1}; ")
    with patient(older) as store:
        assert store.entries(Space.META) == deed


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_newer_layout_is_refused(older: Path, options: list[str]) -> None:
    with closing(sqlite3.connect(older / "restante.db")) as database:
        database.execute("PRAGMA user_version = 99")
    result = run("migrate", "--data", str(older), *options)
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error format_unsupported")


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_folder_in_use_is_refused(older: Path, options: list[str]) -> None:
    with restante.open(older):
        result = run("migrate", "--data", str(older), *options)
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error data_locked")


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "something").write_text("mine")
    result = run("migrate", "--data", str(tmp_path), *options)
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def test_a_damaged_database_is_a_clear_error(older: Path) -> None:
    (older / "restante.db").write_bytes(b"not a database at all, but long enough " * 100)
    result = run("migrate", "--data", str(older))
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error data_damaged")


def test_a_lost_database_is_not_taken_for_a_new_folder(older: Path) -> None:
    (older / "restante.db").unlink()
    (older / "blobs").mkdir(exist_ok=True)
    result = run("migrate", "--data", str(older))
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error data_damaged")
    assert not (older / "restante.db").exists()


def test_a_hub_brings_older_data_forward_by_itself(older: Path) -> None:
    assert waiting(older) > 0
    assert format_in(older) == FORMAT_VERSION


def test_the_doctor_examines_older_data_and_leaves_it_as_it_is(older: Path) -> None:
    result = run("doctor", str(older))
    assert result.exit_code == 0, result.output
    assert format_in(older) == 1


def test_a_backup_of_older_data_is_restored_and_works(older: Path, tmp_path: Path) -> None:
    expected, made, restored = waiting(older), tmp_path / "old.tar", tmp_path / "restored"
    store = SqliteStore.open(older)
    with closing(open_hub(None, store=store, settings=Settings(filing=False, housekeeping_seconds=0))) as hub:
        set_format(Patient(store), 1)
        hub._core.deed = msgspec.structs.replace(hub._core.deed, format=1)
        with hub.backup() as stream:
            made.write_bytes(b"".join(stream))
    assert run("migrate", "--data", str(older), "--check").exit_code == 1
    result = run("restore", str(made), "--data", str(restored))
    assert result.exit_code == 0, result.output
    assert format_in(restored) == 1
    assert waiting(restored) == expected > 0
    assert format_in(restored) == FORMAT_VERSION


def test_any_store_is_migrated_and_an_empty_one_is_left_alone() -> None:
    store = MemoryStore()
    assert migrate(store) == Migrated(None, None)
    restante.open(None, store=store, settings=Settings(partition_count=2)).close()
    store = store.survivor()
    set_format(Patient(store), 1)
    assert format_of(store) == 1
    assert migrate(store) == Migrated(1, FORMAT_VERSION)
    assert migrate(store) == Migrated(FORMAT_VERSION, FORMAT_VERSION)
    deed = store.scan(0, Space.META)[0][1]
    assert msgspec.msgpack.decode(deed)[:2] == [FORMAT_VERSION, 2]
