"""The harness of the campaigns that kill a process under load.

A campaign goes through many lives. In each of them a child works on the same data folder, prints a line of JSON for each
thing that it was answered, and is killed at some moment; the campaign's ledger takes down what the child said, and is then
checked against the folder. What one life left, the next goes on with.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

CHECKOUT = Path(__file__).parents[2]
LONG = bool(os.environ.get("RESTANTE_LONG"))
_PATIENCE_SECONDS = 120.0


class KeepsLedger(Protocol):
    def read(self, words: Any, /) -> None:
        """Take down one line of a child."""


Kept = TypeVar("Kept", bound=KeepsLedger)


def folders(kills: int, *, per_folder: int) -> range:
    """The folders of a long campaign: one of them where it is only collected, not run."""
    return range(-(-kills // per_folder) if LONG else 1)


def kill_often(
    child: str,
    ledger: Kept,
    arguments: Callable[[int], Sequence[str]],
    check: Callable[[random.Random], None],
    *,
    kills: int,
    seed: int,
    lines_max: int,
    lines_first: int = 1,
    pause_max: float = 0.003,
) -> Kept:
    """Run the module `child` as often as it is to be killed: after some lines, and a pause too short to sleep for.

    Most lives end after up to `lines_max` lines, when all threads of the child are well under way; some end after the
    first `lines_first`.
    """
    generator = random.Random(seed)
    for life in range(1, kills + 1):
        lines = generator.choice([lines_first, *(generator.randrange(lines_max) for _ in range(4))])
        command = [sys.executable, "-m", child, *arguments(life)]
        for words in live_and_die(command, lines, generator.random() * pause_max):
            ledger.read(words)
        check(generator)
    return ledger


def live_and_die(command: Sequence[str], lines: int, pause_seconds: float = 0.0) -> list[Any]:
    """The whole lines that the child said before it was killed, read as JSON."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        pause(pause_seconds)
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL, said[-1:]
    return [json.loads(line) for line in said if line.endswith(b"\n")]


class Crowd:
    """Processes that work side by side, of which a test kills some, stops some for long, and ends others in order."""

    def __init__(self, **environment: str) -> None:
        self._environment = os.environ | environment
        self.running: list[subprocess.Popen[bytes]] = []

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A process of Python, with these arguments."""
        process = subprocess.Popen([sys.executable, *arguments], cwd=CHECKOUT, env=self._environment)
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.running.remove(process)

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """In order; gives the exit code."""
        process.terminate()
        code = process.wait(_PATIENCE_SECONDS)
        self.running.remove(process)
        return code

    def stop_for_long(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for process in tuple(self.running):
            process.send_signal(signal.SIGCONT)
            self.kill(process)


def pause(seconds: float) -> None:
    """Wait so shortly that only a busy wait is exact."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
