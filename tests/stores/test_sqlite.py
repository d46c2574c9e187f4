"""The SQLite engine: the contract, and what is its own (the folder's lock, formats, where blobs lie, the journal)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from restante.errors import DataDamaged, DataLocked, FormatUnsupported, StoreConflict, Unavailable
from restante.limits import KIB
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.store import Store
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.files import FILES_OPEN_MAX, BlobFiles
from restante.stores.sqlite.journal import JOURNAL_BYTES_TARGET
from restante.stores.sqlite.readers import READERS_MAX
from restante.stores.sqlite.schema import MIGRATIONS
from restante.stores.sqlite.store import INLINE_BYTES_MAX
from restante.testing.store_contract import StoreContract

LARGE = b"large" * 100 * KIB


class TestSqliteStore(StoreContract):
    def open(self, folder: Path) -> Store:
        return SqliteStore.open(folder)

    def open_doubtful(self, folder: Path) -> None:
        """A commit whose flush fails stops the store."""


def blob_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "blobs").iterdir())


def put(store: Store, key: bytes, value: bytes) -> None:
    changes = Changes()
    changes.put(0, Space.META, key, value)
    store.commit(changes)


# --- The folder -------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_open_is_locked_for_the_same_process(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    with pytest.raises(DataLocked, match=f"{tmp_path}.*process {os.getpid()}"):
        SqliteStore.open(tmp_path)
    put(store, b"still", b"open")
    store.close()
    SqliteStore.open(tmp_path).close()


def test_a_folder_that_is_open_is_locked_for_another_process(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    code = (
        "import sys, pathlib; from restante.stores.sqlite import SqliteStore\n"
        "try: SqliteStore.open(pathlib.Path(sys.argv[1]))\n"
        "except Exception as error: print(error.code)"
    )
    child = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    store.close()
    assert child.stdout.strip() == "data_locked"


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable):
        SqliteStore.open(tmp_path / "file" / "data")


def test_a_file_that_is_no_database_is_damaged_data_and_leaves_the_folder_free(tmp_path: Path) -> None:
    path = tmp_path / "restante.db"
    path.write_bytes(b"this is not a database " * 1000)
    for _ in range(2):
        with pytest.raises(DataDamaged):
            SqliteStore.open(tmp_path)
    path.unlink()
    SqliteStore.open(tmp_path).close()


def test_a_damaged_page_is_damaged_data_when_it_is_read(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for number in range(100):
        put(store, number.to_bytes(2, "big"), b"v" * 1000)
    store.close()
    data = bytearray((tmp_path / "restante.db").read_bytes())
    data[8 * 4096 :] = b"\xa5" * (len(data) - 8 * 4096)
    (tmp_path / "restante.db").write_bytes(data)
    store = SqliteStore.open(tmp_path)
    with pytest.raises(DataDamaged):
        store.scan(0, Space.META)
    store.close()


# --- Formats ----------------------------------------------------------------------------------------------------------


def test_data_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    newer = len(MIGRATIONS) + 1
    with sqlite3.connect(tmp_path / "restante.db") as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    connection.close()
    before = (tmp_path / "restante.db").read_bytes()
    with pytest.raises(FormatUnsupported, match=f"format {newer}, written by a newer version"):
        SqliteStore.open(tmp_path)
    assert (tmp_path / "restante.db").read_bytes() == before


def older_format(folder: Path) -> None:
    """A format that never was: entries under another name, and nothing else."""
    connection = sqlite3.connect(folder / "restante.db")
    connection.execute("CREATE TABLE rows (partition INTEGER, space INTEGER, key BLOB, value BLOB)")
    connection.execute("INSERT INTO rows VALUES (0, ?, x'6f6c64', x'76616c7565')", (int(Space.META),))
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def never_run(connection: sqlite3.Connection) -> None:
    raise AssertionError("this step was taken before")


def move_rows(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO entries SELECT * FROM rows")
    connection.execute("DROP TABLE rows")


def test_data_of_an_older_version_is_brought_forward(tmp_path: Path) -> None:
    older_format(tmp_path)
    migrations = (never_run, *MIGRATIONS, move_rows)
    for _ in range(2):
        store = SqliteStore.open(tmp_path, migrations=migrations)
        assert store.get(0, Space.META, b"old") == b"value"
        put(store, b"new", b"value")
        store.close()


def test_a_migration_that_fails_leaves_the_older_data(tmp_path: Path) -> None:
    older_format(tmp_path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO no_such_table VALUES (1)")

    with pytest.raises(Unavailable):
        SqliteStore.open(tmp_path, migrations=(never_run, *MIGRATIONS, move_rows, fail))
    store = SqliteStore.open(tmp_path, migrations=(never_run, *MIGRATIONS, move_rows))
    assert store.get(0, Space.META, b"old") == b"value"
    store.close()


# --- Where blobs lie --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "files"), [(INLINE_BYTES_MAX, 0), (INLINE_BYTES_MAX + 1, 1)])
@pytest.mark.parametrize("count", [1, 16])
def test_blobs_that_are_large_together_share_one_file(tmp_path: Path, total: int, files: int, count: int) -> None:
    store = SqliteStore.open(tmp_path)
    sizes = [total // count] * (count - 1) + [total - total // count * (count - 1)]
    store.commit(Changes(blobs=[(BlobKey(n, 1), [bytes([n]) * size]) for n, size in enumerate(sizes)]))
    assert len(blob_files(tmp_path)) == files
    for number, size in enumerate(sizes):
        assert store.read_blob(BlobKey(number, 1), 0, size) == bytes([number]) * size
    store.close()


def test_a_file_goes_when_its_last_blob_is_dropped(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.commit(Changes(blobs=[(BlobKey(n, 1), [LARGE]) for n in range(3)]))
    stored = store.size().stored_bytes
    store.commit(Changes(dropped=[BlobKey(0, 1), BlobKey(2, 1)]))
    store.checkpoint()
    assert len(blob_files(tmp_path)) == 1
    assert store.read_blob(BlobKey(1, 1), 0, len(LARGE)) == LARGE
    store.close()
    store = SqliteStore.open(tmp_path)
    store.commit(Changes(dropped=[BlobKey(1, 1)]))
    store.checkpoint()
    assert blob_files(tmp_path) == []
    assert store.size().stored_bytes <= stored - 3 * len(LARGE) + 16 * KIB, "but for a few pages"
    store.close()


def test_files_that_a_crash_left_unnamed_are_removed_at_start(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.put_blob(BlobKey(0, 1), [LARGE], fence=store.raise_fences(1))
    named = blob_files(tmp_path)
    store.close()
    for name in ("000000000099", "half.written"):
        (tmp_path / "blobs" / name).write_bytes(b"left")
    store = SqliteStore.open(tmp_path)
    assert blob_files(tmp_path) == named
    store.put_blob(BlobKey(0, 2), [LARGE], fence=store.raise_fences(1))
    assert store.read_blob(BlobKey(0, 2), 0, len(LARGE)) == LARGE
    store.close()


def test_blobs_without_their_database_are_damaged_data_and_stay(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.put_blob(BlobKey(0, 1), [LARGE], fence=store.raise_fences(1))
    store.close()
    (tmp_path / "restante.db").rename(tmp_path / "elsewhere.db")
    for _ in range(2):
        with pytest.raises(DataDamaged, match="missing or empty"):
            SqliteStore.open(tmp_path)
    (tmp_path / "elsewhere.db").rename(tmp_path / "restante.db")
    store = SqliteStore.open(tmp_path)
    assert store.read_blob(BlobKey(0, 1), 0, len(LARGE)) == LARGE
    store.close()


def test_a_refused_commit_leaves_no_file(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    with pytest.raises(StoreConflict):
        store.commit(Changes(blobs=[(BlobKey(0, 1), [LARGE])], fences={0: 1}))
    assert blob_files(tmp_path) == []
    store.close()


@pytest.mark.parametrize("second", [b"small", LARGE])
def test_a_blob_number_used_twice_is_a_mistake_that_changes_nothing(tmp_path: Path, second: bytes) -> None:
    store = SqliteStore.open(tmp_path)
    store.put_blob(BlobKey(0, 1), [b"first"], fence=store.raise_fences(1))
    with pytest.raises(AssertionError, match="written once"):
        store.put_blob(BlobKey(0, 1), [second], fence=store.raise_fences(1))
    assert store.read_blob(BlobKey(0, 1), 0, 5) == b"first"
    assert blob_files(tmp_path) == []
    store.close()


def test_a_blob_of_thousands_of_parts_is_written_whole(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    parts = [number.to_bytes(2, "big") * 100 for number in range(2_500)]
    store.put_blob(BlobKey(0, 1), parts, fence=store.raise_fences(1))
    assert len(blob_files(tmp_path)) == 1
    assert store.read_blob(BlobKey(0, 1), 0, 500_000) == b"".join(parts)
    store.close()


def test_a_missing_or_shortened_file_is_damaged_data_and_harms_no_other(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for number in range(3):
        store.put_blob(BlobKey(0, number), [LARGE], fence=store.raise_fences(1))
    store.close()
    missing, shortened, _ = ((tmp_path / "blobs") / name for name in blob_files(tmp_path))
    missing.unlink()
    os.truncate(shortened, 1000)
    store = SqliteStore.open(tmp_path)
    for blob in (BlobKey(0, 0), BlobKey(0, 1)):
        with pytest.raises(DataDamaged, match=f"Blob {blob.number} of partition 0"):
            store.read_blob(blob, 0, len(LARGE))
    assert store.read_blob(BlobKey(0, 1), 0, 1000) == LARGE[:1000]
    assert store.read_blob(BlobKey(0, 2), 0, len(LARGE)) == LARGE
    store.close()


def files_open_in(folder: Path) -> int:
    """Descriptors of this process on the folder's files; what else it opens and closes meanwhile does not count."""
    inside = {(found.st_dev, found.st_ino) for found in map(os.stat, folder.iterdir())}
    return sum((found.st_dev, found.st_ino) in inside for found in open_files())


