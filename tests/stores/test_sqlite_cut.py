"""A cut of a folder: commits are held for a moment, and the snapshot has what was committed until then, and no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from restante.errors import Unavailable
from restante.model.storage.changes import Changes, Space
from restante.ports.backup import CutLapses, StoreSnapshot
from restante.stores.sqlite import SqliteStore
from tests.waiting import wait_until

PATIENT = CutLapses(prepared=60.0, held=60.0, kept=60.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore.open(tmp_path / "data")) as opened:
        yield opened


def put(store: SqliteStore, number: int, fence: int) -> None:
    changes = Changes(fences={0: fence})
    changes.put(0, Space.HEAD, number.to_bytes(4, "big"), b"x" * 1_000)
    store.commit(changes)


def numbers_in(snapshot: StoreSnapshot, folder: Path) -> list[int]:
    folder.mkdir()
    (folder / "restante.db").write_bytes(b"".join(snapshot.parts[0].chunks()))
    with closing(SqliteStore.open(folder)) as copied:
        return [int.from_bytes(key, "big") for key, _ in copied.scan(0, Space.HEAD)]


def test_a_snapshot_has_what_was_committed_when_commits_were_held(store: SqliteStore, tmp_path: Path) -> None:
    fence = store.raise_fences(1)
    put(store, 0, fence)
    cut = store.cut(PATIENT)
    put(store, 1, fence)
    assert cut.hold()
    late = threading.Thread(target=put, args=(store, 2, fence))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    seconds = cut.release()
    assert seconds is not None
    late.join()
    for number in range(3, 6_000):  # more than a log holds before it is transferred
        put(store, number, fence)
    with closing(cut.snapshot()) as snapshot:
        assert numbers_in(snapshot, tmp_path / "copy") == [0, 1]
    assert len(store.scan(0, Space.HEAD)) == 6_000
    store.snapshot().close()


def test_a_store_goes_on_by_itself(store: SqliteStore) -> None:
    fence = store.raise_fences(1)
    cut = store.cut(PATIENT._replace(held=0.05))
    assert cut.hold()
    put(store, 1, fence)
    assert cut.release() is None
    with pytest.raises(Unavailable):
        cut.snapshot()
    assert not cut.hold()
    prepared = store.cut(PATIENT._replace(prepared=0.05))
    wait_until(lambda: prepared._closed, "it lapses")
    kept = store.cut(PATIENT._replace(kept=0.05))
    assert kept.hold()
    assert kept.release() is not None
    wait_until(lambda: kept._closed, "nobody fetches it")
    store.snapshot().close()


def test_there_is_one_at_a_time_and_a_snapshot_only_of_what_was_held(store: SqliteStore) -> None:
    cut = store.cut(PATIENT)
    with pytest.raises(Unavailable, match="under way already"):
        store.cut(PATIENT)
    with pytest.raises(Unavailable, match="did not agree"):
        cut.snapshot()
    cut.close()
    cut.close()
    store.snapshot().close()


def test_a_store_is_closed_although_a_cut_is_open(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "data")
    assert store.cut(PATIENT).hold()
    store.close()
    SqliteStore.open(tmp_path / "data").close()
