"""The catalogue of `examples/catalog` under load, with a worker killed and one added meanwhile: nothing is lost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.catalog.crew import CHECKOUT, Crew
from examples.catalog.drive import drive, shown
from tests.examples.catalog_world import Caller
from tests.profiles import by_profile

SECONDS = 120
SETTINGS = {"RESTANTE_GROUPS__HEARTBEAT_SECONDS": "0.5", "RESTANTE_HEALTH__DISABLED": "deep_write"}


def test_a_worker_that_is_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    with Crew(tmp_path, SETTINGS) as crew:
        crew.start()
        driven = asyncio.run(drive(crew, users=20, seconds=by_profile(dev=4, ci=6)))
    assert driven.is_right, shown(driven)
    assert driven.sum.accepted == len(driven.answers.accepted) > 0
    assert driven.answers.errors == 0, shown(driven)
    assert driven.sum.poisoned == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_command_starts_everything_and_ctrl_c_ends_all_of_it(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "examples.catalog.run", "--folder", str(tmp_path)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = ""
        while "Ctrl-C ends" not in shown:
            line = process.stdout.readline()
            assert line, f"it ended by itself: {shown}"
            shown += line
        api = Caller(shown.split("catalogue", 1)[1].split("/catalogitem")[0].strip())
        assert api.get("/catalogitem").body == []
        workers = [int(text) for text in re.findall(r"process (\d+), (\d+)", shown)[0]]
        process.send_signal(number)
        assert process.wait(SECONDS) == 0
    assert [_is_there(worker) for worker in workers] == [False, False]
    with pytest.raises(OSError, match="refused"):
        api.get("/catalogitem")


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
