"""The program of "Reading along": killed at any moment and started again, its table says what the hub's history says."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
from restante import Message
from restante.client.surface.surface import Hub
from restante.server.serve import start

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "reading-along.md"
NAMES = ("alice", "bob", "carol", "dave", "erin")
CHILD = """
import os, signal, sys
import restante

url, path, after = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Killed(Deliveries):
    left = after

    def apply(self, partition, change):
        super().apply(partition, change)
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


with restante.connect(url) as hub:
    Killed(hub, path).run()
"""


def program() -> str:
    """The block of the page that has the program."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if "class Deliveries:" in block)
    return str(block)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    running = start(tmp_path / "data")
    yield running.url
    running.stop()


def run(url: str, folder: Path, *, killed_after: int = 0) -> int:
    """Run the program to its end, or until it has applied so many changes; gives its exit code."""
    script = folder / "deliveries.py"
    script.write_text(program() + CHILD, encoding="utf-8")
    command = [sys.executable, str(script), url, str(folder / "deliveries.db"), str(killed_after)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def letters(name: str, count: int, first: int) -> list[Message]:
    return [Message(recipient=name, id=f"00000000-0000-4000-8000-{first + n:012}", data=n) for n in range(count)]


def live_through_everything(hub: Hub, first: int) -> None:
    """Publish, collect, withdraw, set aside, release into the place and to the end, erase."""
    for number, name in enumerate(NAMES):
        hub.producer.send(letters(name, 4, first + 10 * number))
    ids = {name: [letter.id for letter in letters(name, 4, first + 10 * n)] for n, name in enumerate(NAMES)}
    alice, bob, carol = hub.recipient("alice"), hub.recipient("bob"), hub.recipient("carol")
    alice.withdraw(str(ids["alice"][2]))
    bob.set_aside(str(ids["bob"][0]))
    bob.release(str(ids["bob"][0]))
    carol.set_aside(str(ids["carol"][1]))
    for recipient in (alice, carol):
        bundle = recipient.peek()
        assert bundle is not None
        bundle.dequeue()
    carol.release(str(ids["carol"][1]))
    hub.recipient("dave").set_aside(str(ids["dave"][3]))
    hub.recipient("erin").erase()


def history(hub: Hub) -> set[tuple[str, int, str, str]]:
    """Everything that the hub says of its messages."""
    pages = [(name, hub.recipient(name).history(limit=1_000)) for name in NAMES]
    return {
        (name, m.sequence_number or 0, str(m.id), m.state.value)
        for name, page in pages
        for m in page.messages
        if m.state
    }


def kept(folder: Path) -> list[tuple[str, int, str, str]]:
    database = sqlite3.connect(folder / "deliveries.db")
    rows = database.execute("SELECT recipient, number, lower(hex(id)), state FROM deliveries").fetchall()
    database.close()
    return rows


def test_a_reader_that_is_killed_again_and_again_has_every_change_once(served: str, tmp_path: Path) -> None:
    with restante.connect(served) as hub:
        hub.producer.send(letters("alice", 3, 900))
        assert run(served, tmp_path) == 0
        live_through_everything(hub, 0)
        kills = [run(served, tmp_path, killed_after=after) for after in (1, 7, 3)]
        live_through_everything(hub, 100)
        kills += [run(served, tmp_path, killed_after=after) for after in (2, 9)]
        assert kills == [-signal.SIGKILL] * 5
        assert run(served, tmp_path) == 0
        rows = kept(tmp_path)
        told = {(name, number, key.replace("-", ""), state) for name, number, key, state in history(hub)}
    assert set(rows) == told
    assert len(rows) == len(told) == 3 + 2 * 16
    assert {state for *_, state in rows} == {"waiting", "collected", "withdrawn", "set_aside"}


def test_a_snapshot_and_then_the_feed_gives_the_same_table(served: str, tmp_path: Path) -> None:
    with restante.connect(served) as hub:
        live_through_everything(hub, 0)
        assert run(served, tmp_path) == 0
        live_through_everything(hub, 100)
        assert run(served, tmp_path) == 0
        told = {(name, number, key.replace("-", ""), state) for name, number, key, state in history(hub)}
    assert set(kept(tmp_path)) == told
