"""The promises of every store engine, as tests. Needs `pytest` and `hypothesis`.

A new engine proves itself with one class:

    class TestMyStore(StoreContract):
        def open(self, folder: Path) -> Store:
            return MyStore.open(folder)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from restante.errors import DataDamaged, OutcomeUnknown, StoreConflict, Unavailable
from restante.limits import KIB, MIB
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.ports.store import FetchesRows, Store
from restante.testing.store_machine import StoreMachine

_KEYS = [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"a\x00", b"a\xff", b"b", b"\xff", b"\xff\x00", b"\xff\xff"]
_CONCURRENT_COMMITS = 200
_CONCURRENT_READERS = 3
_HISTORIES = settings(stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)


class StoreContract:
    """Derive from it and say how the engine is opened."""

    histories: ClassVar[int] = 25
    """How many histories are held against a plain map."""

    def open(self, folder: Path) -> Store:
        """Open the store of a folder (or whatever the engine makes of that name), or create it."""
        raise NotImplementedError

    def reopen(self, store: Store, folder: Path) -> Store:
        """Close it, and open it again."""
        store.close()
        return self.open(folder)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "data"

    @pytest.fixture
    def store(self, folder: Path) -> Iterator[Store]:
        store = self.open(folder)
        yield store
        store.close()

    # --- Entries ------------------------------------------------------------------------------------------------------

    def test_what_was_never_put_is_none(self, store: Store) -> None:
        assert store.get(0, Space.RUN, b"key") is None
        assert store.scan(0, Space.RUN) == []

    def test_the_last_value_put_is_found(self, store: Store) -> None:
        for value in (b"first", b"second", b"", b"a longer third value"):
            store.commit(_entries((0, Space.RUN, b"key", value)))
            assert store.get(0, Space.RUN, b"key") == value
            assert store.scan(0, Space.RUN) == [(b"key", value)]

    def test_a_deleted_entry_is_gone_and_may_come_back(self, store: Store) -> None:
        store.commit(_entries((0, Space.RUN, b"a", b"1"), (0, Space.RUN, b"b", b"2")))
        store.commit(_entries((0, Space.RUN, b"a", None)))
        assert store.get(0, Space.RUN, b"a") is None
        assert store.scan(0, Space.RUN) == [(b"b", b"2")]
        store.commit(_entries((0, Space.RUN, b"a", b"3")))
        assert store.scan(0, Space.RUN) == [(b"a", b"3"), (b"b", b"2")]

    def test_deleting_what_is_not_there_is_nothing(self, store: Store) -> None:
        store.commit(_entries((0, Space.RUN, b"a", None), (0, Space.RUN, b"b", b"2")))
        assert store.scan(0, Space.RUN) == [(b"b", b"2")]

    def test_partitions_and_spaces_are_apart(self, store: Store) -> None:
        places = [(partition, space) for partition in (0, 1, 255, 256, 9_999) for space in Space]
        store.commit(_entries(*((*place, b"key", repr(place).encode()) for place in places)))
        for place in places:
            assert store.scan(*place) == [(b"key", repr(place).encode())]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("limit", [None, 0, 1, 3, 100])
    def test_a_scan_gives_keys_in_the_order_of_their_bytes(
        self, store: Store, limit: int | None, *, reverse: bool
    ) -> None:
        store.commit(_entries(*((0, Space.HEAD, key, b"v" + key) for key in reversed(_KEYS))))
        for start in _KEYS:
            for end in (None, *_KEYS):
                keys = [key for key in _KEYS if start <= key and (end is None or key < end)]
                expected = [(key, b"v" + key) for key in (reversed(keys) if reverse else keys)][:limit]
                assert store.scan(0, Space.HEAD, start=start, end=end, limit=limit, reverse=reverse) == expected

    def test_a_value_of_a_mebibyte_is_kept(self, store: Store) -> None:
        value = bytes(range(256)) * (MIB // 256)
        store.commit(_entries((0, Space.META, b"large", value)))
        assert store.get(0, Space.META, b"large") == value

    def test_ten_thousand_entries_are_one_commit(self, store: Store, folder: Path) -> None:
        rows = [(number.to_bytes(4, "big"), str(number).encode()) for number in range(10_000)]
        store.commit(_entries(*((number % 16, Space.HEAD, *row) for number, row in enumerate(rows))))
        reopened = self.reopen(store, folder)
        found = [row for partition in range(16) for row in reopened.scan(partition, Space.HEAD)]
        reopened.close()
        assert sorted(found) == rows

    def test_many_values_are_found_at_once(self, store: Store) -> None:
        rows = [(number % 3, Space.HEAD, number.to_bytes(4, "big"), str(number).encode()) for number in range(3_000)]
        store.commit(_entries(*rows))
        asked = [EntryKey(partition, space, key) for partition, space, key, _ in rows]
        missing = [
            EntryKey(0, Space.RUN, asked[0].key),
            EntryKey(1, Space.HEAD, asked[0].key),
            EntryKey(0, Space.HEAD, b""),
        ]
        assert store.get_many([*asked, *missing, asked[5]]) == {
            EntryKey(partition, space, key): value for partition, space, key, value in rows
        }
        assert store.get_many([]) == store.get_many(missing) == {}

    def test_rows_that_are_fetched_at_once_are_those_of_scans(self, store: Store) -> None:
        spaces = (Space.HEAD, Space.RUN)
        rows = [(number % 5, spaces[number % 2], number.to_bytes(4, "big"), b"x" * number) for number in range(200)]
        store.commit(_entries(*rows))
        store.commit(Changes(blobs=[(BlobKey(number % 5, number), [b"content"]) for number in range(20)]))
        if not isinstance(store, FetchesRows):
            return  # The store is near, and scans cost little.
        found = store.fetch(range(1, 4), spaces)
        wanted = {(partition, space): store.scan(partition, space) for partition in range(1, 4) for space in spaces}
        assert found.rows == wanted
        assert found.blobs == {partition: store.blobs(partition) for partition in range(1, 4)}

    # --- Blobs --------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [0, 1, 1_000, 100 * KIB, 1 * MIB])
    def test_a_blob_is_its_parts_one_after_another(self, store: Store, size: int) -> None:
        data = _pattern(size)
        parts: list[Buffer] = [data[: size // 3], memoryview(data)[size // 3 : size // 2], bytearray(data[size // 2 :])]
        store.commit(Changes(blobs=[(BlobKey(0, 1), parts)]))
        assert bytes(store.read_blob(BlobKey(0, 1), 0, size)) == data
        assert store.blob_size(BlobKey(0, 1)) == size

    def test_a_part_may_be_a_view_of_wider_items(self, store: Store) -> None:
        data = _pattern(800)
        store.commit(Changes(blobs=[(BlobKey(0, 1), [memoryview(data).cast("q"), b"end"])]))
        assert bytes(store.read_blob(BlobKey(0, 1), 0, 803)) == data + b"end"

    @pytest.mark.parametrize("size", [5_000, 400 * KIB])
    def test_a_slice_of_a_blob_is_exactly_that(self, store: Store, size: int) -> None:
        first, second = _pattern(size), _pattern(size)[::-1]
        store.commit(Changes(blobs=[(BlobKey(0, 1), [first]), (BlobKey(1, 1), [second])]))
        for offset, length in ((0, 0), (0, 1), (1, 4_000), (size - 1, 1), (size, 0), (17, size - 17)):
            assert bytes(store.read_blob(BlobKey(0, 1), offset, length)) == first[offset : offset + length]
            assert bytes(store.read_blob(BlobKey(1, 1), offset, length)) == second[offset : offset + length]

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_reading_past_the_end_of_a_blob_says_it_is_damaged(self, store: Store, size: int) -> None:
        store.commit(Changes(blobs=[(BlobKey(0, 1), [_pattern(size)]), (BlobKey(0, 2), [b"neighbour"])]))
        for offset, length in ((0, size + 1), (size, 1), (size + 1, 0), (size - 1, 2)):
            with pytest.raises(DataDamaged):
                store.read_blob(BlobKey(0, 1), offset, length)

    def test_reading_a_missing_blob_says_it_is_damaged(self, store: Store) -> None:
        store.commit(Changes(blobs=[(BlobKey(0, 1), [b"one"])]))
        for blob in (BlobKey(0, 2), BlobKey(1, 1)):
            with pytest.raises(DataDamaged):
                store.read_blob(blob, 0, 0)
            with pytest.raises(DataDamaged):
                store.blob_size(blob)

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_a_blob_put_ahead_is_there_before_the_commit_that_names_it(
        self, store: Store, folder: Path, size: int
    ) -> None:
        data = _pattern(size)
        store.put_blob(BlobKey(3, 7), [data[:5], data[5:]], fence=store.raise_fences(4))
        reopened = self.reopen(store, folder)
        assert reopened.blobs(3) == [BlobKey(3, 7)]
        reopened.commit(_entries((3, Space.RUN, b"run", b"7")))
        assert bytes(reopened.read_blob(BlobKey(3, 7), 0, size)) == data
        reopened.close()

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_several_blobs_put_ahead_are_there_each_in_its_partition(
        self, store: Store, folder: Path, size: int
    ) -> None:
        blobs = {BlobKey(partition, 7): _pattern(size + partition) for partition in range(4)}
        store.put_blobs([(blob, [data[:5], data[5:]]) for blob, data in blobs.items()], fence=store.raise_fences(4))
        reopened = self.reopen(store, folder)
        for blob, data in blobs.items():
            assert reopened.blobs(blob.partition) == [blob]
            assert bytes(reopened.read_blob(blob, 0, len(data))) == data
        reopened.close()

    def test_blobs_are_listed_by_partition_in_ascending_order(self, store: Store) -> None:
        numbers = [1, 2, 9, 10, 255, 256, 1 << 40]
        store.commit(
            Changes(blobs=[(BlobKey(partition, n), [b"x"]) for n in reversed(numbers) for partition in (1, 2)])
        )
        assert store.blobs(0) == []
        assert store.blobs(1) == [BlobKey(1, n) for n in numbers]
        assert store.blobs(2) == [BlobKey(2, n) for n in numbers]

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_a_dropped_blob_is_gone_and_its_neighbours_stay(self, store: Store, folder: Path, size: int) -> None:
        store.commit(Changes(blobs=[(BlobKey(0, n), [_pattern(size + n)]) for n in range(3)]))
        store.commit(Changes(dropped=[BlobKey(0, 1), BlobKey(0, 1)]))
        store.checkpoint()
        reopened = self.reopen(store, folder)
        assert reopened.blobs(0) == [BlobKey(0, 0), BlobKey(0, 2)]
        assert bytes(reopened.read_blob(BlobKey(0, 2), 0, size + 2)) == _pattern(size + 2)
        with pytest.raises(DataDamaged):
            reopened.read_blob(BlobKey(0, 1), 0, 1)
        reopened.close()

    def test_dropping_what_is_not_there_is_nothing(self, store: Store) -> None:
        store.commit(Changes(blobs=[(BlobKey(0, 1), [b"one"])], dropped=[BlobKey(0, 5), BlobKey(4, 1)]))
        assert store.blobs(0) == [BlobKey(0, 1)]

    # --- Fences -------------------------------------------------------------------------------------------------------

    def test_each_fence_is_higher_than_any_before(self, store: Store, folder: Path) -> None:
        fences = [store.raise_fences(4), store.raise_fences(1), store.raise_fences(8)]
        reopened = self.reopen(store, folder)
        fences.append(reopened.raise_fences(2))
        reopened.close()
        assert fences == sorted(set(fences))

    def test_a_commit_with_the_fences_of_its_partitions_goes_through(self, store: Store) -> None:
        fence = store.raise_fences(4)
        store.commit(_entries((0, Space.RUN, b"a", b"1"), (3, Space.RUN, b"b", b"2"), fences={0: fence, 3: fence}))
        assert store.get(3, Space.RUN, b"b") == b"2"

    def test_the_fences_of_partitions_that_were_not_taken_stay(self, store: Store) -> None:
        before = store.raise_fences(4)
        fence = store.raise_fences(4, first=2)
        store.commit(_entries((1, Space.RUN, b"a", b"1"), (2, Space.RUN, b"b", b"2"), fences={1: before, 2: fence}))
        with pytest.raises(StoreConflict):
            store.commit(_entries((3, Space.RUN, b"c", b"3"), fences={3: before}))

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_a_stale_fence_changes_nothing(self, store: Store, folder: Path, size: int) -> None:
        stale = store.raise_fences(2)
        store.commit(_entries((0, Space.RUN, b"kept", b"1"), fences={0: stale}))
        store.commit(Changes(blobs=[(BlobKey(0, 1), [b"kept"])], fences={0: stale}))
        fence = store.raise_fences(1)
        late = _entries((0, Space.RUN, b"kept", None), (1, Space.RUN, b"new", b"2"), fences={1: stale, 0: stale})
        late.blobs.append((BlobKey(1, 1), [_pattern(size)]))
        late.dropped.append(BlobKey(0, 1))
        with pytest.raises(StoreConflict):
            store.commit(late)
        late.fences[0] = fence
        reopened = self.reopen(store, folder)
        assert reopened.scan(0, Space.RUN) == [(b"kept", b"1")]
        assert reopened.scan(1, Space.RUN) == []
        assert (reopened.blobs(0), reopened.blobs(1)) == ([BlobKey(0, 1)], [])
        reopened.commit(late)
        assert (reopened.blobs(0), reopened.blobs(1)) == ([], [BlobKey(1, 1)])
        reopened.close()

    def test_a_fence_that_was_never_raised_is_a_conflict(self, store: Store) -> None:
        fence = store.raise_fences(2)
        with pytest.raises(StoreConflict):
            store.commit(Changes(fences={2: fence}))

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_a_blob_put_ahead_under_a_stale_fence_is_refused(self, store: Store, size: int) -> None:
        stale = store.raise_fences(2)
        fence = store.raise_fences(1)
        for blob, old in ((BlobKey(0, 1), stale), (BlobKey(1, 1), fence), (BlobKey(2, 1), fence)):
            with pytest.raises(StoreConflict):
                store.put_blob(blob, [_pattern(size)], fence=old)
        store.put_blob(BlobKey(1, 2), [_pattern(size)], fence=stale)
        assert [store.blobs(partition) for partition in range(3)] == [[], [BlobKey(1, 2)], []]

    # --- Outcomes -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("stored", [True, False])
    def test_a_commit_in_doubt_is_looked_up_before_anything_else_is_committed(
        self, folder: Path, *, stored: bool
    ) -> None:
        store = self.open_doubtful(folder)
        if store is None:
            return self.no_commit_is_in_doubt(folder)
        fence = store.raise_fences(2)
        store.commit(_entries((0, Space.RUN, b"before", b"1"), fences={0: fence}))
        doubtful = _entries((0, Space.RUN, b"doubtful", b"2"), fences={0: fence})
        doubtful.blobs.append((BlobKey(1, 1), [_pattern(300 * KIB)]))
        self.lose_answer(store, stored=stored)
        with pytest.raises(OutcomeUnknown):
            store.commit(doubtful)
        assert store.failure() is None
        with pytest.raises(Unavailable):
            store.commit(_entries((0, Space.RUN, b"too early", b"3"), fences={0: fence}))
        assert store.resolve() is stored
        assert (store.get(0, Space.RUN, b"doubtful"), store.get(0, Space.RUN, b"too early")) == (
            b"2" if stored else None,
            None,
        )
        if not stored:
            store.commit(doubtful)
        store.commit(_entries((0, Space.RUN, b"after", b"4"), fences={0: fence}))
        assert [key for key, _ in store.scan(0, Space.RUN)] == [b"after", b"before", b"doubtful"]
        assert bytes(store.read_blob(BlobKey(1, 1), 0, 300 * KIB)) == _pattern(300 * KIB)
        return store.close()

    def open_doubtful(self, folder: Path) -> Store | None:
        """A store whose answers can be lost; None if commits of this engine never end in `OutcomeUnknown`."""
        return self.open(folder)

    def lose_answer(self, store: Store, *, stored: bool) -> None:
        """Have the next commit end in `OutcomeUnknown`: carried out, or not."""
        raise NotImplementedError

    def no_commit_is_in_doubt(self, folder: Path) -> None:
        """Check that an engine has no outcome to tell: it stops instead."""
        store = self.open(folder)
        with pytest.raises(Unavailable):
            store.resolve()
        store.close()

    def test_who_has_a_store_open_owns_it(self, store: Store) -> None:
        store.raise_fences(1)
        store.require_owned()
        assert store.failure() is None

    # --- The whole ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [10, 400 * KIB])
    def test_reopening_finds_everything_that_was_committed(self, store: Store, folder: Path, size: int) -> None:
        for number in range(20):
            changes = _entries((number % 3, Space.RUN, bytes([number]), b"v"))
            changes.blobs.append((BlobKey(number % 3, number), [_pattern(size + number)]))
            store.commit(changes)
        reopened = self.reopen(store, folder)
        for partition in range(3):
            numbers = range(partition, 20, 3)
            assert reopened.scan(partition, Space.RUN) == [(bytes([number]), b"v") for number in numbers]
            assert reopened.blobs(partition) == [BlobKey(partition, number) for number in numbers]
        assert bytes(reopened.read_blob(BlobKey(1, 19), 0, size + 19)) == _pattern(size + 19)
        reopened.close()

    def test_an_empty_commit_is_nothing(self, store: Store) -> None:
        store.commit(Changes())
        assert store.scan(0, Space.META) == []

    @pytest.mark.parametrize("size", [100, 40 * KIB])
    def test_readers_beside_a_writer_see_whole_commits_only(self, store: Store, size: int) -> None:
        reading = threading.Barrier(_CONCURRENT_READERS + 1)
        done = threading.Event()
        failures: list[BaseException] = []

        def read() -> None:
            try:
                reading.wait()
                while not done.is_set():
                    _see_one_commit(store, size)
            except BaseException as failure:  # noqa: BLE001 - handed to the test, whatever it is
                failures.append(failure)

        readers = [threading.Thread(target=read) for _ in range(_CONCURRENT_READERS)]
        store.commit(_numbered_commit(1, size))
        for reader in readers:
            reader.start()
        reading.wait()
        for number in range(2, _CONCURRENT_COMMITS + 1):
            store.commit(_numbered_commit(number, size))
        done.set()
        for reader in readers:
            reader.join()
        if failures:
            raise failures[0]
        assert _see_one_commit(store, size) == _CONCURRENT_COMMITS

    def test_a_checkpoint_may_run_beside_commits(self, store: Store) -> None:
        done = threading.Event()
        failures: list[BaseException] = []

        def tidy() -> None:
            try:
                while not done.is_set():
                    store.checkpoint()
            except BaseException as failure:  # noqa: BLE001 - handed to the test, whatever it is
                failures.append(failure)

        tidying = threading.Thread(target=tidy)
        tidying.start()
        for number in range(1, 51):
            store.commit(_numbered_commit(number, 20 * KIB))
        done.set()
        tidying.join()
        if failures:
            raise failures[0]
        assert _see_one_commit(store, 20 * KIB) == 50

    def test_its_size_grows_with_what_is_written(self, store: Store) -> None:
        before = store.size()
        store.commit(Changes(blobs=[(BlobKey(0, 1), [_pattern(MIB)])]))
        store.commit(_entries((0, Space.META, b"key", _pattern(100 * KIB))))
        after = store.size()
        assert after.stored_bytes >= before.stored_bytes + MIB + 100 * KIB
        assert after.written_bytes >= before.written_bytes + MIB + 100 * KIB

    def test_a_closed_store_is_unavailable_and_may_be_closed_again(self, store: Store) -> None:
        store.commit(Changes(blobs=[(BlobKey(0, 1), [b"one"])]))
        store.close()
        store.close()
        with pytest.raises(Unavailable):
            store.get(0, Space.META, b"key")
        with pytest.raises(Unavailable):
            store.read_blob(BlobKey(0, 1), 0, 1)
        with pytest.raises(Unavailable):
            store.commit(_entries((0, Space.META, b"key", b"value")))

    def test_any_history_agrees_with_a_plain_map(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        contract = self

        class Machine(StoreMachine):
            def __init__(self) -> None:
                super().__init__(contract.open, contract.reopen, tmp_path_factory.mktemp("store"))

        run_state_machine_as_test(Machine, settings=settings(_HISTORIES, max_examples=self.histories))


def _entries(*rows: tuple[int, Space, bytes, bytes | None], fences: dict[int, int] | None = None) -> Changes:
    entries = {EntryKey(partition, space, key): value for partition, space, key, value in rows}
    return Changes(entries=entries, fences=fences or {})


def _pattern(size: int) -> bytes:
    """Bytes among which a wrong offset shows: no period near a page's length."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def _numbered_commit(number: int, size: int) -> Changes:
    """A commit that has its number in two entries and in the blobs of eight partitions, and drops the blobs of the third before."""
    value = number.to_bytes(4, "big")
    changes = _entries((0, Space.RUN, b"first", value), (0, Space.RUN, b"second", value))
    changes.blobs.extend((BlobKey(partition, number), [value * (size // 4)]) for partition in range(8))
    if number > 3:
        changes.dropped.extend(BlobKey(partition, number - 3) for partition in range(8))
    return changes


def _see_one_commit(store: Store, size: int) -> int:
    (_, first), (_, second) = store.scan(0, Space.RUN)
    assert first == second
    number = int.from_bytes(first, "big")
    listed = [store.blobs(partition)[-1].number for partition in range(8)]
    assert listed == sorted(listed)
    assert listed[0] >= number
    try:
        data = bytes(store.read_blob(BlobKey(7, number), size - 4, 4))
    except DataDamaged:
        # The blob may be missing only if the writer has come so far meanwhile that it has dropped the blob.
        assert store.scan(0, Space.RUN)[0][1] >= (number + 3).to_bytes(4, "big")
    else:
        assert data == first
    return number
