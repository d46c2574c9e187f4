"""The log before the database: the contract while it is transferred all the time, and all that can happen to it."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.errors import DataDamaged, FormatUnsupported, StorageFull, Unavailable
from restante.limits import KIB
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.store import Store
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.commits import LogBounds
from restante.stores.sqlite.failures import RecordInDoubt, outcome_unknown, translated
from restante.stores.sqlite.log import log_files
from restante.stores.sqlite.log_content import LogContent, read_log
from restante.stores.sqlite.lookups import Lookups
from restante.stores.sqlite.readers import ReadConnections
from restante.stores.sqlite.record import (
    CHECKSUM_BYTES,
    FILE_HEAD_BYTES,
    CommitDeeds,
    FileHead,
    Life,
    decode,
    encode,
    encode_file_head,
    first_link,
    unpack_lives,
)
from restante.stores.sqlite.schema import MIGRATIONS
from restante.testing.store_contract import StoreContract
from tests.profiles import places

TINY = LogBounds(target_bytes=1, most_bytes=3_000, step_bytes=512)
"""Every commit wakes the transfer, and few go on before it is done."""
LARGE = b"large" * 100 * KIB
COMMITS = 6
BYTES_TRIED = 60
"""Where a log is cut or spoilt, in the tier for people; at any byte otherwise."""
MARK = b"\x01mark\xff\x00\x02"
LIVES = (Life(b"\x01life\xff\x00\x02", 7), Life(b"another\x00", 8))


def copy_as_it_lies(folder: Path, target: Path) -> Path:
    """What a crash at this moment leaves, but for the parts that do not outlive a process."""

    def copy(source: str, destination: str) -> None:
        # A dropped file may be removed just now.
        if Path(source).exists():
            shutil.copyfile(source, destination)

    shutil.copytree(folder, target, copy_function=copy, ignore=shutil.ignore_patterns("*-shm", "lock"))
    return target


class TestSqliteStoreThatTransfersAllTheTime(StoreContract):
    def open(self, folder: Path) -> Store:
        return SqliteStore.open(folder, bounds=TINY)

    def open_doubtful(self, folder: Path) -> None:
        """A commit whose flush fails stops the store."""


class TestSqliteStoreThatCrashesInsteadOfClosing(StoreContract):
    def open(self, folder: Path) -> Store:
        return SqliteStore.open(folder)

    def reopen(self, store: Store, folder: Path) -> Store:
        left = copy_as_it_lies(folder, folder.with_name("left"))
        store.close()
        shutil.rmtree(folder)
        left.rename(folder)
        return self.open(folder)

    def open_doubtful(self, folder: Path) -> None:
        """A commit whose flush fails stops the store."""


def numbered_commit(number: int) -> Changes:
    changes = Changes(blobs=[(BlobKey(0, number), [b"blob", bytes([number])])])
    changes.put(0, Space.RUN, bytes([number]), b"value")
    changes.put(1, Space.META, b"last", bytes([number]))
    if number > 2:
        changes.dropped.append(BlobKey(0, number - 2))
        changes.delete(0, Space.RUN, bytes([number - 2]))
    return changes


def last_whole_commit(store: Store) -> int:
    """The number of the last commit; nothing of it is missing, and nothing of a later one is there."""
    last = (store.get(1, Space.META, b"last") or b"\0")[0]
    numbers = [number for number in (last - 1, last) if number > 0]
    assert store.scan(0, Space.RUN) == [(bytes([number]), b"value") for number in numbers]
    assert store.blobs(0) == [BlobKey(0, number) for number in numbers]
    for number in numbers:
        assert store.read_blob(BlobKey(0, number), 0, 5) == b"blob" + bytes([number])
    return last


def last_found(folder: Path) -> int:
    store = SqliteStore.open(folder)
    last = last_whole_commit(store)
    store.close()
    return last


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it lies on the disk after some commits, the first two of them in the database."""
    folder = tmp_path_factory.mktemp("store")
    store = SqliteStore.open(folder / "live", bounds=LogBounds(step_bytes=1))
    for number in range(1, COMMITS + 1):
        store.commit(numbered_commit(number))
        if number == 2:
            store.checkpoint()
    copy_as_it_lies(folder / "live", folder / "crashed")
    store.close()
    return folder / "crashed"


def with_log(crashed: Path, folder: Path, content: bytes | bytearray) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(crashed, folder)
    only_log(folder).write_bytes(content)
    return folder


def only_log(folder: Path) -> Path:
    (path,) = log_files(folder)
    return path


