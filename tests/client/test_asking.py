"""A mistake of the caller is the same error in process and over the network, and is found before anything is asked."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub, Recipient
from restante.errors import InvalidRequest
from restante.server.serve import ServedHub, start


@pytest.fixture(params=["in process", "over the network"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    if request.param == "in process":
        with restante.open(tmp_path / "data") as hub:
            yield hub
        return
    with start(tmp_path / "data") as running, restante.connect(running.url) as hub:
        yield hub


MISTAKES: dict[str, Callable[[Recipient], object]] = {
    "origins must be a list of names, like": lambda ada: ada.peek(origins="billing"),
    "origins must be a list of names, not": lambda ada: ada.peek(origins=[7]),  # type: ignore[list-item]
    "origin_groups must be a list": lambda ada: ada.explain(origin_groups="billing"),
    "max_messages must be a whole number": lambda ada: ada.peek(max_messages=1.5),  # type: ignore[arg-type]
    "wait must be a number of seconds": lambda ada: ada.peek(wait="5"),  # type: ignore[arg-type]
    "limit must be a whole number": lambda ada: ada.history(limit="x"),  # type: ignore[arg-type]
    "state must be one of waiting": lambda ada: ada.history(state="lost"),
}


@pytest.mark.parametrize("told", list(MISTAKES))
def test_a_mistake_is_named(hub: Hub, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        MISTAKES[told](hub.recipient("ada"))


def test_a_state_may_be_given_by_its_name(hub: Hub) -> None:
    hub.producer.send(restante.Message(recipient="ada", data=1))
    assert len(hub.recipient("ada").history(state="waiting").messages) == 1
    assert hub.recipient("ada").history(state="collected").messages == ()


@pytest.mark.parametrize("sent", [None, 5])
def test_what_is_no_message_is_refused_with_what_may_be_sent(hub: Hub, sent: object) -> None:
    with pytest.raises(InvalidRequest, match="Message"):
        hub.producer.send(sent)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data") as running:
        yield running


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupt_ends_a_wait_that_would_not_end_by_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        program = f"import restante\nrestante.connect({url!r}, timeout=3600).recipient('ada').peek(wait=25)"
        with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as process:
            connection, _ = listener.accept()
            assert b"wait=25" in connection.recv(65_536)
            os.kill(process.pid, signal.SIGINT)
            assert process.wait() != 0
        connection.close()


def test_the_names_of_the_package_can_be_listed() -> None:
    assert {"open", "connect", "Message", "aio"} <= set(dir(restante))
    assert "connect" in dir(restante.aio)
