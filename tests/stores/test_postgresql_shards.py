"""Several shards in one database: each with its own owner, fence and commit number; nodes that come, go silent and inherit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from restante.errors import DataLocked, InvalidRequest, NotOwner, OutcomeUnknown, StoreConflict, Unavailable
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.ports.membership import NodeRow
from restante.ports.store import Store
from restante.stores.postgresql import PostgresqlNode, PostgresqlStore, schema
from restante.stores.postgresql.store import ShardStore
from restante.testing.store_contract import StoreContract
from tests.nodes.simulated_nodes import NodeTables
from tests.postgresql_server import DoubtfulProxy, schema_address
from tests.profiles import by_profile
from tests.waiting import wait_until

LEASE = 1.0
FIRSTS = (0, 2, 5)


def cut_open(address: str) -> PostgresqlStore:
    """All of a database that has several shards."""
    store = PostgresqlStore.open(address)
    if store.shard_count == 1:
        store.cut(FIRSTS)
        store.close()
        store = PostgresqlStore.open(address)
    assert store.shard_count == len(FIRSTS)
    return store


class TestStoreOfSeveralShards(StoreContract):
    histories = by_profile(dev=10, ci=25)

    def open(self, folder: Path) -> Store:
        return cut_open(schema_address(folder))

    @pytest.fixture(autouse=True)
    def _proxy(self) -> Iterator[None]:
        self._proxies: list[DoubtfulProxy] = []
        yield
        for proxy in self._proxies:
            proxy.close()

    def open_doubtful(self, folder: Path) -> Store:
        self._proxies.append(DoubtfulProxy(schema_address(folder)))
        return cut_open(self._proxies[-1].address)

    def lose_answer(self, store: Store, *, stored: bool) -> None:
        (proxy,) = self._proxies
        if stored:
            proxy.cut_after_commit()
        else:
            proxy.cut_before_commit()


@pytest.fixture
def address(tmp_path: Path) -> str:
    address = schema_address(tmp_path)
    cut_open(address).close()
    return address


@pytest.fixture
def enter(address: str) -> Iterator[Callable[..., PostgresqlNode]]:
    nodes: list[PostgresqlNode] = []

    def enter(name: str, at: str | None = None, lease: float = LEASE) -> PostgresqlNode:
        nodes.append(PostgresqlNode.open(at or address, name, lease_seconds=lease))
        return nodes[-1]

    yield enter
    for node in nodes:
        node.close()


@pytest.fixture
def proxy(address: str) -> Iterator[DoubtfulProxy]:
    proxy = DoubtfulProxy(address)
    yield proxy
    proxy.close()


def taken(node: PostgresqlNode, shard: int) -> ShardStore:
    store = node.take(shard)
    assert store is not None
    return store


def put(store: Store, partition: int, key: bytes, fence: int) -> None:
    changes = Changes(fences={partition: fence})
    changes.put(partition, Space.RUN, key, b"value")
    store.commit(changes)


def keys_in(store: Store, partition: int) -> list[bytes]:
    return [key for key, _ in store.scan(partition, Space.RUN)]


def test_a_session_is_made_ready_for_the_next_shard_and_one_that_was_cut_is_not_used(
    enter: Callable[..., PostgresqlNode], proxy: DoubtfulProxy
) -> None:
    node = enter("a", proxy.address, lease=30.0)
    for _ in range(2):
        with node.look() as moment:
            assert moment.scan(0, Space.RUN) == []
    with closing(taken(node, 0)) as store:
        put(store, 0, b"first", store.raise_fences(2))
    with node.look() as moment:
        assert [key for key, _ in moment.scan(0, Space.RUN)] == [b"first"]
    proxy.cut_all(deaf=False)
    with closing(taken(node, 1)) as store:
        put(store, 2, b"second", store.raise_fences(5, first=2))
        assert keys_in(store, 2) == [b"second"]


def row_of(watching: PostgresqlNode, node: PostgresqlNode) -> NodeRow:
    return next(row for row in watching.survey().nodes if row.session == node.session)


def silence(watching: PostgresqlNode, node: PostgresqlNode) -> None:
    """Wait until a node's beat was the same for its lease, and take it for dead."""
    seen, until = row_of(watching, node), time.monotonic() + LEASE
    while time.monotonic() < until:
        time.sleep(LEASE / 20)
        now = row_of(watching, node)
        if now.beat != seen.beat:
            seen, until = now, time.monotonic() + LEASE
    assert watching.expire(seen)


