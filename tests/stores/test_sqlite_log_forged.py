"""Records of the log that somebody put into a message: none of them is ever a commit, wherever a crash tears the file."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from xxhash import xxh3_64_digest

from restante.errors import DataDamaged, FormatUnsupported
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.stores.sqlite import SqliteStore
from restante.stores.sqlite.commits import LogBounds
from restante.stores.sqlite.log import log_files
from restante.stores.sqlite.log_content import read_log
from restante.stores.sqlite.record import CHECKSUM_BYTES, CommitDeeds, Life, chain, encode, unpack_lives
from restante.stores.sqlite.schema import MIGRATIONS

FORGED = CommitDeeds(entries=[((0, int(Space.META), b"forged"), b"yes")])
BEFORE = 3
"""Commits before the one whose message holds the forged record."""


def older_record(deeds: CommitDeeds, *, sequence: int, mark: bytes) -> bytes:
    """As the log of format 2 had them."""
    payload = msgspec.msgpack.encode(deeds)
    content = struct.pack("<8sQI", mark, sequence, len(payload)) + payload
    return content + xxh3_64_digest(content)


class Attacked:
    """A folder of which somebody has read the log; it is written to by messages alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = SqliteStore.open(folder, bounds=LogBounds(step_bytes=1))
        for number in range(1, BEFORE + 1):
            self.commit(number, b"message")
        self.read = self.written()

    def written(self) -> bytes:
        """The log's records without the zeros that follow; the last checksum may end with one."""
        _, lives, _ = self.known()
        content = (self.folder / "log-0").read_bytes()
        return content[: chain(content, lives[0])[1]]

    def commit(self, number: int, data: bytes) -> None:
        changes = Changes(blobs=[(BlobKey(0, number), [data])])
        changes.put(0, Space.META, b"last", bytes([number]))
        self.store.commit(changes)

    def known(self) -> tuple[bytes, tuple[Life, ...], int]:
        with closing(sqlite3.connect(self.folder / "restante.db")) as connection:
            ((mark, lives, transferred),) = connection.execute("SELECT mark, lives, transferred FROM log")
        return mark, unpack_lives(lives), transferred

    def records_read(self) -> list[bytes]:
        _, lives, _ = self.known()
        starts = [at for at in range(len(self.read)) if self.read.startswith(lives[0].mark, at)]
        assert len(starts) == BEFORE
        return [self.read[start:end] for start, end in zip(starts, [*starts[1:], len(self.read)], strict=True)]


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    return Attacked(tmp_path / "live")


def forgery(attacked: Attacked, kind: str) -> bytes:
    mark, (life, next_life), _ = attacked.known()
    records, number = attacked.records_read(), BEFORE + 1
    link = records[-1][-CHECKSUM_BYTES:]
    return {
        "of the older format": older_record(FORGED, sequence=number, mark=mark),
        "of the older format with the mark of this life": older_record(FORGED, sequence=number, mark=life.mark),
        "with all but the key": encode(FORGED, sequence=number, before=link, life=Life(life.mark, 0)),
        "for the next life": encode(FORGED, sequence=number, before=link, life=Life(next_life.mark, 0)),
        "copy of an earlier record": records[0],
        "copy of the record before": records[-1],
        "copy of the whole file": attacked.read,
    }[kind]


