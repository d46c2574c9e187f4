"""Nodes with certificates: they speak TLS to one another, and to nobody whose certificate their authority has not signed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import restante
from restante.cluster.nodes.handshake import Purpose
from restante.cluster.nodes.peer_connection import connect_peer, tell_peer
from restante.cluster.nodes.peer_server import PeerServer
from restante.cluster.nodes.peer_trust import PeerTrust, peer_trust
from restante.errors import InvalidSettings
from restante.server.serve import listening_socket, url_of
from restante.settings import ClusterSettings
from tests.nodes.certificates import Authority
from tests.nodes.test_handshake import Echo, Heard
from tests.nodes.threaded import TRUST, ThreadedNode, founded
from tests.postgresql_server import schema_address
from tests.waiting import wait_until

NAMES = [f"r{number}" for number in range(40)]
LARGE = bytes(700_000)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def trusting(cluster: ClusterSettings, secret: bytes = TRUST.secret) -> PeerTrust:
    return peer_trust(secret, cluster)


@pytest.mark.parametrize(
    ("listen", "warned"), [("127.0.0.1:8472", False), ("[::1]:8472", False), ("10.1.2.3:8472", True), ("[::]:0", True)]
)
def test_nodes_on_other_machines_warn_where_they_speak_without_encryption(
    authority: Authority, caplog: pytest.LogCaptureFixture, listen: str, warned: bool
) -> None:
    trusting(ClusterSettings(listen=listen))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warned
    caplog.clear()
    trusting(msgspec.structs.replace(authority.issue("a"), listen=listen))
    assert caplog.records == []


def test_nodes_with_certificates_are_one_hub(tmp_path: Path, authority: Authority) -> None:
    address = founded(schema_address(tmp_path))
    nodes = [ThreadedNode(address, name, tmp_path / name, trust=trusting(authority.issue(name))) for name in ("a", "b")]
    try:
        wait_until(lambda: sorted(len(node.shards) for node in nodes) == [2, 2])
        for node in nodes:
            with restante.connect(node.url) as hub:
                hub.producer.send([restante.Message(recipient=name, text=node.name) for name in NAMES])
                hub.producer.send([restante.Message(recipient=name, data=LARGE) for name in NAMES[:8]])
                with hub.recipient(NAMES[9]).live(after=0) as live:
                    assert next(iter(live)).text == "a"
        for name in NAMES:
            with restante.connect(nodes[0].url) as hub:
                bundle = hub.recipient(name).peek()
                assert bundle is not None
                assert [message.text for message in bundle.messages if message.data != LARGE] == ["a", "b"]
                assert bundle.dequeue().messages == (4 if name in NAMES[:8] else 2)
        nodes[1].stop()
        wait_until(lambda: nodes[0].shards == [0, 1, 2, 3])
    finally:
        for node in nodes:
            node.stop()


@pytest.mark.parametrize(
    "caller", ["of nobody", "of another authority", "without TLS", "with another secret", "elsewhere"]
)
def test_who_is_not_one_of_them_gets_nothing(tmp_path: Path, authority: Authority, caller: str) -> None:
    own, other = authority.issue("a"), Authority(tmp_path / "others", "others")
    own_authority = str(authority.file)
    callers = {
        "of nobody": _without_certificate(trusting(own)),
        "of another authority": trusting(msgspec.structs.replace(other.issue("b"), authority_file=own_authority)),
        "without TLS": TRUST,
        "with another secret": trusting(authority.issue("b"), b"another secret, as long"),
        "elsewhere": trusting(authority.issue("b")),
    }
    called = trusting(authority.issue("c", "127.0.0.9") if caller == "elsewhere" else own)
    assert asyncio.run(_answered(called, callers[caller])) == []


def test_who_trusts_another_authority_does_not_call(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path / "others", "others")
    assert asyncio.run(_answered(trusting(authority.issue("a")), trusting(other.issue("b")))) == []


def test_who_is_one_of_them_is_welcome(authority: Authority) -> None:
    answered = asyncio.run(_answered(trusting(authority.issue("a")), trusting(authority.issue("b"))))
    assert answered == [b"hello", Purpose.NUDGE]


async def _answered(called: PeerTrust, caller: PeerTrust) -> list[object]:
    """What a node that listens has answered to another one; nothing if it hung up."""
    bound, told = listening_socket("127.0.0.1", 0), list[object]()

    def welcome(purpose: Purpose, shard: int) -> type[Echo] | bool:
        if purpose is Purpose.NUDGE:
            told.append(purpose)
        return Echo if shard == 3 else True

    server, address = PeerServer(bound, called, welcome), url_of(bound).removeprefix("http://")
    await server.start()
    try:
        line = await connect_peer(address, caller, Purpose.CALLS, 3, Heard)
        told.append(await line.heard)
        line.transport.abort()
        await tell_peer(address, caller, Purpose.NUDGE)
    except ConnectionError:
        assert told == []
    finally:
        server.close()
    return told


def _without_certificate(trust: PeerTrust) -> PeerTrust:
    """It trusts the authority, and has nothing to show."""
    import ssl

    assert trust.calling is not None
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for certificate in trust.calling.get_ca_certs(binary_form=True):
        bare.load_verify_locations(cadata=certificate)
    return trust._replace(calling=bare)


def test_the_files_go_together_and_can_be_used(tmp_path: Path, authority: Authority) -> None:
    made, other = authority.issue("a"), authority.issue("b")
    locked = authority.issue("c", passphrase=b"nobody types it")
    replace = msgspec.structs.replace
    wrong = {
        "key_file and cluster.authority_file too": ClusterSettings(certificate_file=made.certificate_file),
        "cluster.certificate_file too": replace(made, certificate_file=None),
        "cluster.authority_file: .* cannot be used": replace(made, authority_file=str(tmp_path / "missing")),
        "cluster.certificate_file, cluster.key_file: .* cannot be used": replace(made, key_file=other.key_file),
        "has a passphrase": locked,
    }
    for said, cluster in wrong.items():
        with pytest.raises(InvalidSettings, match=said):
            trusting(cluster)
    assert trusting(ClusterSettings()) == TRUST
