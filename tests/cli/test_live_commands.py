"""`restante collect --live` and `restante send --live`: what comes is printed at once, and what became of each line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

import pytest

from restante.cli.mailboxes.collect_live import collect_live
from restante.cli.shared import live_lines
from restante.model.publishing.message import Message, State
from tests.cli.places import HubPlace, Place, run

SECONDS = 60


class Command:
    """A command in a process of its own, line by line."""

    def __init__(self, place: HubPlace, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "restante.cli", *arguments, *place.options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in, self._out, self._error = self._process.stdin, self._process.stdout, self._process.stderr

    def line(self) -> str:
        line = self._out.readline()
        assert line, self._process.communicate(timeout=SECONDS)[1]
        return line.rstrip("\n")

    def told(self) -> str:
        """A line of standard error."""
        return self._error.readline().rstrip("\n")

    def enter(self, line: str) -> None:
        self._in.write(line + "\n")

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; gives the exit code, and what stands on standard error."""
        self._process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        _, told = self._process.communicate(timeout=SECONDS)
        return self._process.returncode, told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def post(place: Place, *texts: str) -> None:
    with place.opened() as hub:
        hub.producer.send([Message(recipient="ada", data={"text": text}) for text in texts])


def test_messages_are_printed_as_they_come_and_not_confirmed(hub_place: HubPlace) -> None:
    post(hub_place, "one", "two")
    with Command(hub_place, "collect", "ada", "--live", "--after", "0") as command:
        assert command.line().endswith('default/default  {"text":"one"}')
        assert command.line().endswith('{"text":"two"}')
        post(hub_place, "three")
        shown = command.line()
        assert shown.endswith('{"text":"three"}')
        code, told = command.interrupt()
    assert code == 0
    number = int(shown.split()[0])
    # Ctrl-C may come between the printing of a message and its counting: then it is shown again rather than missed.
    again = "messages shown. To go on: restante collect ada --live --after"
    assert told in {f"3 {again} {number}\n", f"2 {again} {number - 1}\n"}
    with hub_place.opened() as hub:
        assert {message.state for message in hub.recipient("ada").history().messages} == {State.WAITING}


def test_a_message_counts_as_shown_when_it_was_printed(
    hub_place: HubPlace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    post(hub_place, "one", "two")
    printed: list[bytes] = []

    def interrupted(content: bytes) -> None:
        if printed:
            raise KeyboardInterrupt
        printed.append(content)

    monkeypatch.setattr(live_lines, "write_output", interrupted)
    with hub_place.opened() as hub:
        collect_live(hub.recipient("ada"), after=0, text=False, as_json=False)
        first = hub.recipient("ada").history().messages[0].sequence_number
        collect_live(hub.recipient("ada"), after=0, text=False, as_json=False)
    again = "restante collect ada --live --after"
    assert capfd.readouterr().err.splitlines() == [
        f"1 message shown. To go on: {again} {first}",
        f"0 messages shown. To go on: {again} {(first or 0) - 1}",
    ]


def test_json_lines_are_as_over_http(hub_place: HubPlace) -> None:
    with hub_place.opened() as hub:
        hub.producer.send(
            [Message(recipient="ada", data={"text": "one"}), Message(recipient="ada", data=b"x", media_type="a/b")]
        )
    with Command(hub_place, "collect", "ada", "--live", "--after", "0", "--json") as command:
        got = [json.loads(command.line()) for _ in range(2)]
        command.interrupt()
    listed = hub_place.run("collect", "ada", "--json", "--no-confirm", "--max-messages", "2")
    assert got == [json.loads(line) for line in listed.stdout.splitlines()]


def test_text_is_the_data_alone(hub_place: HubPlace) -> None:
    with hub_place.opened() as hub:
        hub.producer.send([Message(recipient="ada", data=b"hello", media_type="text/plain")])
    with Command(hub_place, "collect", "ada", "--live", "--after", "0", "--text") as command:
        assert command.line() == "hello"


def test_two_people_chat(hub_place: HubPlace) -> None:
    with (
        Command(hub_place, "send", "--live", "--recipient", "bob", "--me", "ada") as ada,
        Command(hub_place, "send", "--live", "--recipient", "ada", "--me", "bob") as bob,
    ):
        assert ada.told() == "You are ada. What you type goes to bob; Ctrl-D ends it."
        assert bob.told() == "You are bob. What you type goes to ada; Ctrl-D ends it."
        ada.enter("hello bob")
        assert [ada.line(), ada.line()] == ["[sent] hello bob", "[processed] hello bob"]
        assert bob.line() == "ada: hello bob"
        with Command(hub_place, "send", "--live", "--recipient", "bob", "--me", "ada") as elsewhere:
            elsewhere.told()
            elsewhere.enter("also me")
            assert bob.line() == "ada: also me"
            assert ada.line() == "you, elsewhere, to bob: also me"
        bob.enter("hello ada")
        assert ada.line() == "bob: hello ada"
        assert [bob.line(), bob.line()] == ["[sent] hello ada", "[processed] hello ada"]


def test_a_chat_from_a_pipe_ends_when_all_is_stored(hub_place: HubPlace) -> None:
    result = hub_place.run("send", "--live", "--recipient", "bob", "--me", "ada", stdin=b"one\n\ntwo\n")
    assert result.exit_code == 0, result.output
    assert sorted(result.stdout.splitlines()) == ["[processed] one", "[processed] two", "[sent] one", "[sent] two"]
    with hub_place.opened() as hub:
        stored = hub.recipient("bob").history().messages
    assert [(message.data, message.media_type, message.properties) for message in stored] == [
        ("one", "text/plain", {"from": "ada"}),
        ("two", "text/plain", {"from": "ada"}),
    ]


def test_a_chat_as_json_names_ids(hub_place: HubPlace) -> None:
    result = hub_place.run("send", "--live", "--recipient", "ada", "--me", "ada", "--json", stdin=b"note\n")
    events = {(told := json.loads(line))["event"]: told for line in result.stdout.splitlines()}
    with hub_place.opened() as hub:
        (stored,) = hub.recipient("ada").history().messages
    assert events["sent"] == {"event": "sent", "id": stored.id}
    assert events["processed"] == {"event": "processed", "id": stored.id}


def test_a_lost_line_says_why(hub_place: HubPlace) -> None:
    result = hub_place.run("send", "--live", "--recipient", "b" * 300, "--me", "ada", stdin=b"one\n")
    assert "[invalid_message]" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("collect ada --after 5", "--live"),
        ("collect ada --live --follow", "--follow"),
        ("collect ada --live --to x", "--to"),
        ("collect ada --live --max-bundles 1", "--max-bundles"),
        ("collect ada --live --no-confirm", "--"),
        ("collect ada --live --origin o", "--origin"),
        ("collect ada --live --wait 3", "--wait"),
        ("collect ada --live --text --json", "--text"),
        ("send --live --me ada", "--recipient"),
        ("send --live --recipient ada", "--me"),
        ("send --me ada --recipient ada --text x", "--live"),
        ("send --live --recipient ada --me bob --text x", "--text"),
        ("send --live --recipient ada --me bob --dry-run", "--dry-run"),
        ("send file.jsonl --live --recipient ada --me bob", "FILE"),
    ],
)
def test_what_does_not_go_together_is_said(arguments: str, told: str) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_hub_that_is_not_there_is_an_error() -> None:
    result = run("collect", "ada", "--live", "--hub", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error unavailable: ")
