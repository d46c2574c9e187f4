"""`restante batches`: opened, filled, sealed, acknowledged and looked at, on a folder and on a served hub."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from restante.cli.batches.batches import CountingName
from restante.cli.batches.batches_show import BatchStateName
from restante.client.surface.surface import Hub
from restante.model.batches.batch_answers import BatchState, Counting
from restante.model.publishing.message import Message
from tests.cli.places import FolderPlace, HubPlace, Place, run
from tests.cli.test_command_line import PLAIN


def opened(place: Place, *options: str) -> str:
    result = place.run("batches open", *options)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def added(place: Place, batch: str, count: int) -> list[str]:
    result = place.run("batches add", batch, str(count), "--items")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def status(place: Place, batch: str) -> dict[str, object]:
    answer = place.answer("batches status", batch)
    assert isinstance(answer, dict)
    return answer


def test_the_id_alone_is_printed_and_the_batch_is_open(place: Place) -> None:
    batch = opened(place, "--key", "nightly")
    assert str(UUID(batch)) == batch
    seen = status(place, batch)
    assert (seen["key"], seen["state"], seen["counting"], seen["items"]) == ("nightly", "open", "exact", 0)


def test_a_secret_that_the_hub_made_is_shown_once_beside_the_id(place: Place) -> None:
    result = place.run("batches open", "--webhook", "https://example.org/done")
    assert re.fullmatch(r"[0-9a-f-]{36}\n", result.stdout)
    assert re.search(r"whsec_[A-Za-z0-9+/=]{32,}", result.stderr)
    assert place.answer("batches open", "--webhook", "https://example.org/done")["webhook_secret"].startswith("whsec_")
    assert place.run("batches open", "--webhook-secret", "whsec_x").exit_code == 2


def test_whom_the_completion_is_told_is_shown(place: Place) -> None:
    batch = opened(place, "--webhook", "https://receiver.invalid/done", "--notify", "ada")
    assert place.answer("batches seal", batch) == {"id": batch, "complete": True}
    told = place.answer("batches status", batch)["deliveries"]
    assert sorted(one["to"] for one in told) == ["notify", "webhook"]
    shown = place.run("batches status", batch).stdout
    assert re.search(r"^ *webhook +[0-9]+ +–", shown, re.MULTILINE)


def test_a_unique_key_is_refused_while_another_batch_has_it(place: Place) -> None:
    first = opened(place, "--key", "nightly", "--unique")
    again = place.run("batches open", "--key", "nightly", "--unique")
    assert (again.exit_code, again.stderr.split(":")[0]) == (1, "error batch_key_used")
    assert place.run("batches seal", first).exit_code == 0
    assert opened(place, "--key", "nightly", "--unique") != first
    assert place.run("batches open", "--unique").exit_code == 2


def test_items_are_added_and_printed_one_by_one_or_as_ranges(place: Place) -> None:
    batch = opened(place)
    items = added(place, batch, 3)
    group = items[0].split(":")[1]
    assert items == [f"{batch}:{group}:{index}" for index in range(3)]
    many = place.run("batches add", batch, "1000000000")
    assert re.fullmatch(rf"{batch}:[0-9]+:0-1000000000\n", many.stdout)
    told = place.answer("batches add", batch, "7")
    assert (told["id"], [one["upto"] for one in told["groups"]]) == (batch, [7])
    assert status(place, batch)["items"] == 1_000_000_010
    assert place.run("batches add", batch, "5", "--items", "--json").exit_code == 2
    assert place.run("batches add", batch, "0").exit_code == 2


def test_nothing_is_added_to_a_sealed_batch(place: Place) -> None:
    batch = opened(place)
    added(place, batch, 1)
    assert place.run("batches seal", batch).stdout == f"{batch} is sealed; it is not complete yet.\n"
    assert place.answer("batches seal", batch) == {"id": batch, "complete": False}
    refused = place.run("batches add", batch, "1")
    assert (refused.exit_code, refused.stderr.split(":")[0]) == (1, "error batch_sealed")


def test_a_batch_goes_from_open_to_complete(place: Place) -> None:
    batch = opened(place, "--key", "nightly")
    first, second, *rest = added(place, batch, 10)
    place.run("batches seal", batch)
    assert place.run("batches ack", first, second).stdout == "2 items acknowledged.\n"
    assert place.run("batches pending", batch).stdout.splitlines() == rest
    done = place.answer("batches ack", first, *rest)
    assert done == {"acknowledged": 8, "complete": [{"id": batch, "key": "nightly"}], "unknown": []}
    again = place.run("batches ack", first)
    assert again.stdout == f"0 items acknowledged.\n{batch} (nightly) is complete.\n"
    shown = place.run("batches status", batch).stdout
    for text in (batch, "nightly", "complete", "acknowledged"):
        assert text in shown
    left = place.run("batches pending", batch)
    assert (left.stdout, left.stderr) == ("", "Nothing is pending.\n")


def test_items_come_from_files_and_from_standard_input(place: Place, tmp_path: Path) -> None:
    batch = opened(place)
    items = added(place, batch, 25_000)
    more = place.run("batches add", batch, "500").stdout
    file = tmp_path / "items.txt"
    file.write_text("\n\n".join(items[:12_000]) + "\n" + more)
    assert place.answer("batches ack", str(file))["acknowledged"] == 12_500
    result = place.run("batches ack", "-", stdin="\n".join(items[11_000:]).encode())
    assert result.stdout == "13,000 items acknowledged.\n"
    assert status(place, batch)["pending"] == 0


def test_items_go_through_a_pipe_on_a_folder_too(folder_place: FolderPlace) -> None:
    with folder_place.opened():
        pass
    batch = opened(folder_place)
    program = f"{sys.executable} -m restante.cli batches"
    options = f"--data {folder_place.folder}"
    pipe = f"{program} add {batch} 1234 --items {options} | {program} ack - {options}"
    result = subprocess.run(
        ["/bin/sh", "-c", pipe], capture_output=True, text=True, timeout=120, env=PLAIN, check=False
    )
    assert (result.stdout, result.stderr) == ("1,234 items acknowledged.\n", "")


def test_ranges_are_acknowledged(place: Place) -> None:
    batch = opened(place)
    whole = place.run("batches add", batch, "1000000").stdout.strip()
    group = whole.rpartition(":")[0]
    some = place.run("batches ack", "--range", f"{group}:5-10", "--range", f"{group}:8-20")
    assert some.stdout == "15 items acknowledged.\n"
    assert place.answer("batches ack", whole)["acknowledged"] == 999_985
    wrong = place.run("batches ack", "--range", f"{group}:7")
    assert wrong.exit_code == 2


def test_what_is_unknown_is_told_and_the_rest_is_acknowledged(place: Place) -> None:
    batch = opened(place)
    (item,) = added(place, batch, 1)
    group = item.rpartition(":")[0]
    beyond, nobody, part = f"{group}:1", f"{uuid4()}:1:0", f"{group}:0-5"
    result = place.run("batches ack", item, beyond, nobody, "--range", part)
    assert (result.exit_code, result.stdout) == (1, "1 item acknowledged.\n")
    assert sorted(result.stderr.splitlines()) == sorted(f"unknown: {one}" for one in (beyond, nobody, part))
    told = json.loads(place.run("batches ack", nobody, part, "--json").stdout)
    assert told["unknown"] == [nobody, {"group": group, "from": 0, "upto": 5}]


def test_a_line_that_is_no_item_ends_it_with_its_place(place: Place, tmp_path: Path) -> None:
    batch = opened(place)
    items = added(place, batch, 10_003)
    file = tmp_path / "items.txt"
    file.write_text("\n".join([*items[:10_001], "rubbish", items[10_002]]))
    result = place.run("batches ack", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error invalid_item: {file}, line 10,002: ")
    assert "Items acknowledged before: 10,000." in result.stderr
    assert status(place, batch)["pending"] == 3
    given = place.run("batches ack", f"{batch}:1:x")
    assert (given.exit_code, given.stderr.split(":")[0]) == (1, "error invalid_item")


def test_acknowledging_nothing_or_a_file_that_is_not_there_is_not_understood(place: Place, tmp_path: Path) -> None:
    assert place.run("batches ack").exit_code == 2
    assert place.run("batches ack", str(tmp_path / "typo.txt")).exit_code == 2
    assert place.run("batches ack", "-", stdin=b"\n\n").stdout == "0 items acknowledged.\n"


def test_pending_items_are_listed_up_to_a_limit(place: Place) -> None:
    batch = opened(place)
    items = added(place, batch, 5)
    result = place.run("batches pending", batch, "--limit", "3")
    assert result.stdout.splitlines() == items[:3]
    assert result.stderr == "There are more: give a higher --limit.\n"
    assert place.answer("batches pending", batch, "--limit", "3") == {"id": batch, "items": items[:3], "more": True}
    assert place.answer("batches pending", batch) == {"id": batch, "items": items, "more": False}
    estimated = opened(place, "--counting", "estimated")
    refused = place.run("batches pending", estimated)
    assert (refused.exit_code, refused.stderr.split(":")[0]) == (1, "error invalid_request")


def test_batches_are_listed_newest_first_by_state_and_key(place: Place) -> None:
    assert place.run("batches list").stdout == "No such batch is there.\n"
    first, second, third = (opened(place, "--key", key) for key in ("a", "b", "a"))
    place.run("batches seal", second)
    listed = [one["id"] for one in place.answer("batches list")["batches"]]
    assert sorted(listed, reverse=True) == listed
    assert set(listed) == {first, second, third}
    assert [one["id"] for one in place.answer("batches list", "--state", "complete")["batches"]] == [second]
    assert {one["id"] for one in place.answer("batches list", "--key", "a")["batches"]} == {first, third}
    few = place.run("batches list", "--limit", "2").stdout
    assert sum(name in few for name in (first, second, third)) == 2
    assert "There may be more" in few


def test_a_deletion_asks_first(place: Place) -> None:
    batch = opened(place, "--key", "nightly")
    added(place, batch, 3)
    dry = place.run("batches delete", batch, "--dry-run")
    assert dry.stdout == f"Would delete batch {batch} (nightly), open, 3 of 3 items pending.\n"
    refused = place.run("batches delete", batch, stdin=b"n\n")
    assert refused.exit_code == 1
    assert "3 of 3 items pending?" in refused.stderr
    assert status(place, batch)["items"] == 3
    assert place.answer("batches delete", batch, "--yes") == {"id": batch, "deleted": True, "dry_run": False}
    gone = place.run("batches status", batch)
    assert (gone.exit_code, gone.stderr.split(":")[0]) == (1, "error batch_unknown")


def test_batches_in_use_are_not_reaped(place: Place) -> None:
    opened(place)
    assert place.answer("batches reap") == {"batches": [], "dry_run": False}
    assert place.run("batches reap", "--dry-run").stdout == "Would delete 0 unused batches.\n"


def test_batches_that_nobody_uses_are_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "data")
    assert run("migrate", "--data", folder).exit_code == 0
    batch = run("batches", "open", "--key", "old", "--data", folder).stdout.strip()
    monkeypatch.setenv("RESTANTE_OPEN_BATCH_RETENTION_SECONDS", "0")
    monkeypatch.setenv("RESTANTE_HOUSEKEEPING_SECONDS", "0")
    dry = json.loads(run("batches", "reap", "--dry-run", "--json", "--data", folder).stdout)
    assert [(one["id"], one["key"], one["state"]) for one in dry["batches"]] == [(batch, "old", "open")]
    reaped = run("batches", "reap", "--data", folder)
    assert batch in reaped.stdout
    assert reaped.stdout.endswith("Deleted 1 unused batch.\n")
    assert json.loads(run("batches", "list", "--json", "--data", folder).stdout) == {"batches": []}


@pytest.fixture
def bound(place: Place) -> tuple[Place, str]:
    """A sealed batch of five messages: ada has three, bob one, and cara has collected hers."""
    with place.opened() as hub:
        batch = hub.batches.open(key="nightly")
        names = ["ada"] * 3 + ["bob", "cara"]
        hub.producer.send([Message(recipient=name, data=b"x") for name in names], batch=batch.id)
        batch.seal()
        collect(hub, "cara")
    return place, batch.id


def collect(hub: Hub, name: str) -> None:
    bundle = hub.recipient(name).peek()
    assert bundle is not None
    bundle.dequeue()


def test_progress_is_shown_by_recipient_those_who_wait_first(bound: tuple[Place, str]) -> None:
    place, batch = bound
    told = place.answer("batches progress", batch)
    assert [(one["recipient"], one["waiting"], one["collected"]) for one in told["recipients"]] == [
        ("ada", 3, 0),
        ("bob", 1, 0),
        ("cara", 0, 1),
    ]
    assert (told["recipient_count"], told["late_count"]) == (3, 2)
    shown = place.run("batches progress", batch).stdout
    assert shown.index("ada") < shown.index("bob") < shown.index("cara")
    assert shown.endswith("2 of 3 recipients have not collected everything.\n")
    late = place.answer("batches progress", batch, "--waiting", "--limit", "1")
    assert [one["recipient"] for one in late["recipients"]] == ["ada"]
    assert late["late_count"] == 2


def test_a_batch_without_messages_has_no_progress(place: Place) -> None:
    batch = opened(place)
    assert place.run("batches progress", batch).stdout == "No message is bound to it.\n"
    assert place.run("batches progress", batch, "--waiting").stdout == "Everyone has collected everything.\n"


def test_pending_messages_are_pointed_out(bound: tuple[Place, str]) -> None:
    place, batch = bound
    result = place.run("batches pending", batch)
    assert (result.stdout, result.stderr) == ("", "4 messages bound to it: see restante batches progress.\n")


def test_a_batch_that_is_complete_is_not_watched_long(bound: tuple[Place, str]) -> None:
    place, batch = bound
    early = place.run("batches watch", batch, "--timeout", "0")
    assert early.exit_code == 1
    assert early.stdout.startswith(f"Not complete yet: batch {batch} (nightly), sealed, 4 of 5 items pending")
    with place.opened() as hub:
        for name in ("ada", "bob"):
            collect(hub, name)
    done = place.run("batches watch", batch)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{batch} (nightly) is complete: 5 items in ")
    assert place.answer("batches watch", batch)["state"] == "complete"


class Watching:
    """`restante batches watch` on a terminal."""

    def __init__(self, place: HubPlace, batch: str) -> None:
        self._inner, outer = pty.openpty()
        command = [sys.executable, "-m", "restante.cli", "batches", "watch", batch, "--every", "0.1", *place.options]
        environment = PLAIN | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=outer, text=True, env=environment)
        os.close(outer)
        self.screen = ""

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)
        os.close(self._inner)

    def until(self, text: str) -> None:
        while text not in self.screen:
            ready, _, _ = select.select([self._inner], [], [], 60)
            assert ready, f"nothing more came: {self.screen}"
            self._read()

    def end(self) -> tuple[int, str]:
        """The exit code, and what it said at the end."""
        with suppress(OSError):  # Nobody has the other end any more.
            while select.select([self._inner], [], [], 60)[0]:
                self._read()
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def _read(self) -> None:
        self.screen += os.read(self._inner, 65_536).decode(errors="replace")


@pytest.fixture
def served(hub_place: HubPlace) -> tuple[HubPlace, str]:
    with hub_place.opened() as hub:
        batch = hub.batches.open(key="nightly")
        hub.producer.send([Message(recipient=name, data=b"x") for name in ("ada", "bob", "cara")], batch=batch.id)
        batch.seal()
    return hub_place, batch.id


def test_a_bar_fills_until_the_batch_is_complete(served: tuple[HubPlace, str]) -> None:
    place, batch = served
    with Watching(place, batch) as watching, place.opened() as hub:
        watching.until("0/3 items")
        watching.until("cara")
        collect(hub, "ada")
        watching.until("1/3 items")
        collect(hub, "bob")
        collect(hub, "cara")
        code, said = watching.end()
    assert code == 0
    assert said.startswith(f"{batch} (nightly) is complete: 3 items in ")


def test_control_c_leaves_and_the_batch_goes_on(served: tuple[HubPlace, str]) -> None:
    place, batch = served
    with Watching(place, batch) as watching:
        watching.until("0/3 items")
        watching.process.send_signal(signal.SIGINT)
        code, said = watching.end()
    assert (code, said.split(":")[0]) == (1, "Not complete yet")
    assert "Traceback" not in watching.screen
    assert status(place, batch)["state"] == "sealed"


@pytest.mark.parametrize("command", ["seal", "status", "pending", "progress", "watch", "delete --yes", "add"])
def test_a_batch_that_there_is_not_is_an_error(place: Place, command: str) -> None:
    name, *options = command.split()
    arguments = [*options, str(uuid4()), *(["3"] if name == "add" else [])]
    result = place.run(f"batches {name}", *arguments)
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error batch_unknown")


def test_a_mistyped_folder_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    result = run("batches", "open", "--data", str(tmp_path / "typo"))
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error invalid_request")
    assert list(tmp_path.iterdir()) == []


def test_the_choices_are_those_of_the_hub() -> None:
    assert [one.value for one in CountingName] == [one.value for one in Counting]
    assert [one.value for one in BatchStateName] == [one.value for one in BatchState]
