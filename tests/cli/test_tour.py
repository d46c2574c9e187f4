"""`restante tour`: the sample night, and what it would say if something went wrong."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import restante
from bench.server import LOCALHOST, free_port
from restante.cli import app
from restante.cli.serving import tour as tour_command
from restante.cli.serving.tour_summary import called, print_addresses
from restante.model.figures import counted, duration, size
from restante.samples import sample_night
from restante.samples.night_steps import Advance, NightResult
from restante.samples.night_workers import ACTIONS, THINGS, NightWork
from restante.samples.sample_night import SampleMail, play
from restante.settings import Settings
from tests.cli.test_command_line import PLAIN
from tests.waiting import wait_until

STEPS = ["publish", "pushed live", "publish a parcel again", "collect and confirm", "the late ones come", "act"]


def tour(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["tour", "--once", *arguments])


@cache
def large_tour() -> Any:
    """One that publishes two parcels, so that a whole one is published again; looked at by several tests."""
    return tour("--messages", "12000", "--recipients", "30")


@cache
def small_tour(recipients: int) -> Any:
    return tour("--messages", "30", "--recipients", str(recipients), "--json")


@pytest.mark.wire
def test_a_tour_on_several_processes_goes_as_on_one() -> None:
    result = tour("--messages", "600", "--recipients", "30", "--shards", "2", "--doors", "1", "--json")
    assert result.exit_code == 0, result.output


@pytest.mark.wire
def test_a_tour_that_is_ended_by_a_signal_ends_its_processes(tmp_path: Path) -> None:
    port = free_port()
    options = ("--data", str(tmp_path / "data"), "--port", str(port), "--shards", "2", "--messages", "5000000")
    with subprocess.Popen([sys.executable, "-m", "restante", "tour", *options], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: is_served(port), "the hub of the tour answers")
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
    assert not is_served(port)


def is_served(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOCALHOST, port)) == 0


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert tour("--messages", "30", "--recipients", "3").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_each_step() -> None:
    result = large_tour()
    assert result.exit_code == 0, result.output
    for step in STEPS:
        assert step in result.output
    assert "12,000 messages for 30 recipients" in result.output
    assert "all 10,000 known by their ids" in result.output
    assert "nothing_waiting" in result.output
    assert re.search(
        r"^batch  +complete .* after it was sealed: 12,000 messages collected by 30 ", result.output, re.MULTILINE
    )
    assert re.search(r"; night-[0-9a-z]+-000029 was last *$", result.output, re.MULTILINE)
    assert "Every message arrived exactly once and in order" in result.output


def test_the_tour_says_who_is_late_and_why() -> None:
    result = large_tour()
    assert "Who is late, and why? 1,000 of 12,000 messages wait" in result.output
    table = result.output.partition("Who is late")[2].splitlines()
    told = [re.sub(r"night-[0-9a-z]+-", "", " ".join(line.split())) for line in table if " night-" in line]
    assert told[0] == "000027 400 has not come: its messages are ready"
    assert re.fullmatch(
        r"000028 400 peeked at \d\d:\d\d:\d\d and has not confirmed: its bundle of 400 is open", told[1]
    )
    assert told[2] == "000029 200 collected 200 messages, then stopped: the rest is ready"


@pytest.mark.parametrize("recipients", [1, 2, 3])
def test_a_tour_of_few_recipients_has_few_that_are_late(recipients: int) -> None:
    result = small_tour(recipients)
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["late"]) == recipients - 1


def test_nothing_is_broken_in_mid_word_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = tour("--messages", "600", "--recipients", "30").output
    assert max(map(len, shown.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "300")
    known = set(_numberless(tour("--messages", "600", "--recipients", "30").output))
    assert set(_numberless(shown)) <= known


def _numberless(text: str) -> list[str]:
    """The words of a tour, without its figures and names, which differ from run to run."""
    return [word for word in text.split() if not re.search(r"\d|─", word)]


def test_the_night_as_json(tmp_path: Path) -> None:
    result = tour("--messages", "300", "--recipients", "400", "--json", "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    night = json.loads(result.stdout)
    assert [step["step"] for step in night["steps"]] == [*STEPS[:4], "act"], (
        "the last recipients have no mail this time"
    )
    pushed = night["steps"].pop(1)
    assert pushed["messages"] == 3, "one for each of the three who looked on"
    assert all(step["messages_per_second"] > 0 for step in night["steps"])
    assert [step["messages"] for step in night["steps"]] == [300, 300, 300, 500]
    assert night["duplicates"] == 300
    assert night["bundles"] == 300
    batch = night["batch"]
    assert (batch["state"], batch["items"], batch["collected"], batch["duplicates"]) == ("complete", 300, 300, 300)
    assert batch["duplicates_waiting"] == 0
    assert night["last"].startswith(f"{batch['key']}-")
    assert night["wrong"] == []
    assert night["hub"].startswith("http://127.0.0.1:")
    assert night["stored_bytes"] > 300 * sample_night.DATA_BYTES


def test_night_after_night_is_kept_in_the_same_folder_and_is_sound(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for _ in range(2):
        result = tour("--messages", "500", "--recipients", "5", "--data", str(folder))
        assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, ["doctor", str(folder)]).exit_code == 0
    with restante.open(folder) as hub:
        assert sum(status.visible_sequence for status in hub.partitions()) >= 1_000
        assert list(hub.groups()) == []


def test_what_an_interrupted_night_left_is_not_in_the_way(tmp_path: Path) -> None:
    post = SampleMail(messages=50, recipients=3)
    with restante.open(tmp_path) as hub:
        hub.producer.send(post.parcel(0))
        hub.producer.send(restante.Message(recipient="alice", data=b"somebody else's"))
    assert tour("--messages", "60", "--recipients", "3", "--data", str(tmp_path)).exit_code == 0
    with restante.open(tmp_path) as hub:
        assert sum(status.waiting for status in hub.partitions()) == 51


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine")
    assert tour("--data", str(tmp_path)).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_hub_stays_up_until_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    options = ["--messages", "300", "--recipients", "5", "--data", str(tmp_path / "data"), "--port", "0"]
    command = [sys.executable, "-m", "restante.cli", "tour", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=PLAIN) as process:
        assert process.stdout is not None
        shown = ""
        while "Ctrl-C ends it" not in shown:
            line = process.stdout.readline()
            assert line, f"it ended by itself: {shown}"
            shown += line
        metrics = next(line.split()[1] for line in shown.splitlines() if line.startswith("metrics "))
        with urllib.request.urlopen(metrics, timeout=30) as answer:
            assert b"restante_" in answer.read()
        process.send_signal(number)
        assert process.wait() == 0
    assert "/docs" in shown
    assert "tour --spark" in shown
    assert CliRunner().invoke(app, ["doctor", str(tmp_path / "data")]).exit_code == 0


def test_a_port_that_is_taken_is_an_error_only_if_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = tour("--messages", "10", "--recipients", "2", "--port", str(port))
        assert result.exit_code == 1
        assert result.stderr.startswith("error invalid_request: ")
        monkeypatch.setattr(tour_command, "_PORT", port)
        with tour_command._hub_on(tmp_path / "data", None, 1, 1) as (url, _):
            assert not url.endswith(f":{port}")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--readings", "10"], "Only Spark settles readings: add --spark."),
        (["--spark", "--messages", "10"], "The Spark night makes its own messages: give --readings."),
    ],
)
def test_options_of_the_other_night_are_not_understood(tmp_path: Path, arguments: list[str], told: str) -> None:
    result = tour("--data", str(tmp_path / "data"), *arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "data").exists()


@contextmanager
def watch(name: str, total: int) -> Iterator[Advance]:
    done: list[int] = []
    yield done.append
    assert sum(done) == total, f"{name} says when it is done"


def test_a_message_that_does_not_arrive_is_noticed(tmp_path: Path) -> None:
    post = SampleMail(messages=50, recipients=3)
    with restante.open(tmp_path) as hub:
        hub.producer.send(post.parcel(0).slice(0, 49))
        one = sample_night._Round(hub, post.names, lambda done: None)
        one.walk()
    twice = [*one.places, np.array([7])]
    assert list(sample_night._missing(twice, 50)) == [
        "1 message never arrived, the first at place 49.",
        "1 message arrived more than once, the first at place 7.",
    ]


def test_a_batch_that_is_not_complete_is_noticed(tmp_path: Path) -> None:
    post, night = SampleMail(messages=50, recipients=3), NightResult(messages=50, recipients=3)
    with restante.open(tmp_path) as hub:
        batch = hub.batches.open()
        hub.producer.send(post.parcel(0).slice(0, 49), batch=batch.id)
        batch.seal()
        sample_night._complete(sample_night._Stage(hub, post, batch, night, watch))
    assert night.wrong == [
        "The batch is not complete: 49 of 49 messages are pending.",
        "The batch counts 49 messages, 0 collected and 0 duplicates.",
    ]


def test_mail_out_of_order_is_noticed(tmp_path: Path) -> None:
    post = SampleMail(messages=40, recipients=1)
    with restante.open(tmp_path) as hub:
        hub.producer.send(post.parcel(0).slice(20))
        hub.producer.send(post.parcel(0).slice(0, 20))
        one = sample_night._Round(hub, post.names, lambda done: None)
        one.walk()
    assert one.wrong == [f"{post.names[0]} got its invoices out of order."]


def test_the_same_parcel_is_the_same_each_time() -> None:
    post = SampleMail(messages=25, recipients=4)
    assert post.parcel(0).equals(post.parcel(0))
    assert not post.parcel(0)["id"].equals(SampleMail(messages=25, recipients=4, seed=1).parcel(0)["id"])


def test_every_step_says_when_it_is_done(tmp_path: Path) -> None:
    with restante.open(tmp_path, settings=Settings(filing=False)) as hub:
        night = play(hub, SampleMail(messages=100, recipients=10), watch)
    assert night.wrong == []


def test_a_night_gone_wrong_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_night, "_missing", lambda places, messages: ["3 messages never arrived."])
    result = tour("--messages", "10", "--recipients", "2")
    assert result.exit_code == 1
    assert "Not as it should be" in result.output
    assert "3 messages never arrived." in result.output


def test_numbers_are_shown_for_people() -> None:
    assert counted(1, "message") == "1 message"
    assert counted(12_000, "message") == "12,000 messages"
    assert [size(count) for count in (7, 7_300, 27_400_000, 5e15)] == ["7 B", "7.3 kB", "27.4 MB", "5,000.0 TB"]
    assert [duration(seconds) for seconds in (0.0123, 3.456)] == ["12 ms", "3.46 s"]


@pytest.mark.parametrize("has_console", [True, False])
def test_the_addresses_end_with_that_of_the_console_if_there_is_one(tmp_path: Path, *, has_console: bool) -> None:
    printed = StringIO()
    print_addresses(Console(file=printed, width=120), "http://127.0.0.1:8470", tmp_path, has_console=has_console)
    last = printed.getvalue().partition("\n\n")[0].splitlines()[-1]
    assert last.endswith("http://127.0.0.1:8470/console") is has_console


def test_commands_to_copy_are_called_as_the_tour_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("installed", "my checkout"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "restante").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "installed"))
    assert called(Path("restante")) == "restante"
    assert called(tmp_path / "installed" / "restante") == "restante"
    assert called(tmp_path / "my checkout" / "restante") == "'my checkout/restante'"
    assert called(Path(".venv/bin/restante")) == ".venv/bin/restante"
    monkeypatch.setattr(sys, "executable", "/opt/python")
    assert called(Path("/elsewhere/restante/__main__.py")) == "/opt/python -m restante"


def test_a_worker_is_replaced_and_each_action_is_done() -> None:
    shown = small_tour(3)
    act = json.loads(shown.stdout)["steps"][-1]
    found = re.fullmatch(
        r"a worker did (\d+) and was replaced by another, which did the rest; each thing in its order", act["detail"]
    )
    assert found is not None
    assert act["messages"] // 3 <= int(found[1]) <= act["messages"]


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([0, 50, 100], None),
        ([0, 50, 50, 100], None),
        ([0, 100], "Not done: 1 action."),
        ([0, 100, 50], "out of order"),
    ],
)
def test_actions_that_are_missing_or_out_of_order_would_be_told(numbers: list[int], told: str | None) -> None:
    work = NightWork("night")
    for number in range(ACTIONS):
        work.done[f"night-{number % THINGS}"].append(number)
    work.done["night-0"][:3] = numbers
    assert (told is None) == (work.wrong == [])
    assert told is None or told in work.wrong[0]
