"""The page about nodes in a real browser: it fits, can be read by everybody, moves by itself, and drains a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from restante.console.application import Console
from restante.console.web.doors import SameProcessDoor
from restante.server.doors.door_service import DoorService
from tests.cluster.two_nodes import TwoNodes
from tests.console.browsers import faults_of, opened_browser, why_no_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.skipif(why_no_browser() is not None, reason=str(why_no_browser())),
    pytest.mark.xdist_group("browser"),
]


def _mount(service: DoorService) -> None:
    door = SameProcessDoor(service.application, service.url)
    service.mount(Console(door, cookie="restante_console", stream_seconds=0.3))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    running = TwoNodes(tmp_path / "data", _mount)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@contextmanager
def opened(browser: Browser, nodes: TwoNodes, *, width: int = 1280, dark: bool = False) -> Iterator[Page]:
    """Whatever the browser complains of fails the test."""
    context = browser.new_context(
        viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light", base_url=nodes.urls[0]
    )
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    nodes: TwoNodes, browser: Browser, tmp_path: Path, dark: bool
) -> None:
    for width in (380, 2560):
        with opened(browser, nodes, width=width, dark=dark) as page:
            for path in ("nodes", "do/drain?node=mail-1"):
                page.goto(f"/console/{path}")
                assert faults_of(page) == []
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.goto("/console/nodes")
            page.screenshot(path=tmp_path / f"nodes-{width}.png")


def test_a_node_is_drained_with_keys_alone_and_another_page_moves(nodes: TwoNodes, browser: Browser) -> None:
    with opened(browser, nodes) as page, opened(browser, nodes) as other:
        other.goto("/console/nodes")
        page.goto("/console")
        page.get_by_role("link", name="Nodes").focus()
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Drain…").nth(1).focus()
        page.keyboard.press("Enter")
        page.get_by_text("1 shard of mail-1 would go to other nodes").wait_for()
        page.get_by_label("To confirm, type").focus()
        page.keyboard.type("mail-1")
        page.keyboard.press("Enter")
        page.get_by_text("The node gives its shards away.").wait_for()
        assert nodes.moved == {1: 0}
        other.get_by_text("draining").wait_for()
        other.get_by_role("link", name="Drain…").first.wait_for(state="detached")