def open_files() -> Iterator[os.stat_result]:
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # it was of the listing, or another thread closed it
            yield os.fstat(int(descriptor.name))


def test_only_so_many_files_are_kept_open(tmp_path: Path) -> None:
    files = BlobFiles(tmp_path / "blobs")
    numbers = [files.write([[str(n).encode()]]) for n in range(FILES_OPEN_MAX + 20)]
    for _ in range(2):
        for n, number in enumerate(numbers):
            assert files.read(number, 0, 10) == str(n).encode()
    assert files_open_in(tmp_path / "blobs") == FILES_OPEN_MAX
    files.close()
    assert files_open_in(tmp_path / "blobs") == 0


# --- The journal and the connections ----------------------------------------------------------------------------------


def test_a_checkpoint_empties_the_journal_for_the_next_commit(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for number in range(50):
        put(store, number.to_bytes(2, "big"), b"v" * 10_000)
    store.checkpoint()
    length = (tmp_path / "restante.db-wal").stat().st_size
    assert length > 50 * 10_000
    for number in range(50):
        put(store, number.to_bytes(2, "big"), b"w" * 10_000)
        store.checkpoint()
    assert (tmp_path / "restante.db-wal").stat().st_size == length
    assert store._journal.length_bytes() < length / 10
    store.close()


def test_a_long_journal_is_transferred_without_being_asked(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for number in range(2 * JOURNAL_BYTES_TARGET // INLINE_BYTES_MAX):
        store.put_blob(BlobKey(0, number), [bytes(INLINE_BYTES_MAX)], fence=store.raise_fences(1))
    # Closing waits for the thread, and would itself transfer the journal uncounted.
    store.close()
    assert store._journal._transferred_bytes >= JOURNAL_BYTES_TARGET


def test_closing_leaves_no_journal(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    put(store, b"key", b"value")
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "lock", "restante.db"]


def test_one_thread_reads_by_one_connection(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for _ in range(2 * READERS_MAX):
        store.scan(0, Space.META)
    assert store._readers._opened == 1
    store.close()
