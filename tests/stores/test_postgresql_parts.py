"""Large commits of the PostgreSQL engine: two sessions write them, and they are stored whole or not at all, wherever they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

import restante
from restante.errors import OutcomeUnknown, StorageFull, StoreConflict, Unavailable
from restante.hub.upkeep.copy import copy
from restante.limits import MIB
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.postgresql import PostgresqlMoment, PostgresqlStore
from restante.stores.postgresql.parts import halves, parts_of, size_of
from tests.postgresql_server import DoubtfulProxy, schema_address
from tests.profiles import by_profile

LEASE = 0.6
BLOB = BlobKey(0, 7)
CONTENT = b"".join(bytes([number]) * MIB for number in range(9)) + b"end"
SETTINGS = Settings(partition_count=2, filing=False, housekeeping_seconds=0)
FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
"""
NO_ROOM = {
    "for the parts beside": "CREATE TRIGGER full_disk BEFORE INSERT ON restante_blobs FOR EACH ROW WHEN (NEW.part > 6) EXECUTE FUNCTION full_disk()",
    "for the parts in it": "CREATE TRIGGER full_disk BEFORE INSERT ON restante_blobs FOR EACH ROW WHEN (NEW.part < 3) EXECUTE FUNCTION full_disk()",
    "for the rows": "CREATE TRIGGER full_disk BEFORE INSERT ON restante_entries EXECUTE FUNCTION full_disk()",
}


@pytest.fixture
def address(tmp_path: Path) -> str:
    return schema_address(tmp_path)


@pytest.fixture
def proxy(address: str) -> Iterator[DoubtfulProxy]:
    proxy = DoubtfulProxy(address)
    yield proxy
    proxy.close()


def large(fence: int) -> Changes:
    changes = Changes(blobs=[(BLOB, [CONTENT])], fences={0: fence})
    changes.put(0, Space.RUN, b"large", b"names the blob")
    return changes


def one(address: str, query: str) -> int:
    with psycopg.connect(address, autocommit=True) as session:
        row = session.execute(query).fetchone()
        assert row is not None
        return int(row[0])


def parts_in(address: str) -> int:
    return one(address, "SELECT count(*) FROM restante_blobs")


def is_stored(store: PostgresqlStore) -> bool:
    """Whether the commit is there; then all of its blob is."""
    found = store.get(0, Space.RUN, b"large") is not None
    if found:
        assert bytes(store.read_blob(BLOB, 0, len(CONTENT))) == CONTENT
    return found


def test_the_first_part_of_a_blob_is_in_the_commit_and_what_is_small_is_all_in_it() -> None:
    rows = parts_of(BLOB, [CONTENT])
    own, beside = halves(rows)
    assert [row[2] for row in (*own, *beside)] == list(range(10))
    assert own[0][2] == 0
    assert abs(size_of(own) - size_of(beside)) <= 2 * MIB
    assert halves(rows[:3]) == (rows[:3], ())


def test_a_large_commit_is_written_by_two_sessions_and_is_whole(address: str) -> None:
    with closing(PostgresqlStore.open(address)) as store:
        store.commit(large(store.raise_fences(2)))
        assert is_stored(store)
        assert store.blobs(0) == [BLOB]
        assert one(address, "SELECT count(DISTINCT xmin::text) FROM restante_blobs") == 2


@pytest.mark.parametrize("where", NO_ROOM)
def test_without_room_nothing_is_stored_and_the_same_commit_works_later(address: str, where: str) -> None:
    with closing(PostgresqlStore.open(address)) as store, psycopg.connect(address, autocommit=True) as session:
        fence = store.raise_fences(2)
        session.execute(FULL)
        session.execute(NO_ROOM[where])
        with pytest.raises(StorageFull):
            store.commit(large(fence))
        assert (is_stored(store), parts_in(address)) == (False, 0)
        session.execute("DROP FUNCTION full_disk CASCADE")
        store.commit(large(fence))
        assert is_stored(store)


def test_who_has_lost_the_shard_leaves_no_parts(address: str) -> None:
    with closing(PostgresqlStore.open(address)) as store:
        fence = store.raise_fences(2)
        with psycopg.connect(address, autocommit=True) as session:
            session.execute("UPDATE restante_shards SET fence = fence + 1")
        with pytest.raises(StoreConflict):
            store._beside.write(parts_of(BLOB, [CONTENT]), [store._commits.fence_of(0)[::-1]])
        with pytest.raises(StoreConflict):
            store.commit(large(fence))
        assert parts_in(address) == 0


@pytest.mark.parametrize("answer", [1, 2], ids=["of the parts beside", "of the commit"])
def test_an_answer_that_is_lost_is_looked_up(address: str, proxy: DoubtfulProxy, answer: int) -> None:
    with closing(PostgresqlStore.open(proxy.address)) as store:
        fence, answers = store.raise_fences(2), list[bytes]()

        def rule(chunk: bytes, is_answer: bool) -> int | None:
            if is_answer and b"COMMIT\0" in chunk:
                answers.append(chunk)
                return 0 if len(answers) == answer else None
            return None

        proxy._rule = rule
        with pytest.raises(OutcomeUnknown if answer == 2 else Unavailable):
            store.commit(large(fence))
        if answer == 2:
            assert store.resolve()
        else:
            assert not is_stored(store)
            store.commit(large(fence))
        assert is_stored(store)


def test_parts_that_a_crash_has_left_are_listed_to_nobody_and_dropped_by_the_next_owner(address: str) -> None:
    restante.open(address, settings=SETTINGS).close()
    with closing(PostgresqlStore.open(address)) as store:
        store.raise_fences(2)
        store._beside.write(halves(parts_of(BLOB, [CONTENT]))[1], [store._commits.fence_of(0)[::-1]])
        assert store.blobs(0) == []
    assert parts_in(address) > 0
    with closing(PostgresqlMoment.open(address)) as moment:
        copy(moment, MemoryStore())
    restante.open(address, settings=SETTINGS).close()
    assert parts_in(address) == 0


CUTS = (2, 5, 12, 40, 80, 120, 150, 160, 165, 168, 170, 172, 175, 180)


@pytest.mark.parametrize("cut", CUTS[:: by_profile(dev=3, ci=1)])
def test_wherever_all_sessions_are_cut_a_commit_is_whole_or_absent(
    address: str, proxy: DoubtfulProxy, cut: int
) -> None:
    restante.open(address, settings=SETTINGS).close()
    first = PostgresqlStore.open(proxy.address, lease_seconds=LEASE)
    fence, chunks = first.raise_fences(2), list[bool]()

    def rule(_chunk: bytes, is_answer: bool) -> int | None:
        chunks.append(is_answer)
        if len(chunks) < cut:
            return None
        proxy.cut_all()
        return 0

    proxy._rule = rule
    acknowledged = False
    with suppress(Unavailable):
        first.commit(large(fence))
        acknowledged = True
    proxy.cut_all()
    with closing(PostgresqlStore.open(address, lease_seconds=LEASE)) as second:
        stored = is_stored(second)
        assert stored or not acknowledged
    first.close()
    if not stored:
        restante.open(address, settings=SETTINGS).close()
        assert parts_in(address) == 0
