"""`restante serve` in a terminal: lines for people, a log as text. Elsewhere: one line, a log as JSON."""

from __future__ import annotations

import logging
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from restante.server.logs import JsonFormatter, TextFormatter, formatter
from restante.settings.server import LogFormat
from tests.cli.test_command_line import PLAIN


def test_a_terminal_is_told_where_everything_is_and_gets_the_log_as_text(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "restante.cli", "serve", "--data", "mail", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, env=PLAIN) as process:
        os.close(theirs)
        shown = _read_until(ours, "Ctrl-C ends the hub")
        process.send_signal(signal.SIGINT)
        ended = _read_until(ours, "restante.server: ended")
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert "Restante serves mail on http://127.0.0.1:" in shown
    assert str(tmp_path / "mail") in shown
    assert "/docs" in shown
    assert '{"time"' not in shown + ended
    assert "restante.server: ending" in ended


def _read_until(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown:
        read = os.read(terminal, 4_096)
        assert read, f"it ended by itself: {shown}"
        shown += read.decode()
    return shown


@pytest.mark.parametrize(
    ("form", "terminal", "expected"),
    [
        ("auto", True, TextFormatter),
        ("auto", False, JsonFormatter),
        ("json", True, JsonFormatter),
        ("text", False, TextFormatter),
    ],
)
def test_the_log_is_text_in_a_terminal_unless_the_settings_say_otherwise(
    form: LogFormat, terminal: bool, expected: type[logging.Formatter]
) -> None:
    assert isinstance(formatter(form, terminal=terminal), expected)
