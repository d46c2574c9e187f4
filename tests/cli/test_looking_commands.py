"""`restante explain`, `recipients`, `partitions` and `bench`: looking at a hub, and emptying a mailbox by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from restante.calls.mailboxes import PartitionOf
from restante.calls.producers import OpenLink
from restante.calls.publishing import Publish
from restante.cli.mailboxes.history import StateName
from restante.errors import ProducerDisconnected
from restante.hub.door.hub import OpenHub
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message, State
from restante.server.serve import start
from restante.settings import Settings
from tests.cli.places import Place, run


@pytest.fixture
def filled(place: Place) -> Place:
    with place.opened() as hub:
        for name, count in (("ada", 3), ("bob", 5), ("cara", 1)):
            hub.producer.send([Message(recipient=name, kind="letter", data=b"x") for _ in range(count)])
        hub.producer.send(Message(recipient="ada", kind="invoice", data=b"x"))
    return place


def states(place: Place, recipient: str) -> list[State | None]:
    with place.opened() as hub:
        return [message.state for message in hub.recipient(recipient).history().messages]


def test_explain_says_what_waits_and_exits_with_0(filled: Place) -> None:
    result = filled.run("explain", "ada")
    assert result.exit_code == 0
    assert result.stdout.startswith("ada: ready.")
    assert "letter" in result.stdout
    assert "invoice" in result.stdout
    answer = filled.answer("explain", "ada")
    assert answer["reason"] == "ready"
    assert {(one["kind"], one["messages"]) for one in answer["waiting"]} == {("letter", 3), ("invoice", 1)}


def test_explain_names_the_open_bundle(filled: Place) -> None:
    with filled.opened() as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
    result = filled.run("explain", "ada", "--origin", "default")
    assert bundle.bundle_id in result.stdout


def test_explain_exits_with_3_when_nothing_is_there(filled: Place) -> None:
    result = filled.run("explain", "nobody")
    assert result.exit_code == 3
    assert "recipient_unknown" in result.stdout


def test_recipients_are_listed_in_the_order_asked_for(filled: Place) -> None:
    by_waiting = filled.answer("recipients")["recipients"]
    assert [(one["recipient"], one["waiting"]) for one in by_waiting] == [("bob", 5), ("ada", 4), ("cara", 1)]
    by_age = filled.answer("recipients", "--order", "oldest", "--limit", "2")["recipients"]
    assert [one["recipient"] for one in by_age] == ["ada", "bob"]
    shown = filled.run("recipients").stdout
    assert shown.index("bob") < shown.index("ada") < shown.index("cara")


def test_more_recipients_than_a_page_holds(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send([Message(recipient=f"r{number}", data=b"x") for number in range(1_200)])
    listed = place.answer("recipients", "--limit", "1100")["recipients"]
    assert len({one["recipient"] for one in listed}) == 1_100


def test_nobody_has_mail(place: Place) -> None:
    assert place.run("recipients").stdout == "Nobody has waiting messages.\n"


def test_partitions_add_up(filled: Place) -> None:
    listed = filled.answer("partitions")["partitions"]
    assert [one["partition"] for one in listed] == [0, 1, 2, 3]
    assert sum(one["waiting"] for one in listed) == 10
    assert "10 messages waiting in 4 partitions." in filled.run("partitions").stdout


@pytest.fixture
def numbered(tmp_path: Path) -> Iterator[tuple[OpenHub, tuple[str, ...]]]:
    """A hub in which producers have published by numbers, and what leads a command to it."""
    with start(tmp_path / "data", Settings(partition_count=4, housekeeping_seconds=0)) as running:
        hub = running.desk.hub
        for recipient, group, level in (("ada", 2**63 - 1, 0), ("ada", 7, 1), ("bob", 7, 0)):
            home = hub.call(PartitionOf(recipient))
            message = Message(recipient=recipient, data=b"x")
            for _ in range(2):
                numbers = ProducerNumbers(group=group, owner_level=level, published_sequence=0)
                hub.call(Publish.of([message], partition=home, producer=numbers))
        with pytest.raises(ProducerDisconnected):
            hub.call(OpenLink(hub.call(PartitionOf("ada")), producer_group=7, owner_level=0))
        hub.call(OpenLink(hub.call(PartitionOf("bob")), producer_group=8))
        yield hub, ("--hub", running.url)


def test_producers_are_shown_with_their_numbers_and_what_they_met_with(
    numbered: tuple[OpenHub, tuple[str, ...]],
) -> None:
    hub, options = numbered
    ada, bob = hub.call(PartitionOf("ada")), hub.call(PartitionOf("bob"))
    assert ada != bob
    shown = run("partitions", "producers", *options)
    assert shown.exit_code == 0, shown.output
    lines = [words for line in shown.stdout.splitlines() if (words := line.split()) and words[0].isdecimal()]
    told = {(line[0], line[1]): (line[2], line[3], *line[-2:]) for line in lines}
    assert told == {
        (str(ada), "7"): ("1", "0", "1", "1"),
        (str(ada), str(2**63 - 1)): ("0", "0", "1", "0"),
        (str(bob), "7"): ("0", "0", "1", "0"),
        (str(bob), "8"): ("0", "–", "0", "0"),
    }


def test_producers_of_one_partition_as_json(numbered: tuple[OpenHub, tuple[str, ...]]) -> None:
    hub, options = numbered
    home = hub.call(PartitionOf("ada"))
    listed = json.loads(run("partitions", "producers", str(home), "--json", *options).stdout)["producers"]
    assert [(one["partition"], one["producer_group"]) for one in listed] == [(home, 7), (home, 2**63 - 1)]
    assert {one["fenced_attempts"] for one in listed} == {0, 1}
    few = run("partitions", "producers", "--limit", "2", *options)
    assert "There may be more" in few.stdout


def test_producers_of_a_folder_and_of_a_partition_that_there_is_not(filled: Place) -> None:
    assert filled.run("partitions producers").stdout == "No producer numbers what it publishes.\n"
    assert filled.answer("partitions producers") == {"producers": []}
    unknown = filled.run("partitions producers", "4")
    assert (unknown.exit_code, unknown.stderr.split(":")[0]) == (1, "error partition_unknown")


def test_a_purge_is_tried_first_and_then_done(filled: Place) -> None:
    dry = filled.answer("recipients purge", "ada", "--kind", "letter", "--dry-run")
    assert (dry["messages"], dry["dry_run"]) == (3, True)
    assert states(filled, "ada") == [State.WAITING] * 4
    assert filled.answer("recipients purge", "ada", "--kind", "letter", "--yes")["messages"] == 3
    assert states(filled, "ada") == [State.WITHDRAWN] * 3 + [State.WAITING]


def test_a_purge_up_to_a_time(filled: Place) -> None:
    for days, messages in ((-1, 0), (1, 5)):
        until = (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S")
        assert filled.answer("recipients purge", "bob", "--before", until, "--dry-run")["messages"] == messages


@pytest.mark.parametrize("command", ["purge", "erase"])
def test_what_destroys_asks_first(filled: Place, command: str) -> None:
    which = ["--all"] if command == "purge" else []
    result = filled.run(f"recipients {command}", "ada", *which, stdin=b"n\n")
    assert result.exit_code == 1
    assert "4 messages of ada" in result.stderr
    assert states(filled, "ada") == [State.WAITING] * 4
    assert filled.run(f"recipients {command}", "ada", *which, stdin=b"y\n").exit_code == 0
    assert State.WAITING not in states(filled, "ada")


def test_an_erasure_takes_the_history_too(filled: Place) -> None:
    assert filled.answer("recipients erase", "ada", "--dry-run")["messages"] == 4
    assert filled.run("recipients erase", "ada", "--yes").stdout == "4 messages of ada erased.\n"
    assert states(filled, "ada") == []


def test_one_message_is_withdrawn(filled: Place) -> None:
    with filled.opened() as hub:
        (message,) = hub.recipient("cara").history().messages
    assert filled.answer("recipients withdraw", "cara", str(message.id), "--dry-run")["messages"] == 1
    assert states(filled, "cara") == [State.WAITING]
    assert filled.run("recipients withdraw", "cara", str(message.id)).exit_code == 0
    assert states(filled, "cara") == [State.WITHDRAWN]
    unknown = filled.run("recipients withdraw", "cara", "00000000-0000-0000-0000-000000000000")
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("error message_unknown: ")


def test_one_message_is_set_aside_and_released(filled: Place) -> None:
    with filled.opened() as hub:
        (message,) = hub.recipient("cara").history().messages
    assert filled.answer("recipients set-aside", "cara", str(message.id))["messages"] == 1
    assert states(filled, "cara") == [State.SET_ASIDE]
    assert filled.run("recipients release", "cara", str(message.id)).stdout == "1 message of cara released.\n"
    assert states(filled, "cara") == [State.WAITING]


def test_the_question_counts_one_message_as_one(filled: Place) -> None:
    for command in (["purge", "--all"], ["erase"]):
        assert "1 message of cara" in filled.run(f"recipients {command[0]}", "cara", *command[1:], stdin=b"n\n").stderr


def test_a_purge_of_nothing_in_particular_says_what_to_do(filled: Place) -> None:
    result = filled.run("recipients purge", "ada", "--yes")
    assert result.exit_code == 2
    assert "--all" in result.stderr
    assert states(filled, "ada") == [State.WAITING] * 4


def test_a_purge_up_to_a_time_heeds_its_zone(filled: Place) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%S")
    for zone, messages in (("Z", 5), ("+01:00", 0), ("-01:00", 5)):
        found = filled.answer("recipients purge", "bob", "--before", f"{soon}{zone}", "--dry-run")
        assert found["messages"] == messages


def test_history_says_what_collect_says(filled: Place) -> None:
    shown = filled.run("history", "ada", "--json")
    assert shown.exit_code == 0
    collected = filled.run("collect", "ada", "--json").stdout.splitlines()
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [json.loads(line) for line in collected]
    after = [json.loads(line) for line in filled.run("history", "ada", "--json").stdout.splitlines()]
    assert {one["state"] for one in after} == {"collected"}


def test_history_is_chosen_by_state_number_and_count(filled: Place) -> None:
    with filled.opened() as hub:
        messages = hub.recipient("ada").history().messages
        hub.recipient("ada").withdraw(str(messages[1].id))
    for arguments, expected in (
        (["--state", "withdrawn"], [messages[1]]),
        (["--after", str(messages[1].sequence_number)], messages[2:]),
        (["--limit", "2"], messages[:2]),
    ):
        lines = filled.run("history", "ada", "--json", *arguments).stdout.splitlines()
        assert [json.loads(line)["id"] for line in lines] == [message.id for message in expected]
    told = filled.run("history", "ada", "--limit", "2").stdout
    assert f"--after {messages[1].sequence_number}" in told
    assert "withdrawn" in told


def test_history_goes_on_over_its_pages(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send([Message(recipient="ada", data=b"x") for _ in range(2_100)])
    lines = place.run("history", "ada", "--json", "--limit", "2050").stdout.splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 2_050


def test_history_of_one_message_and_of_none(filled: Place) -> None:
    with filled.opened() as hub:
        (message,) = hub.recipient("cara").history().messages
    (line,) = filled.run("history", "cara", str(message.id), "--json").stdout.splitlines()
    assert json.loads(line)["id"] == message.id
    assert filled.run("history", "cara", "00000000-0000-0000-0000-000000000000").exit_code == 1
    assert filled.run("history", "cara", str(message.id), "--state", "waiting").exit_code == 2
    assert filled.run("history", "nobody").exit_code == 3


def test_history_knows_every_state_but_that_of_what_is_not_published_yet() -> None:
    assert [state.value for state in StateName] == [state.value for state in State if state is not State.DELAYED]


def test_a_bench_measures_and_leaves_nothing_behind(filled: Place) -> None:
    answer = filled.answer("bench", "--messages", "6000", "--small", "20")
    measured = {one["what"]: one for one in answer["measured"]}
    assert {name: one["messages"] for name, one in measured.items()} == {
        "publish in bulk": 6_000,
        "publish one by one": 20,
        "peek": 60_000,
        "dequeue": 6_000,
    }
    assert all(0 < one["p50_seconds"] <= one["p99_seconds"] for one in measured.values())
    with filled.opened() as hub:
        assert sum(status.waiting for status in hub.partitions()) == 10
        names = [one.recipient for one in hub.recipients().recipients]
    assert sorted(names) == ["ada", "bob", "cara"]


def test_a_bench_shows_a_table(place: Place) -> None:
    result = place.run("bench", "--messages", "100", "--small", "3")
    assert result.exit_code == 0, result.output
    assert "publish in bulk" in result.stdout
    assert "p99" in result.stdout


@pytest.mark.parametrize(
    "command",
    ["explain ada", "history ada", "collect ada", "recipients", "partitions", "bench", "partitions producers"],
)
def test_a_mistyped_folder_is_an_error_and_is_not_made(tmp_path: Path, command: str) -> None:
    result = run(*command.split(), "--data", str(tmp_path / "typo"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert list(tmp_path.iterdir()) == []
