"""The PostgreSQL engine on a real server: the contract, whose it is, and how it fails."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from restante.errors import (
    DataLocked,
    FormatUnsupported,
    InvalidRequest,
    NotOwner,
    OutcomeUnknown,
    StorageFull,
    StoreConflict,
    Unavailable,
)
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.store import Store, StoreReader
from restante.stores.postgresql import PostgresqlMoment, PostgresqlStore, commits, sessions, whole_store
from restante.testing.store_contract import StoreContract
from tests.postgresql_server import DoubtfulProxy, PostgresqlServer, schema_address
from tests.profiles import by_profile


class TestPostgresqlStore(StoreContract):
    histories = by_profile(dev=10, ci=25)

    def open(self, folder: Path) -> Store:
        return PostgresqlStore.open(schema_address(folder))

    @pytest.fixture(autouse=True)
    def _proxy(self) -> Iterator[None]:
        self._proxies: list[DoubtfulProxy] = []
        yield
        for proxy in self._proxies:
            proxy.close()

    def open_doubtful(self, folder: Path) -> Store:
        self._proxies.append(DoubtfulProxy(schema_address(folder)))
        return PostgresqlStore.open(self._proxies[-1].address)

    def lose_answer(self, store: Store, *, stored: bool) -> None:
        (proxy,) = self._proxies
        if stored:
            proxy.cut_after_commit()
        else:
            proxy.cut_before_commit()


LEASE = 0.6
"""Seconds: enough for three beats, and short enough to wait for."""


def entries(*keys: bytes, fence: int) -> Changes:
    changes = Changes(fences={0: fence})
    for key in keys:
        changes.put(0, Space.RUN, key, b"value")
    return changes


def keys_in(store: StoreReader) -> list[bytes]:
    return [key for key, _ in store.scan(0, Space.RUN)]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return schema_address(tmp_path)


@pytest.fixture
def proxy(address: str) -> Iterator[DoubtfulProxy]:
    proxy = DoubtfulProxy(address)
    yield proxy
    proxy.close()


def test_a_second_owner_is_refused_while_the_first_one_is_there(address: str) -> None:
    with closing(PostgresqlStore.open(address, lease_seconds=LEASE)) as first:
        with pytest.raises(DataLocked, match=f"process {os.getpid()}"):
            PostgresqlStore.open(address)
        first.commit(entries(b"a", fence=first.raise_fences(1)))
        first.require_owned()


def test_a_store_that_was_closed_is_taken_at_once(address: str) -> None:
    PostgresqlStore.open(address, lease_seconds=3_600).close()
    PostgresqlStore.open(address).close()


def test_a_silent_owner_is_succeeded_after_its_lease_and_stores_nothing_more(
    address: str, proxy: DoubtfulProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = PostgresqlStore.open(proxy.address, lease_seconds=LEASE)
    fence = first.raise_fences(1)
    first.commit(entries(b"before", fence=fence))
    first.put_blob(BlobKey(0, 1), [b"blob"], fence=fence)
    proxy.cut_all(deaf=True)
    looks = itertools.count()
    monkeypatch.setattr(whole_store, "running_seconds", lambda: next(looks) * LEASE / 20)
    second = PostgresqlStore.open(address, lease_seconds=LEASE)
    assert next(looks) > 20, "it looks until the lease is over by its own clock"
    second.commit(entries(b"second", fence=second.raise_fences(1)))
    with pytest.raises(NotOwner):
        first.require_owned()
    proxy.hear()
    with pytest.raises(OutcomeUnknown):  # its session was found dead
        first.commit(entries(b"late", fence=fence))
    for deed in (
        first.resolve,
        lambda: first.commit(entries(b"late", fence=fence)),
        lambda: first.put_blob(BlobKey(0, 2), [b"late"], fence=fence),
        lambda: first.raise_fences(1),
        lambda: first.get(0, Space.RUN, b"before"),
    ):
        with pytest.raises(Unavailable):
            deed()
    assert keys_in(second) == [b"before", b"second"]
    assert second.blobs(0) == [BlobKey(0, 1)]
    first.close()
    second.require_owned()
    second.commit(entries(b"still", fence=second.raise_fences(1)))
    second.close()


def test_an_owner_that_was_cut_off_for_less_than_anybody_noticed_goes_on(address: str, proxy: DoubtfulProxy) -> None:
    with closing(PostgresqlStore.open(proxy.address, lease_seconds=LEASE)) as store:
        fence = store.raise_fences(1)
        proxy.cut_all(deaf=True)
        while True:  # until its lease has ended, too
            try:
                store.require_owned()
            except NotOwner:
                break
        proxy.hear()
        _until(store.require_owned, NotOwner)
        assert store.failure() is None
        with suppress(OutcomeUnknown):  # its session was found dead by this commit
            store.commit(entries(b"after", fence=fence))
        with suppress(AssertionError):
            store.resolve()
        store.commit(entries(b"after", fence=fence))
        assert keys_in(store) == [b"after"]


def test_an_owner_paused_in_mid_transaction_holds_nobody_up(address: str) -> None:
    first = PostgresqlStore.open(address, lease_seconds=LEASE)
    session = first._commits._connected()
    session.execute("BEGIN")
    session.execute("UPDATE restante_shards SET commits = commits WHERE shard = 0")
    first._lease._ending.set()  # it beats no more
    second = PostgresqlStore.open(address, lease_seconds=LEASE)
    second.commit(entries(b"second", fence=second.raise_fences(1)))
    with pytest.raises(psycopg.OperationalError):
        session.execute("COMMIT")
    second.close()
    first.close()


def test_commits_that_the_server_lost_stop_the_store(address: str) -> None:
    with closing(PostgresqlStore.open(address)) as store:
        fence = store.raise_fences(1)
        store.commit(entries(b"a", fence=fence))
        store.commit(entries(b"b", fence=fence))
        with psycopg.connect(address, autocommit=True) as session:
            session.execute("UPDATE restante_shards SET commits = commits - 1")
        for _ in range(2):
            with pytest.raises(StoreConflict, match="lost commits"):
                store.commit(entries(b"c", fence=fence))
        assert "lost commits" in (store.failure() or "")
        assert keys_in(store) == [b"a", b"b"]


def test_a_commit_whose_transaction_is_still_carried_out_is_not_judged_yet(address: str, proxy: DoubtfulProxy) -> None:
    """The lock of the row waits for a server that carries on for a client that has gone."""
    with closing(PostgresqlStore.open(proxy.address)) as store, psycopg.connect(address) as other:
        fence = store.raise_fences(1)
        proxy.cut_after_commit()
        with pytest.raises(OutcomeUnknown):
            store.commit(entries(b"a", fence=fence))
        other.execute("SELECT * FROM restante_shards FOR UPDATE")
        with pytest.raises(Unavailable, match="still carries out"):
            store.resolve()
        other.rollback()
        assert store.resolve()
        store.commit(entries(b"b", fence=fence))
        assert keys_in(store) == [b"a", b"b"]


def test_a_commit_that_the_server_reads_after_its_outcome_was_told_is_not_stored(proxy: DoubtfulProxy) -> None:
    """A server that is busy has a transaction in a buffer while another session asks what became of it."""
    with closing(PostgresqlStore.open(proxy.address)) as store:
        fence = store.raise_fences(1)
        for key in (b"first", b"second"):
            proxy.hold_commit()
            with pytest.raises(OutcomeUnknown):
                store.commit(entries(key, fence=fence))
            assert not store.resolve()
        proxy.deliver()
        store.commit(entries(b"third", fence=fence))
        proxy.deliver()
        store.commit(entries(b"fourth", fence=fence))
        assert keys_in(store) == [b"fourth", b"third"]


def test_a_commit_whose_session_the_server_ends_is_looked_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at a restart: the session tells an error of its own, and seems alive when it does."""
    monkeypatch.setattr(commits, "_dead", lambda _: False)
    waiting = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%restante_shards SET commits%'"
    )
    with (
        closing(PostgresqlStore.open(address)) as store,
        psycopg.connect(address) as other,
        psycopg.connect(address, autocommit=True) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        fence = store.raise_fences(1)
        other.execute("SELECT * FROM restante_shards FOR UPDATE")
        committing = threads.submit(store.commit, entries(b"a", fence=fence))
        while (found := server.execute(waiting).fetchone()) is None:
            assert not committing.done()
        server.execute("SELECT pg_terminate_backend(%s)", found)
        with pytest.raises(OutcomeUnknown):
            committing.result()
        other.rollback()
        assert not store.resolve()
        store.commit(entries(b"b", fence=fence))
        assert keys_in(store) == [b"b"]


def test_what_was_read_while_the_store_was_let_go_of_is_not_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner may have changed it, or dropped the blob that was read: that is no damage."""
    store = PostgresqlStore.open(address)
    store.commit(entries(b"a", fence=store.raise_fences(1)))
    rows = store._sessions.rows

    def late(*given: Any) -> Any:
        found = rows(*given)
        store.close()
        return found

    monkeypatch.setattr(store._sessions, "rows", late)
    with pytest.raises(NotOwner):
        store.read_blob(BlobKey(0, 1), 0, 1)
    with pytest.raises(NotOwner):
        store.require_owned()


def test_one_moment_is_read_beside_the_owner(address: str) -> None:
    with closing(PostgresqlStore.open(address)) as store:
        fence = store.raise_fences(1)
        store.commit(entries(b"a", fence=fence))
        with closing(PostgresqlMoment.open(address)) as moment:
            store.commit(entries(b"b", fence=fence))
            assert keys_in(moment) == [b"a"]
        with closing(PostgresqlMoment.open(address)) as moment:
            assert keys_in(moment) == [b"a", b"b"]


def test_a_database_without_tables_says_so(address: str) -> None:
    with pytest.raises(InvalidRequest, match="restante migrate --store"):
        PostgresqlMoment.open(address)


def test_tables_of_a_newer_version_are_left_alone(address: str) -> None:
    PostgresqlStore.open(address).close()
    with psycopg.connect(address, autocommit=True) as session:
        session.execute("INSERT INTO restante_layout VALUES (3)")
    with pytest.raises(FormatUnsupported, match="layout 3"):
        PostgresqlStore.open(address)


def test_commits_are_durable_whatever_the_server_says_by_default(address: str) -> None:
    lax = address + quote(" -csynchronous_commit=off")
    with closing(PostgresqlStore.open(lax)) as store, store._sessions.borrowed() as session:
        assert session.execute("SHOW synchronous_commit").fetchone() == ("on",)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("postgresql://mail@127.0.0.1:1/mail", "cannot be reached"),
        ("postgresql://mail@no-such-host.invalid/mail", "cannot be reached"),
    ],
)
def test_a_server_that_is_missing_says_so(changed: str, said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        PostgresqlStore.open(changed)


def test_a_read_only_server_says_so(address: str) -> None:
    read_only = address + quote(" -cdefault_transaction_read_only=on")
    with pytest.raises(Unavailable, match="read-only"):
        PostgresqlStore.open(read_only)
    with pytest.raises(Unavailable, match="read-only"):
        PostgresqlStore.open(f"{read_only}&target_session_attrs=any")


def test_a_server_that_is_too_old_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OLDEST_SERVER", 99)
    with pytest.raises(Unavailable, match="PostgreSQL 99 or newer is needed"):
        PostgresqlStore.open(address)


@pytest.mark.parametrize("wrong", ["postgresql://mail:secret@host/mail", "postgresql://host/mail?password=secret"])
def test_an_address_with_a_password_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="PGPASSWORD") as refused:
        PostgresqlStore.open(wrong)
    assert "secret" not in refused.value.message


def test_an_address_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="makes no sense"):
        PostgresqlStore.open("postgresql://host/mail?no_such_option=1")


def test_a_full_server_changes_nothing_and_goes_on(address: str) -> None:
    """A table that refuses rows with the code of a full disk: what a server reports, without filling one."""
    with closing(PostgresqlStore.open(address)) as store:
        fence = store.raise_fences(1)
        with psycopg.connect(address, autocommit=True) as session:
            session.execute(FULL)
            with pytest.raises(StorageFull, match="no room"):
                store.commit(entries(b"a", fence=fence))
            assert (keys_in(store), store.failure()) == ([], None)
            session.execute("DROP TRIGGER full_disk ON restante_entries")
        store.commit(entries(b"a", fence=fence))
        assert keys_in(store) == [b"a"]


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON restante_entries EXECUTE FUNCTION full_disk();
"""


def test_a_server_that_is_restarted_is_found_again() -> None:
    server = PostgresqlServer()
    try:
        with closing(PostgresqlStore.open(server.address)) as store:
            fence = store.raise_fences(1)
            store.commit(entries(b"a", fence=fence))
            server.stop(signal.SIGQUIT)
            with pytest.raises(Unavailable):
                store.get(0, Space.RUN, b"a")
            with pytest.raises(OutcomeUnknown):
                store.commit(entries(b"lost", fence=fence))
            with pytest.raises(Unavailable):
                store.resolve()
            server.start()
            assert not store.resolve()
            store.commit(entries(b"b", fence=fence))
            _until(store.require_owned, NotOwner)
            assert keys_in(store) == [b"a", b"b"]
    finally:
        server.remove()


def _until(deed: Callable[[], object], error: type[Exception]) -> None:
    """Repeat it until it no longer raises this error."""
    while True:
        try:
            deed()
        except error:
            time.sleep(0.001)
        else:
            return
