"""Several nodes on one database: any takes any call, shards move, and the dead are succeeded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import restante
from restante.errors import Unavailable
from restante.model.storage.partition import partition_of
from restante.stores.postgresql.lease import LEASE_SECONDS
from tests.nodes.threaded import PARTITIONS, SHARDS, ThreadedNode, founded
from tests.postgresql_server import schema_address
from tests.server.wire import Wire
from tests.waiting import wait_until

NAMES = [f"r{number}" for number in range(40)]
START = Callable[[str], ThreadedNode]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return founded(schema_address(tmp_path))


@pytest.fixture
def start(address: str, tmp_path: Path) -> Iterator[START]:
    nodes: list[ThreadedNode] = []

    def start(name: str) -> ThreadedNode:
        nodes.append(ThreadedNode(address, name, tmp_path / name))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


def shared_out(*nodes: ThreadedNode) -> bool:
    """Whether all shards are served, by each about as many."""
    counts = [len(node.shards) for node in nodes]
    return sum(counts) == SHARDS and max(counts) - min(counts) <= 1


def test_a_node_alone_has_all_shards_and_is_one_hub(start: START) -> None:
    node = start("a")
    assert node.shards == list(range(SHARDS))
    with restante.connect(node.url) as hub:
        receipt = hub.producer.send([restante.Message(recipient=name, text=name, id=name) for name in NAMES])
        assert (receipt.accepted, len(receipt.partitions)) == (40, len({partition_of(n, PARTITIONS) for n in NAMES}))
        bundle = hub.recipient(NAMES[0]).peek()
        assert bundle is not None
        assert bundle.dequeue().messages == 1
        assert len(hub.recipients().recipients) == 39


def test_any_node_takes_any_call(start: START) -> None:
    ada, bob = start("a"), start("b")
    wait_until(lambda: shared_out(ada, bob))
    with restante.connect(ada.url) as one, restante.connect(bob.url) as other:
        one.producer.send([restante.Message(recipient=name, text=name, id=name) for name in NAMES])
        assert {own.recipient for own in other.recipients().recipients} == set(NAMES)
        for hub, name in zip((one, other) * 20, NAMES, strict=True):
            bundle = hub.recipient(name).peek()
            assert bundle is not None
            assert [message.text for message in bundle.messages] == [name]
            assert bundle.dequeue().messages == 1
        assert all(other.recipient(name).peek() is None for name in NAMES)


def test_batches_and_consignments_go_over_nodes(start: START) -> None:
    ada, bob = start("a"), start("b")
    wait_until(lambda: shared_out(ada, bob))
    one, other = Wire(ada.url), Wire(bob.url)
    opened = one("POST", "/v1/consignments", {"key": "night", "batch": True}).json()
    place = f"/v1/consignments/{opened['id']}"
    body = [{"recipient": name, "data": name} for name in NAMES]
    assert other("POST", f"{place}/parcels?writer=w&attempt=0&parcel=0", body).json() == {"staged": 40}
    assert one.get("/v1/recipients").json()["recipients"] == []
    counted = {"writers": [{"writer": "w", "attempt": 0, "messages": 40}]}
    committed = other("POST", f"{place}/commit", counted)
    assert (committed.status, committed.json()["accepted"]) == (200, 40)
    batch = f"/v1/batches/{opened['batch']}"
    assert one.get(batch).json()["pending"] == 40
    for name in NAMES:
        bundle = one.get(f"/v1/recipients/{name}/peek").headers["restante-bundle-id"]
        assert other("DELETE", f"/v1/recipients/{name}/bundles/{bundle}").status == 200
    wait_until(lambda: other.get(batch).json()["state"] == "complete")
    for wire in (one, other):
        wire.close()


class Publisher:
    """Sends one message after the other to one recipient, and notes what was answered."""

    def __init__(self, url: str, recipient: str) -> None:
        self.sent: list[str] = []
        self.failures: list[BaseException] = []
        self._recipient, self._url = recipient, url
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with restante.connect(self._url) as hub:
                while not self._ending.is_set():
                    name = f"{self._recipient}-{len(self.sent)}"
                    hub.producer.send([restante.Message(recipient=self._recipient, id=name, text=name)])
                    self.sent.append(name)
        except BaseException as error:  # noqa: BLE001  # handed to the test
            self.failures.append(error)

    def finish(self) -> None:
        self._ending.set()
        self._thread.join(60)
        assert not self.failures


def collected(url: str, recipient: str) -> list[str]:
    with restante.connect(url) as hub:
        found: list[str] = []
        while (bundle := hub.recipient(recipient).peek()) is not None:
            found += [message.id or "" for message in bundle.messages]
            bundle.dequeue()
        return found


def test_a_node_that_joins_and_one_that_leaves_refuse_nobody(start: START) -> None:
    ada = start("a")
    publishers = [Publisher(ada.url, name) for name in NAMES[:3]]
    bob = start("b")
    wait_until(lambda: shared_out(ada, bob))
    more = [Publisher(bob.url, name) for name in NAMES[3:6]]
    wait_until(lambda: all(len(own.sent) > 3 for own in (*publishers, *more)))
    for own in publishers:
        own.finish()
    ada.stop()
    wait_until(lambda: bob.shards == list(range(SHARDS)))
    for own in more:
        own.finish()
    for own, name in zip((*publishers, *more), NAMES, strict=False):
        assert collected(bob.url, name) == own.sent


def test_a_silent_node_is_succeeded_and_answers_no_more(start: START) -> None:
    ada, bob = start("a"), start("b")
    wait_until(lambda: shared_out(ada, bob))
    lost = ada.shards
    with restante.connect(bob.url) as hub:
        hub.producer.send([restante.Message(recipient=name, text=name, id=name) for name in NAMES])
        probe = Wire(ada.url)
        assert [probe.get(path).status for path in ("/livez", "/readyz")] == [200, 200]
        ada.drop_lease()
        wait_until(lambda: probe.get("/readyz").status == 503)
        assert probe.get("/livez").status == 200
        probe.close()
        wait_until(lambda: set(lost) <= set(bob.shards))
        for name in NAMES:
            bundle = hub.recipient(name).peek()
            assert bundle is not None
            assert bundle.dequeue().messages == 1
        hub.producer.send([restante.Message(recipient=name, text=name, id=f"{name} again") for name in NAMES])


def test_without_the_secret_a_node_gets_nothing(start: START) -> None:
    ada = start("a")
    with pytest.raises(Unavailable), restante.connect(f"http://{ada.peer}", timeout=5) as hub:
        hub.producer.send([restante.Message(recipient="x", text="x")])


def test_the_map_says_who_has_what_and_a_drained_node_gives_all_away(start: START) -> None:
    ada, bob = start("a"), start("b")
    wait_until(lambda: shared_out(ada, bob))
    wire = Wire(ada.url)
    found = wire.get("/v1/nodes").json()
    assert (found["partition_count"], [own["first"] for own in found["shards"]]) == (PARTITIONS, [0, 4, 8, 12])
    assert {own["node"]: own["address"] for own in found["nodes"]} == {"a": ada.url, "b": bob.url}
    wait_until(lambda: {own["node"] for own in wire.get("/v1/nodes").json()["shards"]} == {"a", "b"})
    leases = [own["lease_seconds"] for own in wire.get("/v1/nodes").json()["shards"]]
    assert all(0 <= left <= LEASE_SECONDS for left in leases)
    assert max(leases) > 0
    assert wire("POST", "/v1/nodes/nobody/drain").problem["code"] == "node_unknown"
    planned = wire("POST", "/v1/nodes/b/drain?dry_run=true").json()
    assert (planned["state"], planned["shards"]) == ("serving", bob.shards)
    assert wire("POST", "/v1/nodes/b/drain").json()["state"] == "draining"
    wait_until(lambda: ada.shards == list(range(SHARDS)) and bob.shards == [])
    refused = wire("POST", "/v1/nodes/a/drain")
    assert (refused.status, refused.problem["code"]) == (409, "last_node")
    other = Wire(bob.url)
    assert other.publish({"recipient": "x", "data": "x"}).status == 201
    for own in (wire, other):
        own.close()


def test_a_hub_alone_on_a_database_tells_what_is_left_of_its_lease(tmp_path: Path) -> None:
    with restante.open(schema_address(tmp_path)) as hub:
        (shard,) = hub.nodes().shards
        assert shard.lease_seconds is not None
        assert 0 < shard.lease_seconds <= LEASE_SECONDS


def test_a_node_that_does_not_reach_the_owner_names_it_and_a_client_goes_there(
    start: START, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("restante.cluster.shard_lines", "restante.server.doors.upstream"):
        monkeypatch.setattr(f"{module}.SHARD_PATIENCE_SECONDS", 1.0)
    ada, bob = start("a"), start("b")
    wait_until(lambda: shared_out(ada, bob))
    bob.be_out_of_reach([ada])
    there = next(name for name in NAMES if partition_of(name, PARTITIONS) * SHARDS // PARTITIONS in bob.shards)
    wire = Wire(ada.url)
    for answer in (wire.publish({"recipient": there, "data": 1}), wire.get(f"/v1/recipients/{there}/peek")):
        assert (answer.status, answer.problem["code"], answer.problem["owner"]) == (421, "not_owner", bob.url)
        assert answer.problem["partition"] * SHARDS // PARTITIONS in bob.shards
    body = [{"recipient": name, "data": 1, "id": name} for name in NAMES]
    partly = wire.publish(*body)
    assert (partly.status, partly.problem["code"]) == (503, "partly_stored")
    wire.close()
    with restante.connect(ada.url) as hub:
        assert hub.send(recipient=there, text="hello").accepted == 1
        bundle = hub.recipient(there).peek()
        assert bundle is not None
        assert bundle.messages[-1].text == "hello"


def test_rates_count_what_a_door_was_asked_and_not_what_it_asked_of_shards(start: START) -> None:
    ada = start("a")
    wire = Wire(ada.url)
    for name in NAMES:
        assert wire.publish({"recipient": name, "data": name}).status == 201
        assert wire.get(f"/v1/recipients/{name}/peek").status == 200
    assert wire.publish(*({"recipient": name, "data": 2} for name in NAMES)).status == 201
    ada.in_loop(ada.node.desk.rates.take)
    found = wire.get("/v1/rates").json()
    assert (sum(found["requests"]), sum(found["accepted"]), sum(found["failures"])) == (
        2 * len(NAMES) + 1,
        2 * len(NAMES),
        0,
    )
    wire.close()


def test_nodes_with_unlike_settings_are_red(start: START, address: str, tmp_path: Path) -> None:
    ada = start("a")
    wire = Wire(ada.url)
    wait_until(lambda: "unlike_settings" in wire.get("/v1/health").body.decode(), "it was measured")
    assert wire.get("/v1/health").json()["state"] == "green"
    bob = ThreadedNode(address, "b", tmp_path / "b", digest="other")
    try:
        wait_until(lambda: "b run with other settings" in wire.get("/v1/health").body.decode())
        assert wire.get("/v1/health").json()["state"] == "red"
    finally:
        bob.stop()
        wire.close()