KINDS = (
    "of the older format",
    "of the older format with the mark of this life",
    "with all but the key",
    "for the next life",
    "copy of an earlier record",
    "copy of the record before",
    "copy of the whole file",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_inside_a_message_is_no_commit_wherever_the_file_is_cut(attacked: Attacked, kind: str) -> None:
    forged = forgery(attacked, kind)
    mark, lives, transferred = attacked.known()
    attacked.commit(BEFORE + 1, forged * 2)
    content, begun = attacked.written(), len(attacked.read)
    assert content.count(forged, begun) == 2
    torn = attacked.folder / "torn"
    for cut in range(begun + 1, len(content)):
        # Cut short; with zeros after it; and with nothing left of the record but what comes after its beginning.
        for left in (content[:cut], content[:cut].ljust(len(content), b"\0"), content[:begun] + content[cut:]):
            torn.write_bytes(left)
            missing = read_log([torn], mark=mark, lives=lives, transferred=transferred).missing
            assert [record.sequence for record in missing] == list(range(1, BEFORE + 1 + (left == content)))
    attacked.store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_opens_after_a_crash_finds_no_forged_commit(attacked: Attacked, kind: str, tmp_path: Path) -> None:
    forged, begun = forgery(attacked, kind), len(attacked.read)
    attacked.commit(BEFORE + 1, forged)
    crashed = tmp_path / "crashed"
    shutil.copytree(attacked.folder, crashed, ignore=shutil.ignore_patterns("*-shm", "lock"))
    attacked.store.close()
    content = (crashed / "log-0").read_bytes()
    # The record's beginning never came to the disk, and the forged one lies where it should have begun.
    (crashed / "log-0").write_bytes(content[:begun] + content[content.index(forged, begun) :])
    with closing(SqliteStore.open(crashed)) as store:
        assert store.get(0, Space.META, b"forged") is None
        assert store.get(0, Space.META, b"last") == bytes([BEFORE])
        assert store.blobs(0) == [BlobKey(0, number) for number in range(1, BEFORE + 1)]


def test_each_life_of_a_file_has_a_mark_and_a_key_that_no_other_has(attacked: Attacked) -> None:
    _, begun, _ = attacked.known()
    lives = list(begun)
    for number in range(BEFORE + 1, BEFORE + 6):
        attacked.store.checkpoint()
        _, known, _ = attacked.known()
        assert known[0] == lives[-1], "the one that was announced"
        lives.append(known[1])
        attacked.commit(number, b"message")
        assert known[0].mark in (attacked.folder / "log-0").read_bytes()
    assert len({life.mark for life in lives}) == len({life.seed for life in lives}) == len(lives)
    attacked.store.close()


# --- The log of format 2 ----------------------------------------------------------------------------------------------


def older_folder(folder: Path, commits: int) -> Path:
    """A folder of format 2 after a crash, with all its commits in the log."""
    folder.mkdir()
    connection = sqlite3.connect(folder / "restante.db")
    for step in MIGRATIONS[:2]:
        step(connection)
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    ((mark,),) = connection.execute("SELECT mark FROM log")
    connection.close()
    deeds = [
        CommitDeeds(entries=[((0, int(Space.META), b"last"), bytes([number]))]) for number in range(1, commits + 1)
    ]
    records = [older_record(done, sequence=number, mark=mark) for number, done in enumerate(deeds, start=1)]
    (folder / "log-0").write_bytes(b"".join(records))
    return folder


@pytest.mark.parametrize("torn", [False, True])
def test_a_log_of_format_2_is_brought_in_by_its_own_rules(tmp_path: Path, *, torn: bool) -> None:
    folder = older_folder(tmp_path / "data", 4)
    if torn:
        (folder / "log-0").write_bytes((folder / "log-0").read_bytes()[:-1])
    with closing(SqliteStore.open(folder)) as store:
        assert store.get(0, Space.META, b"last") == bytes([3 if torn else 4])
        assert log_files(folder) == [], "the next commit begins one of the new format"
        store.commit(Changes(blobs=[(BlobKey(0, 1), [b"new"])]))
        shutil.copytree(folder, tmp_path / "crashed", ignore=shutil.ignore_patterns("*-shm", "lock"))
    with closing(SqliteStore.open(tmp_path / "crashed")) as store:
        assert store.read_blob(BlobKey(0, 1), 0, 3) == b"new"
    with pytest.raises(FormatUnsupported):
        SqliteStore.open(folder, migrations=MIGRATIONS[:2])


def test_a_damaged_log_of_format_2_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    folder = older_folder(tmp_path / "data", 4)
    content = bytearray((folder / "log-0").read_bytes())
    content[30] ^= 1
    (folder / "log-0").write_bytes(content)
    for _ in range(2):
        with pytest.raises(DataDamaged, match="lacks commits"):
            SqliteStore.open(folder)
    assert (folder / "log-0").read_bytes() == content