def content_of(folder: Path) -> LogContent:
    with sqlite3.connect(folder / "restante.db") as connection:
        ((mark, lives, transferred),) = connection.execute("SELECT mark, lives, transferred FROM log")
    connection.close()
    return read_log(log_files(folder), mark=mark, lives=unpack_lives(lives), transferred=transferred)


def records_of(crashed: Path) -> list[bytes]:
    """The records of the log that count; the first of them with the head of the file."""
    content, found = only_log(crashed).read_bytes(), content_of(crashed)
    (life,) = found.lives
    assert life is not None
    head = content[:FILE_HEAD_BYTES]
    records, before = [], first_link(head, life)
    for record in found.missing:
        records.append(encode(decode(record), sequence=record.sequence, before=before, life=life))
        before = records[-1][-CHECKSUM_BYTES:]
    records[0] = head + records[0]
    assert content.startswith(b"".join(records))
    return records


def log_of(sequences: list[int], *, life: Life) -> bytes:
    """A log file with records of these numbers, linked as they should be."""
    content = encode_file_head(FileHead(MARK, sequences[0]))
    before = first_link(content, life)
    for sequence in sequences:
        content += encode(CommitDeeds(dropped=[1]), sequence=sequence, before=before, life=life)
        before = content[-CHECKSUM_BYTES:]
    return content


def numbers_found(folder: Path, transferred: int = 0) -> list[int]:
    found = read_log(log_files(folder), mark=MARK, lives=LIVES, transferred=transferred)
    return [record.sequence for record in found.missing]


# --- A crash ----------------------------------------------------------------------------------------------------------


def test_what_was_committed_lies_in_the_log_and_is_found_after_a_crash(crashed: Path, tmp_path: Path) -> None:
    assert len(records_of(crashed)) == COMMITS - 2
    folder = copy_as_it_lies(crashed, tmp_path / "data")
    store = SqliteStore.open(folder)
    assert last_whole_commit(store) == COMMITS
    store.commit(numbered_commit(COMMITS + 1))
    store.close()
    assert last_found(folder) == COMMITS + 1


@pytest.mark.parametrize("filler", [b"", b"\0"], ids=["nothing behind", "zeros behind"])
def test_a_log_cut_at_any_byte_opens_to_the_last_commit_before_it(crashed: Path, tmp_path: Path, filler: bytes) -> None:
    records = records_of(crashed)
    ends = [sum(map(len, records[: count + 1])) for count in range(len(records))]
    content = b"".join(records)
    for cut in places(len(content) + 1, most=BYTES_TRIED):
        left = content[:cut] + filler * (len(content) - cut)
        folder = with_log(crashed, tmp_path / "cut", left)
        # A record whose last bytes were zeros is whole with zeros in their place.
        assert last_found(folder) == 2 + sum(left[:end] == content[:end] for end in ends)


def test_a_log_spoilt_in_its_last_record_opens_to_the_one_before_it(crashed: Path, tmp_path: Path) -> None:
    *before, last = records_of(crashed)
    start = len(b"".join(before))
    for at in places(len(last), most=BYTES_TRIED):
        content = bytearray(only_log(crashed).read_bytes())
        content[start + at] ^= 0x10
        assert last_found(with_log(crashed, tmp_path / "spoilt", content)) == COMMITS - 1


def test_a_log_spoilt_before_its_last_record_is_damaged_data_and_stays(crashed: Path, tmp_path: Path) -> None:
    *before, _ = records_of(crashed)
    for at in places(len(b"".join(before)), most=BYTES_TRIED):
        content = bytearray(only_log(crashed).read_bytes())
        content[at] ^= 0x10
        folder = with_log(crashed, tmp_path / "spoilt", content)
        with pytest.raises(DataDamaged):
            SqliteStore.open(folder)
        assert only_log(folder).read_bytes() == content
    assert last_found(with_log(crashed, tmp_path / "sound", only_log(crashed).read_bytes())) == COMMITS


def test_a_crash_between_the_transfer_and_the_removal_repeats_nothing(crashed: Path, tmp_path: Path) -> None:
    folder = copy_as_it_lies(crashed, tmp_path / "data")
    content = only_log(folder).read_bytes()
    for _ in range(2):
        store = SqliteStore.open(folder)
        assert last_whole_commit(store) == COMMITS
        store.close()
        assert log_files(folder) == []
        (folder / "log-0").write_bytes(content)
    store = SqliteStore.open(folder)
    store.commit(numbered_commit(COMMITS + 1))
    left = copy_as_it_lies(folder, tmp_path / "left")
    store.close()
    # A stale log beside a newer one.
    (left / "log-7").write_bytes(content)
    assert last_found(left) == COMMITS + 1


