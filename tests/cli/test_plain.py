"""What senders wrote takes no effect on a terminal, and is shown; into files and pipes data goes as it is."""

from __future__ import annotations

import ast
import json
import logging
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import restante.cli
from restante.cli import print_error
from restante.cli.batches.batches_watch import shown
from restante.cli.shared.output import listing
from restante.cli.shared.plain import say, say_warnings
from restante.errors import InvalidSettings
from restante.model.columns.plain_text import plain, plain_output
from restante.model.publishing.message import Message
from restante.server.logs import JsonFormatter, TextFormatter
from tests.cli.places import FolderPlace, Place, run
from tests.cli.test_command_line import PLAIN

EVIL = "\x1b]0;x\x07[red]\x9b2J\u202e\n!"
SHOWN = r"\x1b]0;x\x07[red]\u009b2J\u202e\n!"


def is_harmless(text: str) -> bool:
    return not any(bad in text for bad in "\x1b\x07\x9b\u202e") and "\n!" not in text


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x2028, 0x202E, 0x2066, 0xD800])
def test_a_character_that_takes_effect_is_shown_by_its_number(code: int) -> None:
    text = plain(f"a{chr(code)}b")
    assert text.isprintable()
    assert ast.literal_eval(f'"{text}"') == f"a{chr(code)}b"


def test_other_text_stays_as_it_is() -> None:
    text = r"Zoë, 😀‍👩, [bold]\x1b, العربية"
    assert plain(text) == text
    assert plain_output(f"{text}\r\n\t{text}\n".encode()) == f"{text}\r\n\t{text}\n".encode()
    assert (
        plain_output(b"\xff\xfe \x1b \xc2\x9b \x9b \xe2\x80\xae \r.")
        == rb"\xff\xfe".decode("unicode_escape").encode("latin-1") + rb" \x1b \u009b \x9b \u202e \r."
    )


def test_lines_tables_errors_and_bars_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL, f"and {EVIL}")
    listing(("name", "number"), [(EVIL, "1")], right=("number",))
    print_error(InvalidSettings(f"Refused:\n{EVIL}\nb", problems=[EVIL, "b"]))
    said, told = capsys.readouterr()
    assert said.startswith(f"{SHOWN} and {SHOWN}\n")
    assert said.count(SHOWN) == 3
    assert told == f"error invalid_settings: Refused:\n{SHOWN}\nb\n"
    assert is_harmless(said + told)


def test_no_command_prints_past_it() -> None:
    folder = Path(str(restante.cli.__file__)).parent
    for path in folder.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        assert "print" not in names or path.name == "plain.py", f"{path.name}: use say"


def test_names_of_messages_batches_and_consignments_are_harmless_in_every_view(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send(Message(recipient="ada", origin=EVIL, kind=EVIL, document_type=EVIL, data=EVIL))
        batch = hub.batches.open(key=EVIL)
        hub.consignment(EVIL).discard()
        assert shown(batch.status())["description"] == SHOWN
    views = {
        command: run(*command.split(), *place.options).output
        for command in (
            "explain ada",
            "history ada",
            "recipients",
            "batches list",
            f"batches status {batch.id}",
            f"batches delete {batch.id} --dry-run",
            "consignments list",
            "collect ada --no-confirm",
        )
    }
    for command, output in views.items():
        assert is_harmless(output), command
    told = {command for command, output in views.items() if SHOWN in output.replace("\n", "")}
    assert told == set(views) - {"recipients"}
    found = json.loads(run("batches", "list", "--json", *place.options).stdout)
    assert found["batches"][0]["key"] == EVIL


@pytest.mark.parametrize("command", ["explain", "collect", "history"])
def test_a_name_given_to_a_command_is_harmless_in_its_answer(place: Place, command: str) -> None:
    answer = run(command, EVIL, *place.options)
    assert answer.exit_code != 0
    assert is_harmless(answer.output)


def test_the_name_of_a_file_is_harmless_in_what_is_said_of_its_use(tmp_path: Path) -> None:
    written = tmp_path / f"a{EVIL.replace('/', '')}.none"
    written.touch()
    answer = run("send", str(written), "--dry-run")
    assert answer.exit_code == 2
    assert is_harmless(answer.output)


def on_a_terminal(*arguments: str) -> bytes:
    """What a command writes to a terminal."""
    inner, outer = pty.openpty()
    command = [sys.executable, "-m", "restante.cli", *arguments]
    with subprocess.Popen(command, stdout=outer, stderr=subprocess.DEVNULL, env=PLAIN | {"TERM": "dumb"}):
        os.close(outer)
        written = b""
        with suppress(OSError):  # Nobody has the other end any more.
            while part := os.read(inner, 65_536):
                written += part
    os.close(inner)
    return written


def test_data_is_exact_in_a_pipe_and_harmless_on_a_terminal(folder_place: FolderPlace) -> None:
    with folder_place.opened() as hub:
        hub.producer.send(
            Message(recipient="ada", origin="x\x9b", data=b"\x1b[2J\xc2\x9b1\t\n", media_type="text/plain")
        )
    text = ("collect", "ada", "--no-confirm", "--text", *folder_place.options)
    assert run(*text).stdout_bytes == b"\x1b[2J\xc2\x9b1\t\n\n"
    assert rb"\x1b[2J\u009b1" in on_a_terminal(*text)
    lines = on_a_terminal("collect", "ada", "--no-confirm", "--json", *folder_place.options)
    assert json.loads(lines.splitlines()[0])["origin"] == "x\x9b"
    assert b"\xc2\x9b" not in lines


@pytest.mark.parametrize(
    "mistake", [(EVIL,), (f"--{EVIL}",), ("collect", "ada", EVIL), ("collect", f"--wait={EVIL}"), ("tokens", EVIL)]
)
def test_a_mistake_in_a_command_is_said_harmlessly(mistake: tuple[str, ...]) -> None:
    answer = run(*mistake)
    assert answer.exit_code == 2
    assert is_harmless(answer.output)


def test_a_warning_that_nobody_else_prints_is_harmless(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    say_warnings()
    logger = logging.getLogger("restante.bridges.tests")
    monkeypatch.setattr(logger, "propagate", False)
    logger.warning("The hub does not answer: %s", EVIL)
    assert capsys.readouterr().err == f"The hub does not answer: {SHOWN}\n"


@pytest.mark.parametrize("form", [TextFormatter(), JsonFormatter()])
def test_an_exception_in_the_log_is_harmless(form: logging.Formatter) -> None:
    try:
        raise ValueError(EVIL)
    except ValueError as error:
        told = (type(error), error, error.__traceback__)
    line = form.format(logging.LogRecord("restante", logging.ERROR, "", 0, f"It failed: {EVIL}", (), told))
    assert not any(bad in line for bad in "\x1b\x07\x9b\u202e")


def test_a_line_of_the_log_for_people_is_harmless() -> None:
    record = logging.LogRecord("restante", logging.WARNING, "", 0, "Origin %s did not", (EVIL,), None)
    assert is_harmless(TextFormatter().format(record))
    assert SHOWN in TextFormatter().format(record)