def test_each_shard_has_an_owner_of_its_own(enter: Callable[..., PostgresqlNode]) -> None:
    ada, bob = enter("ada"), enter("bob")
    with closing(taken(ada, 0)) as first, closing(taken(bob, 1)) as second:
        assert (ada.take(1), bob.take(0)) == (None, None)
        assert [row.owner for row in ada.survey().shards] == [ada.session, bob.session, None]
        low, high = first.raise_fences(2), second.raise_fences(5, first=2)
        for number in range(3):
            put(first, 1, b"a%d" % number, low)
            put(second, 4, b"b%d" % number, high)
        second.put_blob(BlobKey(4, high << 32), [b"blob"], fence=high)
        assert (len(keys_in(first, 1)), len(keys_in(second, 4))) == (3, 3)
        with pytest.raises(StoreConflict):
            put(second, 1, b"not mine", high)
    assert [row.owner for row in ada.survey().shards] == [None, None, None]


def test_a_shard_that_is_let_go_of_is_taken_at_once_and_by_its_heir_alone(enter: Callable[..., PostgresqlNode]) -> None:
    ada, bob, eve = enter("ada"), enter("bob"), enter("eve")
    store = taken(ada, 1)
    fence = store.raise_fences(5, first=2)
    put(store, 2, b"before", fence)
    assert ada.appoint(1, bob.session)
    assert not eve.appoint(1, eve.session)
    store.close()
    assert eve.take(1) is None
    with closing(taken(bob, 1)) as heir:
        assert keys_in(heir, 2) == [b"before"]
        assert heir.raise_fences(5, first=2) > fence
        with pytest.raises(Unavailable):
            store.scan(2, Space.RUN)


def test_who_was_to_inherit_and_died_keeps_nobody_waiting(enter: Callable[..., PostgresqlNode]) -> None:
    ada, bob = enter("ada"), enter("bob")
    store = taken(ada, 1)
    ada.appoint(1, bob.session)
    store.close()
    bob.close()
    taken(ada, 1).close()


def test_who_has_just_died_is_no_heir(enter: Callable[..., PostgresqlNode]) -> None:
    """Else nobody could take the shard: it would be left to an heir that never comes."""
    ada, bob, eve = enter("a"), enter("b"), enter("c")
    store = taken(ada, 1)
    bob.close()
    assert not ada.appoint(1, bob.session)
    store.close()
    taken(eve, 1).close()


def test_simulated_rows_of_nodes_are_those_of_the_database(enter: Callable[..., PostgresqlNode]) -> None:
    """The simulation of nodes goes by a table of its own: whatever is done, the database comes to the same."""
    chance, tables, nodes = random.Random(7), NodeTables(), list[PostgresqlNode]()
    tables.shards = tables.shards[: len(FIRSTS)]
    held: dict[tuple[str, int], ShardStore] = {}
    for number in range(60):
        what, shard = (
            chance.choice(["enter", "take", "let go", "appoint", "appoint nobody", "leave"]),
            chance.randrange(3),
        )
        if what == "enter" or not nodes:
            nodes.append(enter(f"n{number}"))
            tables.enter(nodes[-1].session, f"n{number}", b"")
            continue
        node, heir = chance.choice(nodes), chance.choice(nodes)
        if what == "take":
            store = node.take(shard)
            assert (store is None) == (tables.take(shard, node.session) is None)
            if store is not None:
                held[node.session, shard] = store
        elif what == "let go" and (own := held.pop((node.session, shard), None)) is not None:
            own.close()
            tables.let_go(shard, node.session)
        elif what.startswith("appoint"):
            chosen = heir.session if what == "appoint" else None
            assert node.appoint(shard, chosen) == tables.appoint(shard, node.session, chosen)
        elif what == "leave" and len(nodes) > 2:
            for place in [place for place in held if place[0] == node.session]:
                held.pop(place).close()
                tables.let_go(place[1], node.session)
            nodes.remove(node)
            node.close()
            tables.leave(node.session)
        real, known = nodes[0].survey(), tables.survey()
        assert [row.session for row in real.nodes] == [row.session for row in known.nodes]
        assert [(row.owner, row.heir) for row in real.shards] == [(row.owner, row.heir) for row in known.shards]