def test_a_file_that_was_written_over_shows_nothing_of_its_earlier_life(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "live", bounds=LogBounds(step_bytes=4 * KIB))
    for number in range(1, 20):
        store.commit(numbered_commit(number))
        if number % 7 == 0:
            store.checkpoint()
        folder = copy_as_it_lies(tmp_path / "live", tmp_path / str(number))
        assert last_found(folder) == number
    assert len(log_files(tmp_path / "live")) <= 2
    store.close()


def test_a_closed_store_holds_no_file_open_though_its_log_stays(tmp_path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    store = SqliteStore.open(tmp_path)
    store.commit(numbered_commit(1))
    store._writer.stop("as after a failed flush; reopen")
    with pytest.raises(Unavailable):
        store.checkpoint()
    store.close()
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert len(log_files(tmp_path)) == 1
    assert last_found(tmp_path) == 1


def test_a_file_whose_blobs_came_and_went_in_the_log_is_gone_after_a_crash_too(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "live")
    store.put_blob(BlobKey(0, 1), [LARGE], fence=store.raise_fences(1))
    store.put_blob(BlobKey(0, 2), [LARGE], fence=store.raise_fences(1))
    before = copy_as_it_lies(tmp_path / "live", tmp_path / "before")
    store.commit(Changes(dropped=[BlobKey(0, 1)]))
    after = copy_as_it_lies(tmp_path / "live", tmp_path / "after")
    store.close()
    for folder, numbers in ((before, [1, 2]), (after, [2]), (tmp_path / "live", [2])):
        store = SqliteStore.open(folder)
        assert store.blobs(0) == [BlobKey(0, number) for number in numbers]
        assert all(store.read_blob(BlobKey(0, number), 0, len(LARGE)) == LARGE for number in numbers)
        assert len(list((folder / "blobs").iterdir())) == len(numbers)
        store.close()


# --- Logs and databases that do not belong together -------------------------------------------------------------------


def test_a_log_without_its_database_is_damaged_data_and_stays(crashed: Path, tmp_path: Path) -> None:
    folder = copy_as_it_lies(crashed, tmp_path / "data")
    for name in ("restante.db", "restante.db-wal"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "blobs")
    for _ in range(2):
        with pytest.raises(DataDamaged, match="missing or empty"):
            SqliteStore.open(folder)
    assert only_log(folder).read_bytes() == only_log(crashed).read_bytes()


def test_a_log_that_goes_on_from_a_later_database_is_damaged_data(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "live")
    store.commit(numbered_commit(1))
    store.checkpoint()
    older = copy_as_it_lies(tmp_path / "live", tmp_path / "older")
    for number in (2, 3):
        store.commit(numbered_commit(number))
        if number == 2:
            store.checkpoint()
    later = copy_as_it_lies(tmp_path / "live", tmp_path / "later")
    store.close()
    for path in log_files(older):
        path.unlink()
    assert last_found(copy_as_it_lies(older, tmp_path / "sound")) == 1
    for path in log_files(later):
        shutil.copyfile(path, older / path.name)
    # What the file still holds of the second commit is not the whole of it.
    with pytest.raises(DataDamaged, match="lacks commits"):
        SqliteStore.open(older)


def test_the_log_of_another_database_is_damaged_data(crashed: Path, tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    shutil.copyfile(only_log(crashed), tmp_path / "log-0")
    with pytest.raises(DataDamaged, match="another database"):
        SqliteStore.open(tmp_path)


def test_a_folder_of_the_format_before_the_log_opens_and_is_then_refused_to_older_versions(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "restante.db")
    MIGRATIONS[0](connection)
    connection.execute("INSERT INTO entries VALUES (0, 0, x'6f6c64', x'76616c7565')")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    store = SqliteStore.open(tmp_path)
    assert store.get(0, Space.META, b"old") == b"value"
    store.commit(numbered_commit(1))
    store.close()
    with pytest.raises(FormatUnsupported):
        SqliteStore.open(tmp_path, migrations=MIGRATIONS[:1])
    assert last_found(tmp_path) == 1


# --- Records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sequences", "transferred"), [([1, 3], 0), ([2], 0), ([5, 7], 4), ([5, 6], 3)])
def test_a_gap_in_the_log_is_damaged_data(tmp_path: Path, sequences: list[int], transferred: int) -> None:
    for sequence, life in zip(sequences, LIVES, strict=False):
        (tmp_path / f"log-{sequence}").write_bytes(log_of([sequence], life=life))
    with pytest.raises(DataDamaged, match="lacks commits"):
        numbers_found(tmp_path, transferred)


# --- Failures while it is written -------------------------------------------------------------------------------------


def test_after_a_failed_flush_nothing_is_written_until_the_store_is_reopened(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.commit(numbered_commit(1))
    file = store._log._file
    assert file is not None
    # A device that takes every write, and cannot be flushed.
    null, kept = os.open("/dev/null", os.O_RDWR), os.dup(file._descriptor)
    os.dup2(null, file._descriptor)
    with pytest.raises(Unavailable):
        store.commit(numbered_commit(2))
    os.dup2(kept, file._descriptor)
    os.close(null)
    os.close(kept)
    with pytest.raises(Unavailable, match="reopen"):
        store.commit(numbered_commit(2))
    assert last_whole_commit(store) == 1
    store.close()
    assert len(log_files(tmp_path)) == 1, "it is for the restart to judge"
    assert last_found(tmp_path) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_record_whose_flush_failed_may_be_found_later_whatever_the_reason(number: int) -> None:
    in_doubt = RecordInDoubt(number, "the flush failed")
    assert outcome_unknown(in_doubt)
    assert isinstance(translated(in_doubt, "data"), Unavailable)


def test_a_log_without_room_is_cut_back_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, bounds=LogBounds(step_bytes=1_000))
    store.commit(numbered_commit(1))
    file = store._log._file
    assert file is not None
    # A device that is always full; its length is none, so it must be made longer first.
    full, kept, size = os.open("/dev/full", os.O_RDWR), os.dup(file._descriptor), file._size
    for length in (size, file._end):
        file._size = length
        os.dup2(full, file._descriptor)
        with pytest.raises(StorageFull):
            store.commit(numbered_commit(2))
        os.dup2(kept, file._descriptor)
        assert last_whole_commit(store) == 1
    os.close(full)
    os.close(kept)
    store.commit(numbered_commit(2))
    assert last_whole_commit(store) == 2
    left = copy_as_it_lies(tmp_path, tmp_path.with_name("left"))
    store.close()
    assert last_found(left) == 2


# --- Beside others ----------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[SqliteStore, threading.Event]]:
    """A store into which somebody commits small things all the time, transferred every few commits."""
    store = SqliteStore.open(tmp_path / "busy", bounds=LogBounds(target_bytes=5_000, most_bytes=20_000))
    store.commit(equal_commit(1))
    done = threading.Event()

    def commit() -> None:
        number = 2
        while not done.is_set():
            store.commit(equal_commit(number))
            number += 1

    committing = threading.Thread(target=commit)
    committing.start()
    yield store, done
    done.set()
    committing.join()
    store.close()


def equal_commit(number: int) -> Changes:
    """Says its number under every third of some keys, deletes the others, and lists a blob for each of its two."""
    value = number.to_bytes(4, "big")
    changes = Changes(blobs=[(BlobKey(0, 2 * number + more), [value]) for more in (0, 1)])
    changes.dropped.extend(BlobKey(0, 2 * number - 2 + more) for more in (0, 1) if number > 1)
    for key in range(30):
        if key % 3 == number % 3:
            changes.put(0, Space.RUN, bytes([key]), value)
        else:
            changes.delete(0, Space.RUN, bytes([key]))
    return changes


def see_one_commit(store: Store, *, limit: int, reverse: bool) -> int:
    rows = store.scan(0, Space.RUN, limit=limit, reverse=reverse)
    (value,) = {value for _, value in rows}
    number = int.from_bytes(value, "big")
    keys = [key for key in range(30) if key % 3 == number % 3]
    assert [key[0] for key, _ in rows] == (keys[::-1] if reverse else keys)[:limit]
    first, second = store.blobs(0)
    assert (first.number % 2, second.number) == (0, first.number + 1)
    assert first.number >= 2 * number
    return number


class Overtaken(ReadConnections):
    """Before each of its first reads somebody else commits, and all is transferred."""

    def __init__(self, store: SqliteStore, times: int) -> None:
        super().__init__(store._path)
        self.store, self.times = store, times

    def rows(self, query: str, parameters: tuple[int | bytes, ...]) -> list[Any]:
        if self.times:
            self.times -= 1
            number = see_one_commit(self.store, limit=10, reverse=False) + 1
            self.store.commit(equal_commit(number))
            self.store.checkpoint()
            self.store.commit(equal_commit(number + 1))
        return super().rows(query, parameters)


@pytest.mark.parametrize("times", [0, 1, 2, 3])
@pytest.mark.parametrize("limit", [4, 10])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_list_that_commits_and_transfers_overtake_is_taken_again(
    tmp_path: Path, times: int, limit: int, *, reverse: bool
) -> None:
    store = SqliteStore.open(tmp_path)
    store.commit(equal_commit(1))
    readers = Overtaken(store, 0)
    overtaken = Lookups(readers, store._files, store._overlay)
    for turn in range(1, 4):
        readers.times = times
        scanned = overtaken.scan(0, Space.RUN, start=b"", end=None, limit=limit, reverse=reverse)
        assert scanned == store.scan(0, Space.RUN, limit=limit, reverse=reverse)
        readers.times = times
        assert overtaken.blobs(0) == store.blobs(0)
        assert see_one_commit(store, limit=limit, reverse=reverse) == 1 + 4 * turn * times
    readers.close()
    store.close()


def test_what_the_log_deletes_does_not_count_towards_a_limit(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    letters = [bytes([letter]) for letter in b"abcdefgh"]
    changes = Changes()
    for letter in letters:
        changes.put(0, Space.RUN, letter, letter)
    store.commit(changes)
    store.checkpoint()
    changes = Changes()
    for letter in (b"a", b"b", b"g", b"h"):
        changes.delete(0, Space.RUN, letter)
    store.commit(changes)
    for limit in range(6):
        left = [(letter, letter) for letter in letters[2:6]]
        assert store.scan(0, Space.RUN, limit=limit) == left[:limit]
        assert store.scan(0, Space.RUN, limit=limit, reverse=True) == left[::-1][:limit]
    store.close()


@pytest.mark.parametrize("limit", [4, 10])
@pytest.mark.parametrize("reverse", [False, True])
def test_lists_are_of_one_moment_while_commits_are_transferred(
    busy: tuple[SqliteStore, threading.Event], limit: int, *, reverse: bool
) -> None:
    store, _ = busy
    numbers: list[int] = []
    # Until transfers went on beside it often enough.
    while store._overlay.epoch < 20 and len(numbers) < 100_000:
        numbers.append(see_one_commit(store, limit=limit, reverse=reverse))
    assert len(numbers) < 100_000
    assert numbers == sorted(numbers)


def test_a_list_that_is_overtaken_again_and_again_keeps_commits_away(
    busy: tuple[SqliteStore, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = busy
    monkeypatch.setattr("restante.stores.sqlite.lookups._TRIES_MAX", 0)
    numbers = [see_one_commit(store, limit=10, reverse=False) for _ in range(300)]
    assert numbers == sorted(numbers)


def test_a_snapshot_beside_commits_holds_all_that_came_before_it(
    busy: tuple[SqliteStore, threading.Event], tmp_path: Path
) -> None:
    store, _ = busy
    for turn in range(5):
        before = see_one_commit(store, limit=10, reverse=False)
        snapshot = store.snapshot()
        folder = tmp_path / f"restored {turn}"
        (folder / "blobs").mkdir(parents=True)
        for part in snapshot.parts:
            (folder / part.name).write_bytes(b"".join(part.chunks()))
        snapshot.close()
        restored = SqliteStore.open(folder)
        assert see_one_commit(restored, limit=10, reverse=False) >= before
        restored.commit(Changes(dropped=[BlobKey(9, 9)]))
        restored.close()


# --- Sizes ------------------------------------------------------------------------------------------------------------


def test_what_came_and_went_in_the_log_never_reaches_the_database(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    for number in range(1, 101):
        store.commit(Changes(blobs=[(BlobKey(0, number), [bytes(10_000)])]))
        store.commit(Changes(dropped=[BlobKey(0, number)]))
    store.checkpoint()
    assert (tmp_path / "restante.db").stat().st_size < 100 * KIB
    assert store.size().written_bytes > 100 * 10_000
    store.close()


def test_the_log_is_transferred_without_being_asked_and_counted_in_the_size(tmp_path: Path) -> None:
    bounds = LogBounds(target_bytes=50_000, most_bytes=100_000)
    store = SqliteStore.open(tmp_path, bounds=bounds)
    before = store.size().stored_bytes
    for number in range(1, 200):
        store.put_blob(BlobKey(0, number), [bytes(1_000)], fence=store.raise_fences(1))
        assert store._overlay.weight_bytes() < bounds.most_bytes + 2_000
    assert store._overlay.epoch >= 2
    logs = sum(path.stat().st_size for path in log_files(tmp_path))
    assert 0 < logs <= 3 * (bounds.most_bytes + bounds.step_bytes)
    assert store.size().stored_bytes >= before + logs
    store.close()
