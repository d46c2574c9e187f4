"""Where a client sends what: to owners that the map names, to others when one does not answer."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from restante.client.nodes.hub_places import HubPlaces, home_of_path
from restante.client.transport.address import _warn_of_plaintext, addresses_of
from restante.client.transport.exchange import Failure, Response
from restante.errors import InvalidRequest
from restante.model.shards.node_answers import NodeMap, NodeState, NodeStatus, ShardState, ShardStatus
from restante.model.storage.partition import partition_of

PARTITIONS = 8
GONE = Failure("connection refused", reached=False)
A, B, C = "http://a.test:1", "http://b.test:1", "http://c.test:1"


class Scene:
    """Places, with a clock that stands still."""

    def __init__(self, own: str = A, *, token: str | None = None) -> None:
        self.now = 0.0
        self.places = HubPlaces(addresses_of(own, token=token), lambda: self.now)

    def to(self, path: str) -> str:
        return self.places.place_for(path).url

    def heard(self, url: str, reply: Failure | Response) -> None:
        self.places.heard(addresses_of(url)[0], reply)


def answer(status: int, body: object = None) -> Response:
    return Response(status, {}, memoryview(msgspec.json.encode(body)))


def map_of(*owners: str | None, states: tuple[ShardState, ...] = (), silent: tuple[str, ...] = ()) -> Response:
    """Each owner has as many partitions as the others."""
    each = PARTITIONS // len(owners)
    nodes = tuple(
        NodeStatus(
            node=own,
            address=own,
            state=NodeState.SILENT if own in silent else NodeState.SERVING,
            since=datetime(2030, 1, 1, tzinfo=UTC),
        )
        for own in dict.fromkeys(own for own in owners if own is not None)
    )
    shards = tuple(
        ShardStatus(
            shard=number,
            first=number * each,
            last=number * each + each - 1,
            node=own,
            address=own,
            state=states[number] if states else ShardState.SERVING,
        )
        for number, own in enumerate(owners)
    )
    return answer(200, NodeMap(epoch=1, partition_count=PARTITIONS, nodes=nodes, shards=shards))


def feed(partition: int) -> str:
    return f"/v1/partitions/{partition}/feed"


def test_one_address_needs_no_map_at_first_and_then_one_a_minute() -> None:
    scene = Scene()
    assert [scene.places.map_is_due() for _ in range(100)] == [False] * 100
    scene.now = 2.5
    assert [scene.places.map_is_due() for _ in range(3)] == [True, False, False]
    scene.places.learn(map_of(A))
    scene.now = 60.0
    assert not scene.places.map_is_due()
    scene.now = 63.0
    assert scene.places.map_is_due()


def test_a_program_that_asks_little_never_reads_the_map() -> None:
    scene = Scene()
    scene.now = 1_000.0
    assert [scene.places.map_is_due() for _ in range(15)] == [False] * 15


def test_with_several_addresses_the_map_is_read_first() -> None:
    assert Scene(f"{A},{B}").places.map_is_due()


def test_what_is_about_a_partition_goes_to_its_owner() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(B, C))
    assert [scene.to(feed(partition)) for partition in (0, 3, 4, 7)] == [B, B, C, C]
    name = "a/b ü"
    owner = B if partition_of(name, PARTITIONS) < 4 else C
    assert scene.to("/v1/recipients/a%2Fb%20%C3%BC/peek") == owner
    assert scene.to("/v1/messages") == A


def sent_to(*recipients: str) -> bytes:
    return msgspec.json.encode({"messages": [{"recipient": name, "text": "x"} for name in recipients]})


def test_a_small_publish_goes_to_the_owner_of_its_recipients_if_that_is_one() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(B, C))
    names = [f"r{number}" for number in range(20)]
    of_b, of_c = ([name for name in names if (partition_of(name, PARTITIONS) < 4) is first] for first in (True, False))

    def to(body: bytes) -> str:
        return scene.places.place_for("/v1/messages", body).url

    assert (to(sent_to(of_b[0])), to(sent_to(*of_b)), to(sent_to(*of_c))) == (B, B, C)
    for body in (sent_to(of_b[0], of_c[0]), sent_to(), b"ARROW1", b"{", b'{"messages": [{"recipients": ["a", "b"]}]}'):
        assert to(body) == A
    assert to(sent_to(of_b[0], "long" * 5_000)) == A
    scene.heard(C, GONE)
    assert to(sent_to(of_c[0])) == A


def test_sends_that_share_a_request_go_to_their_owner() -> None:
    scene = Scene(A)
    assert scene.places.owner_of_send(sent_to("r0")) is None
    scene.places.learn(map_of(B, C))
    names = [f"r{number}" for number in range(20)]
    of_b, of_c = ([name for name in names if (partition_of(name, PARTITIONS) < 4) is first] for first in (True, False))
    assert [scene.places.owner_of_send(sent_to(name)) for name in (of_b[0], of_c[0])] == [B, C]
    assert scene.places.owner_of_send(sent_to(of_b[0], of_c[0])) is None

    def to(*sends: bytes) -> str:
        return scene.places.place_for("/v1/sends", b'{"sends":[%b]}' % b",".join(sends)).url

    assert (to(*map(sent_to, of_b)), to(*map(sent_to, of_c))) == (B, C)
    assert to(*[sent_to(of_c[0])] * 800) == C
    assert (to(sent_to(of_b[0]), sent_to(of_c[0])), to(), to(b"1")) == (A, A, A)


def test_a_map_with_one_address_changes_nothing() -> None:
    scene = Scene(A)
    scene.places.learn(map_of("http://0.0.0.0:8470"))
    scene.places.learn(map_of("http://10.0.0.7:8470"))
    assert {scene.to(feed(partition)) for partition in range(PARTITIONS)} == {A}
    assert not scene.places.several


@pytest.mark.parametrize(
    "named", ["http://127.0.0.1:9", "http://0.0.0.0:9", "http://[::]:9", "ftp://c.test", "c.test", "http://u:p@c.test"]
)
def test_an_address_that_cannot_be_meant_is_not_used(named: str) -> None:
    scene = Scene(A)
    scene.places.learn(map_of(A, B, named, named))
    assert [scene.to(feed(partition)) for partition in (0, 2, 4, 6)] == [A, B, A, A]


def test_a_token_is_not_sent_where_it_would_be_less_safe() -> None:
    scene = Scene("https://a.test", token="rst_x")
    scene.places.learn(map_of("https://b.test", "http://c.test:1", "https://a.test", "https://a.test"))
    assert scene.to(feed(0)) == "https://b.test"
    assert scene.to(feed(2)) == "https://a.test"
    assert scene.places.place_for(feed(0)).token == "rst_x"


def test_a_node_that_does_not_answer_is_left_alone_for_a_while() -> None:
    scene = Scene(f"{A},{B},{C}")
    assert scene.to("/v1/messages") == A
    scene.heard(A, GONE)
    assert scene.to("/v1/messages") == B
    scene.heard(B, GONE)
    assert scene.to("/v1/messages") == C
    scene.heard(C, GONE)
    assert {scene.to("/v1/messages") for _ in range(6)} == {A, B, C}
    scene.now = 3.0
    assert scene.to("/v1/messages") in (A, B, C)
    scene.heard(B, answer(200))
    assert scene.places.map_is_due()


def test_the_owner_is_asked_elsewhere_while_it_is_down_and_the_map_is_read_again() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(B, C))
    scene.heard(B, answer(200))
    scene.heard(B, GONE)
    assert scene.to(feed(0)) in (A, C)
    assert scene.places.map_is_due()
    assert not scene.places.map_is_due()
    scene.places.learn(map_of(C, C, silent=(B,)))
    assert scene.to(feed(0)) == A


def test_an_address_that_never_answered_is_not_tried_again_soon() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(A, B))
    scene.heard(B, GONE)
    scene.now = 20.0
    assert scene.to(feed(7)) == A
    scene.now = 31.0
    assert scene.to(feed(7)) == B


def test_who_is_told_of_another_owner_goes_there_and_reads_the_map() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(A, B))
    scene.heard(A, answer(421, {"code": "not_owner", "partition": 1, "owner": C}))
    assert scene.to(feed(1)) == C
    assert scene.to(feed(0)) == A
    assert scene.places.map_is_due()


def test_a_token_that_goes_where_the_map_leads_in_the_open_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_plaintext.cache_clear()
    scene = Scene("http://127.0.0.1:1", token="rst_secret")
    scene.places.learn(map_of(B, C))
    assert not caplog.messages
    assert scene.places.place_for(feed(7)).credentials() == {"Authorization": "Bearer rst_secret"}
    (told,) = caplog.messages
    assert f"{C} without encryption" in told


def test_the_map_is_not_read_again_and_again() -> None:
    scene = Scene(f"{A},{B}")
    reads = 0
    for _ in range(100):
        scene.heard(A, answer(421, "?"))
        reads += scene.places.map_is_due()
    assert reads == 1
    scene.now = 1.0
    scene.heard(A, answer(421, {}))
    assert scene.places.map_is_due()


def test_a_node_that_refuses_for_now_is_passed_over() -> None:
    scene = Scene(f"{A},{B}")
    scene.heard(A, answer(503))
    assert scene.to("/v1/messages") == B
    scene.heard(B, answer(503))
    assert scene.to("/v1/messages") == A


def test_shards_that_nobody_serves_have_no_owner() -> None:
    scene = Scene(A)
    scene.places.learn(map_of(B, C, states=(ShardState.FAILED, ShardState.MOVING)))
    assert scene.to(feed(0)) == A
    assert scene.to(feed(7)) == C


@pytest.mark.parametrize("reply", [answer(404), answer(403), answer(200, {"nodes": 1}), answer(200, [])])
def test_a_hub_without_a_map_is_not_asked_again(reply: Response) -> None:
    scene = Scene(f"{A},{B}")
    assert scene.places.map_is_due()
    scene.places.learn(reply)
    scene.now = 600.0
    assert not scene.places.map_is_due()


def test_addresses_are_given_with_commas_and_each_once() -> None:
    assert [own.url for own in addresses_of(f"{A}, b.test:1 ,{A},")] == [A, B]
    with pytest.raises(InvalidRequest):
        addresses_of(f"{A},ftp://b.test")


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("/v1/messages", None),
        ("/v1/partitions", None),
        ("/v1/partitions/3/feed", 3),
        ("/v1/partitions/99/feed", None),
        ("/v1/partitions/x", None),
        ("/v1/recipients/alice/explain", partition_of("alice", PARTITIONS)),
        ("/v1/recipients", None),
        ("/v1/batches/0190B4D2/items", partition_of("0190b4d2", PARTITIONS)),
        ("/v1/nodes/a/drain", None),
        ("/", None),
    ],
)
def test_the_home_of_a_path(path: str, home: int | None) -> None:
    assert home_of_path(path, PARTITIONS) == home