def test_the_shards_of_a_silent_node_are_free_and_it_stores_nothing_more(
    enter: Callable[..., PostgresqlNode], proxy: DoubtfulProxy
) -> None:
    ada, bob = enter("ada", proxy.address), enter("bob")
    stores = [taken(ada, shard) for shard in range(2)]
    fences = [stores[0].raise_fences(2), stores[1].raise_fences(5, first=2)]
    put(stores[0], 0, b"before", fences[0])
    assert not bob.expire(row_of(bob, ada)._replace(beat=-1)), "a beat that has changed is a node that lives"
    proxy.cut_all(deaf=True)
    silence(bob, ada)
    with closing(taken(bob, 0)) as heir:
        put(heir, 0, b"after", heir.raise_fences(2))
        with pytest.raises(NotOwner):
            stores[0].require_owned()
        proxy.hear()
        for store, partition, fence in ((stores[0], 0, fences[0]), (stores[1], 2, fences[1])):
            with pytest.raises((StoreConflict, OutcomeUnknown)):
                put(store, partition, b"late", fence)
            with pytest.raises((NotOwner, StoreConflict, Unavailable)):
                keys_in(store, partition)
        wait_until(lambda: ada.lost is not None, "the node hears that it was taken for dead")
        assert ada.take(2) is None, "who was taken for dead owns nothing"
        assert keys_in(heir, 0) == [b"after", b"before"]
    for store in stores:
        store.close()


def test_a_node_paused_in_mid_transaction_holds_nobody_up(enter: Callable[..., PostgresqlNode]) -> None:
    ada, bob = enter("ada"), enter("bob")
    store = taken(ada, 1)
    session = store._commits._connected()
    session.execute("BEGIN")
    session.execute("UPDATE restante_shards SET commits = commits WHERE shard = 1")
    ada._lease._ending.set()  # it beats no more
    silence(bob, ada)
    taken(bob, 1).close()  # Whoever waited for the transaction to end would give up before the server ends it.
    with pytest.raises(psycopg.OperationalError):
        session.execute("COMMIT")
    store.close()


def test_a_hub_alone_is_refused_while_a_node_owns_a_shard(address: str, enter: Callable[..., PostgresqlNode]) -> None:
    ada = enter("ada")
    with closing(taken(ada, 2)), pytest.raises(DataLocked, match="ada"):
        PostgresqlStore.open(address)


def test_shards_are_cut_anew_without_moving_a_row(address: str) -> None:
    with closing(PostgresqlStore.open(address)) as store:
        fence = store.raise_fences(8)
        for partition in range(8):
            put(store, partition, b"kept", fence)
        store.cut((0, 4))
        with pytest.raises(StoreConflict, match="other borders"):
            put(store, 0, b"late", fence)
    node = PostgresqlNode.open(address, "ada", lease_seconds=LEASE)
    try:
        found = node.survey()
        assert [(row.shard, row.first) for row in found.shards] == [(0, 0), (1, 4)]
        assert found.epoch == 2
        with closing(taken(node, 1)) as second:
            assert second.raise_fences(8, first=4) > fence
            assert [keys_in(second, partition) for partition in range(4, 8)] == 4 * [[b"kept"]]
    finally:
        node.close()


def test_a_database_of_the_layout_before_is_brought_forward(tmp_path: Path) -> None:
    address = schema_address(tmp_path)
    with psycopg.connect(address, autocommit=True) as session:
        session.execute(schema._TABLES)
        session.execute("UPDATE restante_shards SET fence = 7, commits = 9")
        session.execute("INSERT INTO restante_entries VALUES (0, 2, 'old', 'value')")
    with closing(PostgresqlStore.open(address)) as store:
        assert keys_in(store, 0) == [b"old"]
        assert store.raise_fences(1) > 7


def test_one_hub_alone_does_not_open_several_shards(address: str) -> None:
    from restante.assembly import open_hub

    with pytest.raises(InvalidRequest, match="3 shards"):
        open_hub(address)
    PostgresqlStore.open(address).close()
