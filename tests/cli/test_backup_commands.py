"""`restante backup` and `restante restore`: a hub into a file while it runs, and back."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

import restante
from bench.server import free_port
from restante.model.publishing.message import Message
from tests.cli.places import FolderPlace, HubPlace, Place, run


def fill(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send([Message(recipient=f"r{number % 3}", data=bytes(90_000)) for number in range(12)])


@pytest.fixture
def backup(place: Place, tmp_path: Path) -> Path:
    fill(place)
    result = place.run("backup", str(tmp_path / "night.tar"))
    assert result.exit_code == 0, result.output
    return tmp_path / "night.tar"


def test_a_backup_is_restored_and_found_sound(backup: Path, tmp_path: Path) -> None:
    result = run("restore", str(backup), "--data", str(tmp_path / "restored"))
    assert result.exit_code == 0, result.output
    assert "every checksum verified" in result.stdout
    assert "Examined 12 messages" in result.stdout
    assert result.stdout.rstrip().endswith("restored: sound")
    with restante.open(tmp_path / "restored") as hub:
        assert sum(status.waiting for status in hub.partitions()) == 12


def test_both_speak_json(place: Place, tmp_path: Path) -> None:
    fill(place)
    made = place.answer("backup", str(tmp_path / "night.tar"))
    assert made["bytes"] == (tmp_path / "night.tar").stat().st_size > 12 * 90_000
    result = run("restore", str(tmp_path / "night.tar"), "--data", str(tmp_path / "restored"), "--json")
    restored = json.loads(result.stdout)
    assert (restored["verdict"], restored["files"]) == ("sound", made["files"])
    assert restored["made_at"] == made["made_at"]


def test_a_dry_run_verifies_and_writes_nothing(backup: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    result = run("restore", str(backup), "--data", str(tmp_path / "restored"), "--dry-run")
    assert result.exit_code == 0
    assert "every checksum verified" in result.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_is_never_overwritten(place: Place, tmp_path: Path) -> None:
    (tmp_path / "night.tar").write_text("mine")
    result = place.run("backup", str(tmp_path / "night.tar"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert (tmp_path / "night.tar").read_text() == "mine"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_damaged_backup_is_refused(backup: Path, tmp_path: Path, dry_run: bool) -> None:
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 1
    backup.write_bytes(content)
    result = run("restore", str(backup), "--data", str(tmp_path / "new"), *(["--dry-run"] if dry_run else []))
    assert result.exit_code == 1
    assert result.stderr.startswith("error data_damaged: ")
    assert not (tmp_path / "new").exists()


def test_a_folder_in_use_is_refused(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    result = run("restore", str(backup), "--data", str(tmp_path / "mine"))
    assert result.exit_code == 1
    assert "is not empty" in result.stderr


def test_a_restore_needs_a_folder_or_a_dry_run(tmp_path: Path) -> None:
    (tmp_path / "night.tar").touch()
    assert run("restore", str(tmp_path / "night.tar")).exit_code == 2


def test_a_folder_that_a_hub_has_open_points_to_the_hub(hub_place: HubPlace, tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "night.tar"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error data_locked: ")
    assert "use --hub" in result.stderr


def test_a_folder_that_is_none_is_left_alone(tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "night.tar"), "--data", str(tmp_path / "typo"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: ")
    assert list(tmp_path.iterdir()) == []


def test_no_hub_there_is_one_line(tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "night.tar"), "--hub", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert result.stderr.startswith("error unavailable: ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_problem_of_the_hub_keeps_its_code(hub_place: HubPlace, tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "night.tar"), "--hub", f"{hub_place.url}/elsewhere")
    assert result.exit_code == 1
    assert result.stderr.startswith("error not_found: ")


def test_a_connection_that_breaks_leaves_no_file(folder_place: FolderPlace, tmp_path: Path) -> None:
    fill(folder_place)
    assert folder_place.run("backup", str(tmp_path / "whole.tar")).exit_code == 0
    whole = (tmp_path / "whole.tar").read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_half() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
                connection.sendall(head + whole[: len(whole) // 2])

        thread = threading.Thread(target=answer_half)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        result = run("backup", str(tmp_path / "night.tar"), "--hub", url)
        thread.join()
    assert result.exit_code == 1
    assert result.stderr.startswith("error ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "whole.tar"]


@pytest.mark.parametrize("content", [b'{"recipient": "ada"}\n', b'{"recipient": "ada"}\n' * 1_000])
def test_what_is_no_backup_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "orders.jsonl").write_bytes(content)
    result = run("restore", str(tmp_path / "orders.jsonl"), "--data", str(tmp_path / "new"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_request: This is not a backup of Restante.")
    assert not (tmp_path / "new").exists()
