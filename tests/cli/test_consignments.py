"""`restante send --consignment` and `restante consignments`: files that are delivered at one moment, and once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from restante.cli.consignments.consignments import ConsignmentStateName, winners_of
from restante.limits import SEND_PIECE_BYTES, WRITER_CHARACTERS_MAX
from restante.model.consignments.consignment_answers import ConsignmentState, StagedAttempt
from restante.model.publishing.message import Message
from tests.cli.places import FolderPlace, HubPlace, Place, run
from tests.cli.test_command_line import PLAIN

ID = "00000000-0000-0000-0000-000000000001"


def lines(path: Path, count: int, recipient: str = "ada", **fields: Any) -> str:
    """A file of so many messages, by its name."""
    messages = [{"recipient": recipient, "data": {"n": number}, **fields} for number in range(count)]
    path.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf-8")
    return str(path)


def large(path: Path, count: int, recipient: str) -> str:
    """One that is sent in several pieces."""
    table = pa.table({"recipient": [recipient] * count, "data": [b"x" * 10_000] * count})
    pq.write_table(table, path)
    return str(path)


def waiting(place: Place, recipient: str) -> list[object]:
    with place.opened() as hub:
        return [message.data for message in hub.recipient(recipient).history(limit=1_000).messages]


def consignment(place: Place, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = place.answer("consignments show", name)
    return answer


def code_of(result: Result) -> tuple[int, str]:
    return result.exit_code, result.stderr.split(":")[0]


def test_files_are_delivered_at_one_moment(place: Place, tmp_path: Path) -> None:
    files = [lines(tmp_path / "a.jsonl", 3), large(tmp_path / "b.parquet", 400, "bob"), lines(tmp_path / "c.jsonl", 0)]
    answer = place.answer("send", *files, "--consignment", "night-7")
    own = answer["consignment"]
    assert (answer["messages"], answer["accepted"], answer["duplicates"], answer["files"]) == (403, 403, 0, 3)
    assert (own["key"], own["state"], own["batch"], own["committed_before"]) == ("night-7", "committed", None, False)
    with place.opened() as hub:
        found = [*hub.recipient("ada").history().messages, *hub.recipient("bob").history(limit=1_000).messages]
    assert len(found) == 403
    assert len({message.published_at for message in found}) == 1
    assert consignment(place, own["id"])["receipt"]["accepted"] == 403


def test_a_file_is_a_writer_and_its_pieces_are_its_parcels(place: Place, tmp_path: Path) -> None:
    files = [lines(tmp_path / "a.jsonl", 3), large(tmp_path / "b.parquet", 400, "bob")]
    result = place.run("send", *files, "--consignment", "night", "--no-commit", "--attempt", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("403 messages of 2 files staged for night (")
    shown = consignment(place, "night")
    assert [(one["writer"], one["attempt"], one["messages"]) for one in shown["attempts"]] == [
        (files[0], 2, 3),
        (files[1], 2, 400),
    ]
    assert shown["attempts"][0]["parcels"] == 1
    assert shown["attempts"][1]["parcels"] > 1
    assert (waiting(place, "ada"), waiting(place, "bob")) == ([], [])
    table = place.run("consignments show", "night").stdout
    assert all(text in table for text in ("writer", files[1], "403 messages", "open"))


def test_what_is_staged_only_is_committed_later_by_the_highest_attempts(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    place.answer("send", file, "--consignment", "night", "--no-commit")
    lines(tmp_path / "a.jsonl", 5)
    place.answer("send", file, "--consignment", "night", "--no-commit", "--attempt", "1")
    result = place.run("consignments commit", "night")
    assert result.stdout.endswith("is committed: 5 messages stored. Dropped: 1 lower attempt.\n")
    assert len(waiting(place, "ada")) == 5
    again = place.answer("consignments commit", "night")
    assert (again["state"], again["receipt"]["accepted"]) == ("committed", 5)
    assert len(waiting(place, "ada")) == 5


def test_of_each_writer_the_highest_attempt_wins() -> None:
    staged = [
        StagedAttempt(writer=writer, attempt=attempt, parcels=1, messages=messages, bytes=1)
        for writer, attempt, messages in (("a", 0, 1), ("a", 7, 2), ("b", 3, 4), ("a", 5, 8))
    ]
    assert [(one.writer, one.attempt, one.messages) for one in winners_of(staged)] == [("a", 7, 2), ("b", 3, 4)]


def test_one_that_was_committed_before_is_not_sent_again(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    first = place.answer("send", file, "--consignment", "night")["consignment"]["id"]
    result = place.run("send", file, "--consignment", "night")
    assert result.exit_code == 0
    assert result.stdout == f"night ({first}) was committed before: 3 messages stored. Nothing was sent.\n"
    answer = place.answer("send", file, "--consignment", "night")
    assert answer["consignment"]["committed_before"]
    assert (answer["messages"], answer["accepted"]) == (0, 3)
    assert len(waiting(place, "ada")) == 3


def test_an_error_leaves_it_open_and_the_same_command_goes_on(place: Place, tmp_path: Path) -> None:
    good, bad = large(tmp_path / "good.parquet", 400, "bob"), tmp_path / "bad.jsonl"
    lines(bad, 2)
    whole = bad.read_text()
    bad.write_text(whole + '{"recipient": ""}\n')
    refused = place.run("send", good, str(bad), "--consignment", "night")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error invalid_message: {bad}, line 3: ")
    open_id = consignment(place, "night")["id"]
    assert "Run the same command again to go on" in refused.stderr
    assert refused.stderr.rstrip().endswith(f"restante consignments discard {open_id}")
    assert waiting(place, "ada") == []
    bad.write_text(whole)
    answer = place.answer("send", good, str(bad), "--consignment", "night")
    assert (answer["consignment"]["id"], answer["accepted"]) == (open_id, 402)
    assert len(waiting(place, "bob")) == 400


def test_messages_without_ids_are_staged_once_when_it_is_repeated(place: Place, tmp_path: Path) -> None:
    files = [lines(tmp_path / "a.jsonl", 3), large(tmp_path / "b.parquet", 400, "bob")]
    for _ in range(2):
        assert place.answer("send", *files, "--consignment", "night", "--no-commit")["messages"] == 403
    assert consignment(place, "night")["staged_messages"] == 403
    assert place.answer("send", *files, "--consignment", "night")["accepted"] == 403


def test_a_changed_file_needs_another_attempt(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    place.answer("send", file, "--consignment", "night", "--no-commit")
    lines(tmp_path / "a.jsonl", 4)
    refused = place.run("send", file, "--consignment", "night")
    assert code_of(refused) == (1, "error invalid_client_state")
    assert f"{file}, line 1 and on: " in refused.stderr
    assert "If another machine has staged a file of this name, give yours another name." in refused.stderr
    assert "If the files were changed, run it again with --attempt 1" in refused.stderr
    assert place.answer("send", file, "--consignment", "night", "--attempt", "1")["accepted"] == 4


def test_a_file_that_has_become_shorter_is_incomplete(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    place.answer("send", file, "--consignment", "night", "--no-commit")
    lines(tmp_path / "a.jsonl", 0)
    refused = place.run("send", file, "--consignment", "night")
    assert code_of(refused) == (1, "error consignment_incomplete")
    assert "--attempt 1" in refused.stderr
    assert consignment(place, "night")["state"] == "open"


def test_a_conflict_leaves_it_open(place: Place, tmp_path: Path) -> None:
    with place.opened() as hub:
        hub.producer.send(Message(recipient="ada", id=ID, data={"n": "other"}))
    refused = place.run("send", lines(tmp_path / "a.jsonl", 1, id=ID), "--consignment", "night")
    assert code_of(refused) == (1, "error message_conflict")
    assert "--attempt 1" in refused.stderr
    assert consignment(place, "night")["state"] == "open"
    assert waiting(place, "ada") == [{"n": "other"}]


def test_duplicates_are_skipped_and_told(place: Place, tmp_path: Path) -> None:
    files = [lines(tmp_path / name, 1, id=ID) for name in ("a.jsonl", "b.jsonl")]
    result = place.run("send", *files, "--consignment", "night")
    assert result.stdout.startswith("1 message stored, 1 duplicate skipped, all at one moment, as night (")


def test_ids_can_be_derived_as_in_any_send(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    assert place.answer("send", file, "--idempotent", "k")["accepted"] == 3
    answer = place.answer("send", file, "--idempotent", "k", "--consignment", "night")
    assert (answer["accepted"], answer["duplicates"]) == (0, 3)


def test_a_batch_is_opened_with_it_and_sealed(place: Place, tmp_path: Path) -> None:
    result = place.run("send", lines(tmp_path / "a.jsonl", 3), "--consignment", "night", "--with-batch")
    batch = consignment(place, "night")["batch"]
    assert result.stdout.endswith(f"Their batch: {batch}\n")
    status = place.answer("batches status", batch)
    assert (status["key"], status["state"], status["items"], status["pending"]) == ("night", "sealed", 3, 3)


@pytest.mark.parametrize("committed", [False, True])
def test_a_batch_is_refused_where_the_key_was_opened_without_one(place: Place, tmp_path: Path, committed: bool) -> None:
    first, second = lines(tmp_path / "a.jsonl", 3), lines(tmp_path / "b.jsonl", 3)
    place.answer("send", first, "--consignment", "night", *([] if committed else ["--no-commit"]))
    before = consignment(place, "night")["attempts"]
    refused = place.run("send", second, "--consignment", "night", "--with-batch")
    assert code_of(refused) == (1, "error invalid_operation")
    assert ("Nothing was sent." if committed else "Leave out --with-batch") in refused.stderr
    assert consignment(place, "night")["attempts"] == before
    if not committed:
        place.answer("consignments discard", "night", "--yes")
        assert place.answer("send", second, "--consignment", "night", "--with-batch")["consignment"]["batch"]


def test_a_commit_that_would_drop_what_others_staged_is_refused(place: Place, tmp_path: Path) -> None:
    first, second = lines(tmp_path / "a.jsonl", 3), lines(tmp_path / "b.jsonl", 4, "bob")
    place.answer("send", first, "--consignment", "night", "--no-commit")
    refused = place.run("send", second, "--consignment", "night")
    open_id = consignment(place, "night")["id"]
    assert code_of(refused) == (1, "error invalid_operation")
    assert f"Others have staged for night ({open_id}) too: {first}." in refused.stderr
    assert "give each --no-commit" in refused.stderr
    assert "commit(" not in refused.stderr
    assert refused.stderr.endswith(f"restante consignments commit {open_id}\n")
    assert (waiting(place, "ada"), waiting(place, "bob")) == ([], [])
    assert place.answer("consignments commit", open_id)["receipt"]["accepted"] == 7


def test_a_check_stages_nothing(place: Place, tmp_path: Path) -> None:
    assert place.answer("send", lines(tmp_path / "a.jsonl", 3), "--consignment", "night", "--dry-run")["dry_run"]
    assert place.answer("consignments list") == {"consignments": []}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["FILE", "--attempt", "1"], "This option is about a consignment: add --consignment."),
        (["FILE", "--with-batch"], "This option is about a consignment: add --consignment."),
        (["FILE", "--no-commit"], "This option is about a consignment: add --consignment."),
        (
            ["--text", "x", "--recipient", "ada", "--consignment", "k"],
            "A consignment is staged from files: name at least one.",
        ),
        (["FILE", "--consignment", "k", "--batch", ID], "use --with-batch instead."),
        (["FILE", "FILE", "--consignment", "k"], "a consignment takes each file once."),
        (["FILE", "--consignment", "k", "--attempt", "-1"], "it must be at least 0, not '-1'."),
        (["FILE", "--consignment", "k", "--attempt", str(2**63)], "a whole number from 0 to 9223372036854775807"),
        (["FILE", "--consignment", " "], "a text of 1 to 256 characters, not blank"),
        (["FILE", "--consignment", "k" * 257], "a text of 1 to 256 characters, not blank"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, options: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    file = lines(tmp_path / "a.jsonl", 1)
    result = run("send", *(file if one == "FILE" else one for one in options), "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert told in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_path_that_is_too_long_for_a_writer_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * WRITER_CHARACTERS_MAX)[:200]
    folder.mkdir(parents=True)
    result = run("send", lines(folder / "a.jsonl", 1), "--consignment", "k", "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert not (tmp_path / "data").exists()


def test_a_new_folder_is_made_for_it(tmp_path: Path) -> None:
    result = run("send", lines(tmp_path / "a.jsonl", 2), "--consignment", "k", "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    assert "2 messages stored" in result.stdout


def test_standard_input_is_a_writer_too(place: Place) -> None:
    result = place.run("send", "-", "--consignment", "k", stdin=b'{"recipient": "ada", "data": 1}\n')
    assert result.exit_code == 0, result.output
    assert waiting(place, "ada") == [1]


def test_control_c_leaves_it_open_and_says_how_to_go_on(hub_place: HubPlace) -> None:
    command = [sys.executable, "-m", "restante.cli", "send", "-", "--consignment", "k", *hub_place.options]
    content = b'{"recipient": "ada", "data": 1}\n' * (2 * SEND_PIECE_BYTES // 32)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN)
    with hub_place.opened() as hub:
        assert process.stdin is not None
        process.stdin.write(content)
        process.stdin.flush()
        while not any(one.staged_messages for one in hub.consignments(key="k")):
            assert process.poll() is None, "it ended too early"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.match(rb"Stopped\. Staged: [1-9][0-9,]* messages\. The consignment is still open", told)
    assert b"Run the same command again to go on" in told
    assert b"Traceback" not in told
    assert consignment(hub_place, "k")["state"] == "open"
    assert waiting(hub_place, "ada") == []
    again = hub_place.run("send", "-", "--consignment", "k", stdin=content)
    assert again.stdout.startswith(f"{content.count(b'{'):,} messages stored, all at one moment")


def test_consignments_are_listed_newest_first_by_state_and_key(place: Place, tmp_path: Path) -> None:
    assert place.run("consignments list").stdout == "No such consignment is there.\n"
    file = lines(tmp_path / "a.jsonl", 3)
    for key in ("a", "b", "c"):
        place.answer("send", file, "--consignment", key, *(["--no-commit"] if key == "b" else []))
    listed = place.answer("consignments list")["consignments"]
    assert [one["key"] for one in listed] == ["c", "b", "a"]
    assert [one["key"] for one in place.answer("consignments list", "--state", "open")["consignments"]] == ["b"]
    assert [one["key"] for one in place.answer("consignments list", "--key", "a")["consignments"]] == ["a"]
    few = place.run("consignments list", "--limit", "2").stdout
    assert [one["id"] in few for one in listed] == [True, True, False]
    assert "There may be more" in few


@pytest.mark.parametrize("columns", ["80", "100", "120", "140"])
def test_tables_fit_a_terminal(
    folder_place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    file = lines(tmp_path / "a.jsonl", 1_200)
    for key, options in (("night-2026-11-16", ["--with-batch"]), ("night-17", ["--no-commit"])):
        folder_place.answer("send", file, "--consignment", key, *options)
    listed = folder_place.answer("consignments list")["consignments"]
    monkeypatch.setenv("COLUMNS", columns)
    shown = folder_place.run("consignments list").stdout
    for one, state in zip(listed, ("open", "committed"), strict=True):
        (line,) = [line for line in shown.splitlines() if one["id"] in line]
        assert line.split()[:3] == [one["key"], state, "1,200"]
    assert ("opened" in shown, "closed" in shown) == (int(columns) >= 120, int(columns) >= 140)
    batches = folder_place.run("batches list").stdout
    (line,) = [line for line in batches.splitlines() if listed[1]["batch"] in line]
    assert line.split()[1:3] == ["night-2026-11-16", "sealed"]
    details = folder_place.run("consignments show", "night-2026-11-16").stdout
    assert all(text in details for text in (listed[1]["id"], listed[1]["batch"], "night-2026-11-16"))
    staged = folder_place.run("consignments show", "night-17").stdout
    assert re.search(r" 0 +1 +1,200 ", staged)
    widest = max(len(line.rstrip()) for text in (shown, batches, details, staged) for line in text.splitlines())
    assert widest <= int(columns)


def test_what_was_stored_is_told_once(place: Place, tmp_path: Path) -> None:
    files = [lines(tmp_path / name, 1, id=ID) for name in ("a.jsonl", "b.jsonl")]
    place.answer("send", *files, "--consignment", "night")
    shown = [" ".join(line.split()) for line in place.run("consignments show", "night").stdout.splitlines()]
    assert "stored 1 message" in shown
    assert "skipped 1 duplicate" in shown


def test_a_discard_asks_first_and_frees_the_key(place: Place, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", 3)
    first = place.answer("send", file, "--consignment", "night", "--no-commit")["consignment"]["id"]
    dry = place.run("consignments discard", "night", "--dry-run")
    assert dry.stdout.startswith(f"Would discard consignment {first} (night), open, 3 messages staged (")
    refused = place.run("consignments discard", "night", stdin=b"n\n")
    assert refused.exit_code == 1
    assert "3 messages staged" in refused.stderr
    assert consignment(place, "night")["state"] == "open"
    assert place.answer("consignments discard", first, "--yes") == {
        "id": first,
        "key": "night",
        "discarded": True,
        "dry_run": False,
    }
    assert consignment(place, first)["state"] == "discarded"
    for options in ([], ["--yes"], ["--dry-run"]):
        again = place.run("consignments discard", first, *options)
        assert (again.exit_code, again.stdout) == (0, f"night ({first}) was discarded before.\n")
    assert "discarded" in place.run("consignments show", "night").stdout
    second = place.answer("send", file, "--consignment", "night")["consignment"]["id"]
    assert second != first
    assert consignment(place, "night")["id"] == second
    late = place.run("consignments discard", "night", "--yes")
    assert code_of(late) == (1, "error consignment_closed")
    assert len(waiting(place, "ada")) == 3


@pytest.mark.parametrize("command", ["show", "commit", "discard --yes"])
@pytest.mark.parametrize("name", ["5a89d644-37f6-45ea-9ec2-5e0c8dc83db4", "no-such-key"])
def test_a_consignment_that_there_is_not_is_an_error(place: Place, command: str, name: str) -> None:
    assert code_of(place.run(f"consignments {command}", name)) == (1, "error consignment_unknown")


def test_the_states_are_those_of_the_hub() -> None:
    assert [one.value for one in ConsignmentStateName] == [one.value for one in ConsignmentState]
