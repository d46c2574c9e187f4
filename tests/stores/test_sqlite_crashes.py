"""The SQLite engine when the machine goes down, and when there is no room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from restante.errors import StorageFull, Unavailable
from restante.limits import KIB, MIB
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.store import Store
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.commits import LogBounds
from restante.stores.sqlite.schema import PAGE_BYTES
from tests.crash.campaign import live_and_die

CHECKOUT = Path(__file__).parents[2]
JOURNAL_HEADER_BYTES = 32
FRAME_BYTES = 24 + PAGE_BYTES
COMMITS = 6
LARGE_SIZE = 300 * KIB


def numbered_commit(number: int) -> Changes:
    """Every third has a blob that lies in a file; the others' is large enough for several pages."""
    size = LARGE_SIZE if number % 3 == 0 else 6_000
    changes = Changes(blobs=[(BlobKey(1, number), [bytes([number]) * size])])
    changes.put(0, Space.RUN, bytes([number]), str(size).encode())
    changes.put(1, Space.META, b"last", bytes([number]))
    return changes


def last_whole_commit(store: Store) -> int:
    """The number of the last commit; everything up to it is there, and nothing of a later one."""
    last = (store.get(1, Space.META, b"last") or b"\x00")[0]
    rows = store.scan(0, Space.RUN)
    assert [key[0] for key, _ in rows] == list(range(1, last + 1))
    assert store.blobs(1) == [BlobKey(1, number) for number in range(1, last + 1)]
    for key, size in rows:
        assert store.read_blob(BlobKey(1, key[0]), 0, int(size)) == key * int(size)
    return last


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it lies on the disk after some commits, each a transaction of its own, the journal not transferred."""
    folder = tmp_path_factory.mktemp("store")
    store = SqliteStore.open(folder / "live")
    store.checkpoint()
    for number in range(1, COMMITS + 1):
        store.commit(numbered_commit(number))
        store._commits.transfer()
    ignored = shutil.ignore_patterns("*-shm", "lock", "log-*")
    shutil.copytree(folder / "live", folder / "crashed", ignore=ignored)
    store.close()
    return folder / "crashed"


def found_after(crashed: Path, folder: Path, journal: bytes) -> int:
    shutil.copytree(crashed, folder)
    (folder / "restante.db-wal").write_bytes(journal)
    store = SqliteStore.open(folder)
    last = last_whole_commit(store)
    files = len(list((folder / "blobs").iterdir()))
    store.close()
    shutil.rmtree(folder)
    assert files == last // 3
    return last


def test_a_journal_torn_anywhere_opens_to_a_whole_commit(crashed: Path, tmp_path: Path) -> None:
    journal = (crashed / "restante.db-wal").read_bytes()
    frames = range(JOURNAL_HEADER_BYTES, len(journal) + 1, FRAME_BYTES)
    cuts = sorted({0, 7} | {cut + more for cut in frames for more in (0, 1, 24, 2_000)} - {len(journal) + 1})
    found = [found_after(crashed, tmp_path / "torn", journal[:cut]) for cut in cuts]
    assert found == sorted(found)
    assert set(found) == set(range(COMMITS + 1))


def test_a_journal_with_a_flipped_byte_opens_to_a_whole_commit_before_it(crashed: Path, tmp_path: Path) -> None:
    journal = (crashed / "restante.db-wal").read_bytes()
    found = []
    for place in range(JOURNAL_HEADER_BYTES + 100, len(journal), FRAME_BYTES):
        flipped = bytearray(journal)
        flipped[place] ^= 0x40
        found.append(found_after(crashed, tmp_path / "flipped", bytes(flipped)))
    assert found == sorted(found)
    assert set(found) == set(range(COMMITS))


COMMIT_FOR_EVER = """
import itertools, pathlib, sys
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.commits import LogBounds
from tests.stores.test_sqlite_crashes import numbered_commit
bounds = LogBounds(target_bytes=int(sys.argv[2]), most_bytes=2 * int(sys.argv[2]))
store = SqliteStore.open(pathlib.Path(sys.argv[1]), bounds=bounds)
for number in itertools.count(1):
    store.commit(numbered_commit(number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("target_bytes", [1, 20_000, 4 * MIB], ids=["each transferred", "some", "all in the log"])
@pytest.mark.parametrize("answers", [1, 30, 75])
def test_a_killed_process_has_kept_what_it_answered(tmp_path: Path, answers: int, target_bytes: int) -> None:
    command = [sys.executable, "-c", COMMIT_FOR_EVER, str(tmp_path), str(target_bytes)]
    answered = live_and_die(command, answers)
    assert len(answered) >= answers
    store = SqliteStore.open(tmp_path)
    assert answered[-1] <= last_whole_commit(store) <= answered[-1] + 1
    store.close()


# --- No room ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "restante-test", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("size", [10_000, LARGE_SIZE])
def test_a_full_disk_changes_nothing_and_room_lets_the_store_go_on(small_disk: Path, size: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(MIB))
    store = SqliteStore.open(small_disk / "data")
    kept = 0
    with suppress(StorageFull):
        for number in range(1, 1_000):
            store.commit(Changes(blobs=[(BlobKey(0, number), [bytes([number % 256]) * size])]))
            kept = number
    for _ in range(3):
        with pytest.raises(StorageFull, match="Make room"):
            store.commit(Changes(blobs=[(BlobKey(0, kept + 1), [bytes(LARGE_SIZE)])]))
    assert store.blobs(0) == [BlobKey(0, number) for number in range(1, kept + 1)]
    ballast.unlink()
    store.commit(Changes(blobs=[(BlobKey(0, kept + 1), [bytes(size)])]))
    store.close()
    store = SqliteStore.open(small_disk / "data")
    assert store.blobs(0) == [BlobKey(0, number) for number in range(1, kept + 2)]
    assert store.read_blob(BlobKey(0, kept), size - 1, 1) == bytes([kept % 256])
    assert len(list((small_disk / "data" / "blobs").iterdir())) == (kept + 1 if size == LARGE_SIZE else 0)
    store.close()


def test_a_full_database_is_borne_by_the_log_until_that_is_full_too(tmp_path: Path) -> None:
    bounds = LogBounds(target_bytes=10_000, most_bytes=40_000)
    store = SqliteStore.open(tmp_path, bounds=bounds)
    store.commit(numbered_commit(1))
    store.checkpoint()
    connection = store._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    kept = 1
    with suppress(StorageFull):
        for number in range(2, 100):
            store.commit(numbered_commit(number))
            kept = number
    assert 4 < kept < 20
    with pytest.raises(StorageFull):
        store.commit(numbered_commit(kept + 1))
    assert store._overlay.weight_bytes() < bounds.most_bytes + 10_000
    assert last_whole_commit(store) == kept
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    store.commit(numbered_commit(kept + 1))
    assert last_whole_commit(store) == kept + 1
    assert store._overlay.weight_bytes() < 10_000, "those before it are in the database"
    store.close()


def test_a_folder_without_room_for_its_log_in_the_database_opens_all_the_same(small_disk: Path, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "live")
    for number in range(1, 201):
        store.commit(Changes(blobs=[(BlobKey(0, number), [bytes([number]) * 10_000])]))
    shutil.copytree(tmp_path / "live", small_disk / "data", ignore=shutil.ignore_patterns("*-shm", "lock"))
    store.close()
    everything = [BlobKey(0, number) for number in range(1, 201)]
    for _ in range(2):
        store = SqliteStore.open(small_disk / "data")
        assert store._overlay.frozen is not None, "the disk is too small for the test"
        assert store.blobs(0) == everything
        assert store.read_blob(BlobKey(0, 150), 0, 10_000) == bytes([150]) * 10_000
        with suppress(StorageFull):
            store.commit(Changes(dropped=[everything[-1]]))
            everything.pop()
        store.close()
    shutil.copytree(small_disk / "data", tmp_path / "roomy")
    store = SqliteStore.open(tmp_path / "roomy")
    assert store._overlay.frozen is None
    assert store.blobs(0) == everything
    store.close()


# A limit on the length of files fails writes as a full disk does, with EFBIG, which SQLite reports as an I/O error.
WRITE_UNDER_A_LIMIT = """
import os, pathlib, resource, sys
from restante.errors import RestanteError
from restante.model.storage.changes import BlobKey, Changes
from restante.stores.sqlite import SqliteStore
from tests.stores.test_sqlite_crashes import last_whole_commit, numbered_commit
folder, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
store = SqliteStore.open(folder)
store.commit(numbered_commit(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), most))
for limit in (None, most):
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    try:
        if number == 0:
            store.checkpoint()
        store.commit(numbered_commit(2 if number % 3 else 3))
        print("committed")
    except RestanteError as error:
        print(error.code, "reopen" in error.message)
print(len(os.listdir(folder / "blobs")), store.get(0, 2, bytes([1])) is not None)
store.close()
store = SqliteStore.open(folder)
print(len(store.blobs(1)))
"""


def under_a_limit(folder: Path, number: int, limit: int) -> list[str]:
    command = [sys.executable, "-c", WRITE_UNDER_A_LIMIT, str(folder), str(number), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT).stdout.splitlines()


def test_a_blob_file_that_finds_no_room_is_removed_and_the_store_goes_on(tmp_path: Path) -> None:
    assert under_a_limit(tmp_path, 3, 100 * KIB) == ["storage_full False", "committed", "1 True", "2"]


def test_a_log_that_finds_no_room_goes_on_when_there_is_some(tmp_path: Path) -> None:
    assert under_a_limit(tmp_path, 2, 8 * KIB) == ["storage_full False", "committed", "0 True", "2"]


def test_a_database_that_finds_no_room_goes_on_when_there_is_some(tmp_path: Path) -> None:
    assert under_a_limit(tmp_path, 0, 20 * KIB) == ["storage_full False", "committed", "1 True", "2"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the journal's descriptors in /proc")
def test_after_an_io_error_of_the_database_nothing_is_written_until_the_store_is_reopened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore.open(tmp_path)
    store.commit(numbered_commit(1))
    journal = tmp_path / "restante.db-wal"
    unwritable = os.open(journal, os.O_RDONLY)
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # that of the folder which was just listed
            if descriptor.readlink() == journal:
                os.dup2(unwritable, int(descriptor.name))
    os.close(unwritable)
    assert store.failure() is None
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.checkpoint()
    with pytest.raises(Unavailable, match="reopen"):
        store.commit(numbered_commit(2))
    assert store.failure() is not None
    store.close()
    assert [record.levelname for record in caplog.records].count("CRITICAL") == 1
    store = SqliteStore.open(tmp_path)
    assert last_whole_commit(store) == 1
    store.close()


def test_a_blob_folder_out_of_reach_is_unavailable_until_it_is_back(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.commit(numbered_commit(3))
    (tmp_path / "blobs").rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        store.commit(numbered_commit(6))
    (tmp_path / "elsewhere").rename(tmp_path / "blobs")
    store.commit(numbered_commit(6))
    assert store.blobs(1) == [BlobKey(1, 3), BlobKey(1, 6)]
    store.close()
