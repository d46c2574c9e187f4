"""The processor time of a publish: what the kernel counts of a server, and the least that answers one."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from bench.bare_protocol import ANSWER
from bench.drivers.restante import bare_connections, is_answer
from bench.load import CONNECTIONS
from bench.mail import Mail
from bench.process import processor_seconds
from bench.server import Process, free_port, listening


def test_what_a_process_does_is_counted() -> None:
    before = processor_seconds(os.getpid())
    while processor_seconds(os.getpid()) < before + 0.03:
        pass


def test_of_a_process_that_has_ended_nothing_is_counted() -> None:
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", ""])
    os.waitpid(child, 0)
    assert processor_seconds(child) == 0


def test_the_bare_protocol_answers_what_a_publish_is_answered(tmp_path: Path) -> None:
    assert is_answer(ANSWER)
    root, port, mail = Path(__file__).parents[2], free_port(), Mail()
    process = Process([sys.executable, "-m", "bench.bare_protocol", str(port)], root, log=tmp_path / "log")
    try:
        process.wait_until(lambda: listening(port))
        with closing(bare_connections(port)) as connections:
            connections.prepare(mail.table(mail.newcomers(CONNECTIONS), 2 * CONNECTIONS))
            assert len(connections.run().latencies) == 2 * CONNECTIONS
    finally:
        process.stop(signal.SIGTERM)
