"""The page about nodes and shards: there where several are, left out where one has everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from restante.cli.serving.console import mount_console, mount_door_console
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from tests.cluster.several import SeveralHub
from tests.cluster.two_nodes import TwoNodes
from tests.console.test_streams import _stream
from tests.console.visiting import Browsing


class GuardedNodes:
    """Two nodes that ask for tokens."""

    def __init__(self, folder: pytest.TempPathFactory) -> None:
        home = folder.mktemp("nodes") / "data"
        home.mkdir()
        tokens = TokenFile(home / "tokens.json")
        self.secrets = {role: tokens.create(roles=[role]) for role in Role}
        self.nodes = TwoNodes(home, mount_console)

    def browser(self, role: Role, *, door: int = 0) -> Browsing:
        made = Browsing(self.nodes.urls[door])
        assert made.sign_in(self.secrets[role]).status == 303
        return made


@pytest.fixture
def guarded_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNodes]:
    running = GuardedNodes(tmp_path_factory)
    yield running
    running.nodes.stop()


def test_a_hub_alone_has_no_such_entry_and_says_so_in_a_line(browser: Browsing) -> None:
    assert "/console/nodes" not in browser.get("").page.links
    assert "One node, local, has all shards." in browser.get("/nodes").page.text


def test_owners_leases_and_shards_are_shown(guarded_nodes: GuardedNodes) -> None:
    operator = guarded_nodes.browser(Role.OPERATOR)
    assert "/console/nodes" in operator.get("").page.links
    page = operator.get("/nodes").page
    for said in ("mail-0", "mail-1", *guarded_nodes.nodes.urls, "0 to 7", "8 to 15", "2.5 s", "serving"):
        assert said in page.text
    assert {link for link in page.links if "/do/drain" in link} == {
        "/console/do/drain?node=mail-0",
        "/console/do/drain?node=mail-1",
    }


def test_who_does_not_operate_is_offered_no_change(guarded_nodes: GuardedNodes) -> None:
    for role in (Role.READER, Role.PUBLISHER):
        other = guarded_nodes.browser(role, door=1)
        page = other.get("/nodes").page
        assert "mail-1" in page.text
        assert not [link for link in page.links if "/do/" in link]
        assert other.get("/do/drain?node=mail-1").status == 404
    assert guarded_nodes.browser(Role.RECIPIENT).get("/nodes").status == 403


def test_a_node_is_drained_when_its_name_was_typed_and_the_last_one_is_not(guarded_nodes: GuardedNodes) -> None:
    operator, moved = guarded_nodes.browser(Role.OPERATOR), guarded_nodes.nodes.moved
    assert "1 shard of mail-1 would go to other nodes" in operator.get("/do/drain?node=mail-1").page.text
    assert operator.confirm("drain", {"node": "mail-1"}, "mail").status == 422
    assert moved == {}
    done = operator.confirm("drain", {"node": "mail-1"}, "mail-1")
    assert done.headers["location"] == "/console/nodes?done=drain&count=1"
    assert moved == {1: 0}
    page = operator.get("/nodes").page
    assert "draining" in page.text
    assert not [link for link in page.links if "/do/drain" in link]
    refused = operator.get("/do/drain?node=mail-0")
    assert refused.status == 409
    assert "only node" in refused.page.text
    assert operator.get("/do/drain?node=<script>").status == 404


def test_a_shard_that_does_not_serve_is_said_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    several = SeveralHub(tmp_path_factory.mktemp("shards") / "data", prepare=mount_door_console)
    try:
        browser = Browsing(several.url)
        assert "/console/nodes" in browser.get("/partitions").page.links
        assert "One node, local, has all shards." in browser.get("/nodes").page.text
        assert "Most waiting" in browser.get("").page.text
        several.stop_shard(3)
        pages = [browser.get(path).page.text for path in ("/nodes", "")]
        refused = browser.get("/partitions")
        several.start_shard(3)
        again = browser.get("").page.text
    finally:
        several.stop()
    assert all("Shard 3 (partitions 12 to 15) is silent. Shard 3 does not answer" in said for said in pages)
    assert refused.status == 503
    assert "/console/nodes" in refused.page.links
    assert "Which shard does not serve?" in refused.page.text
    assert "is silent" not in again


def test_doors_on_one_port_share_the_sessions_of_one_console(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("doors") / "data"
    home.mkdir()
    operator = TokenFile(home / "tokens.json").create(roles=[Role.OPERATOR])
    several = SeveralHub(home, prepare=mount_door_console, doors=3)
    try:
        browser = Browsing(several.url)
        assert browser.sign_in(operator).status == 303
        assert {browser.get("/tokens", follow=False).status for _ in range(30)} == {200}
        for _ in range(6):
            assert browser.confirm("file", {}, "file").status == 303
        with _stream(several.url, "", browser.cookie) as answer:
            assert answer.status == 200
            assert answer.readline()
        seen = [browser.ask("GET", "/console/assets/console.css").status for _ in range(10)]
        reached = [door.service.desk.metrics.requests for door in several.doors]  # type: ignore[attr-defined]  # doors
    finally:
        several.stop()
    assert set(seen) == {200}
    assert sum(bool(own) for own in reached) > 1, "requests came through several doors"
