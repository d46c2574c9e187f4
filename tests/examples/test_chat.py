"""The chat of `examples/chat`, in real processes: two people, and a second device."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante import Message
from restante.server.serve import ServedHub, start
from restante.settings import Settings

CHAT = Path(__file__).parents[2] / "examples" / "chat" / "chat.py"
SETTINGS = Settings(partition_count=2, housekeeping_seconds=0)
SECONDS = 60


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS) as running:
        yield running


class Device:
    def __init__(self, url: str, me: str, friend: str, *more: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHAT), me, friend, "--hub", url, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1,
            env={"PYTHONIOENCODING": "utf-8"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def enter(self, line: str) -> None:
        self._in.write(line + "\n")

    def line(self) -> str:
        return self._out.readline().rstrip("\n")

    def lines(self, count: int) -> list[str]:
        return [self.line() for _ in range(count)]

    def until(self, wanted: str) -> None:
        while (line := self.line()) != wanted:
            assert line, f"it ended before {wanted!r}"

    def end(self) -> str:
        """The last line."""
        rest, _ = self._process.communicate(timeout=SECONDS)
        assert self._process.returncode == 0
        return rest.splitlines()[-1]

    def interrupt(self) -> tuple[int, str, str]:
        """Ctrl-C; the exit code, and what it still says."""
        self._process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """By itself: its input stays open."""
        code = self._process.wait(SECONDS)
        said, errors = self._process.communicate(timeout=SECONDS)
        return code, said, errors

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def devices() -> Iterator[list[Device]]:
    begun: list[Device] = []
    yield begun
    for device in begun:
        device.kill()


def test_two_people_talk_and_the_second_device_hears_it_all(served: ServedHub, devices: list[Device]) -> None:
    devices += [Device(served.url, "ada", "bob"), Device(served.url, "ada", "bob", "--device", "phone")]
    devices += [Device(served.url, "bob", "ada")]
    ada, phone, bob = devices
    assert [device.line() for device in devices] == ["* connected"] * 3
    ada.enter("hello bob")
    assert ada.lines(2) == ["✓ hello bob", "✓✓ hello bob"]
    assert bob.line() == "ada > hello bob"
    assert phone.line() == "me, elsewhere > hello bob"
    bob.enter("hello ada")
    assert [ada.line(), phone.line()] == ["bob > hello ada"] * 2
    assert bob.lines(2) == ["✓ hello ada", "✓✓ hello ada"]


def test_a_device_that_was_off_goes_on_where_it_was(served: ServedHub, devices: list[Device]) -> None:
    devices += [Device(served.url, "ada", "bob"), Device(served.url, "bob", "ada")]
    ada, bob = devices
    assert [device.line() for device in devices] == ["* connected"] * 2
    ada.enter("one")
    assert bob.line() == "ada > one"
    told = bob.end()
    assert told.startswith("* go on with --after ")
    ada.enter("two")
    ada.until("✓✓ two")
    devices.append(Device(served.url, "bob", "ada", "--after", told.split()[-1]))
    assert devices[-1].lines(2) == ["* connected", "ada > two"]


def test_other_things_in_the_mailbox_do_not_end_it(served: ServedHub, devices: list[Device]) -> None:
    devices += [Device(served.url, "ada", "bob")]
    assert devices[0].line() == "* connected"
    others = [{"text": "hello"}, {"lab": 7}, "text", None, b"\x00"]
    with restante.connect(served.url) as hub:
        hub.producer.send([Message(recipient="ada", origin="lab", data=data) for data in others])
    assert devices[0].lines(5) == ["lab > hello", *["lab > (not of a chat)"] * 4]


def test_nothing_is_missed_while_the_hub_is_served_anew(tmp_path: Path, devices: list[Device]) -> None:
    with start(tmp_path / "data", SETTINGS) as first:
        port = int(first.url.rpartition(":")[2])
        devices += [Device(first.url, "ada", "bob"), Device(first.url, "bob", "ada")]
        ada, bob = devices
        assert [device.line() for device in devices] == ["* connected"] * 2
    ada.until("* not connected (draining)")
    ada.enter("are you there?")
    with start(tmp_path / "data", SETTINGS, port=port):
        ada.until("✓✓ are you there?")
        bob.until("ada > are you there?")


def test_control_c_ends_it_without_a_trace_and_says_where_to_go_on(served: ServedHub, devices: list[Device]) -> None:
    devices += [Device(served.url, "ada", "bob", "--after", "0")]
    assert devices[0].line() == "* connected"
    code, said, errors = devices[0].interrupt()
    assert (code, errors) == (130, "")
    assert said.startswith("* go on with --after ")


@pytest.mark.parametrize(
    ("url", "me", "told"),
    [("http://127.0.0.1:9", "ada", "Nothing answers at"), (None, "", "must be text that is not blank")],
    ids=["no hub", "no name"],
)
def test_what_is_wrong_is_one_line(
    served: ServedHub, devices: list[Device], url: str | None, me: str, told: str
) -> None:
    devices += [Device(url or served.url, me, "bob")]
    code, _, errors = devices[0].ended()
    assert code == 1
    assert told in errors
    assert errors.count("\n") == 1
    assert errors.startswith("* ")
