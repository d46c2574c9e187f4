"""`restante collect`: confirmed only when the output is safe, and resumed where it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from restante.cli.mailboxes import collect_files
from restante.client.surface import surface, sync
from restante.errors import BundleUnknown
from restante.model.publishing.message import Message, State
from restante.ports.content import Content, OriginPort
from restante.server.serve import start
from tests.cli.conftest import QUIET
from tests.cli.places import FolderPlace, HubPlace, Place


def post(place: Place, *texts: str, recipient: str = "ada", **fields: Any) -> None:
    with place.opened() as hub:
        hub.producer.send([Message(recipient=recipient, data={"text": text}, **fields) for text in texts])


def states(place: Place, recipient: str = "ada") -> list[State | None]:
    with place.opened() as hub:
        return [message.state for message in hub.recipient(recipient).history(limit=1_000).messages]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_messages_are_printed_and_then_confirmed(place: Place) -> None:
    post(place, "one", "two")
    result = place.run("collect", "ada")
    assert result.exit_code == 0, result.output
    assert '{"text":"one"}' in result.stdout
    assert "2 messages in 1 bundle collected and confirmed." in result.stdout
    assert states(place) == [State.COLLECTED] * 2


def test_json_lines_say_what_the_hub_says_over_http(place: Place) -> None:
    post(place, "one", "two", kind="letter")
    result = place.run("collect", "ada", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["data"] for line in lines] == [{"text": "one"}, {"text": "two"}]
    assert {(line["recipient"], line["kind"], line["state"]) for line in lines} == {("ada", "letter", "waiting")}
    assert result.exit_code == 0


def test_json_with_line_ends_in_it_is_still_one_line(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send(Message(recipient="ada", data=b'{\n"a":\r\n1}', media_type="application/json"))
    (line,) = place.run("collect", "ada", "--json").stdout.splitlines()
    assert json.loads(line)["data"] == {"a": 1}


def test_text_is_the_data_alone_with_a_line_end(place: Place) -> None:
    with place.opened() as hub:
        texts = [Message(recipient="ada", data=data, media_type="text/plain") for data in (b"one", "zwölf".encode())]
        hub.producer.send([*texts, Message(recipient="ada", data={"a": [1, 2]})])
    result = place.run("collect", "ada", "--text")
    assert result.exit_code == 0
    assert result.stdout_bytes == 'one\nzwölf\n{"a":[1,2]}\n'.encode()
    assert states(place) == [State.COLLECTED] * 3
    assert (place.run("collect", "ada", "--text").exit_code, place.run("collect", "ada", "--text").stdout) == (3, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "parquet"],
        ["--no-confirm", "--follow"],
        ["--text", "--json"],
        ["--text", "--to", "mail"],
        ["--format", "csv", "--to", "mail"],
    ],
)
def test_a_collect_that_makes_no_sense_exits_with_2_and_confirms_nothing(
    folder_place: FolderPlace, arguments: list[str]
) -> None:
    post(folder_place, "one")
    assert folder_place.run("collect", "ada", *arguments).exit_code == 2
    assert states(folder_place) == [State.WAITING]


def test_files_are_for_their_owner_alone(folder_place: FolderPlace, tmp_path: Path) -> None:
    post(folder_place, "one")
    assert folder_place.run("collect", "ada", "--to", str(tmp_path / "mail")).exit_code == 0
    (file,) = (tmp_path / "mail").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_there_exits_with_3_and_says_how_to_find_out_why(place: Place) -> None:
    result = place.run("collect", "nobody")
    assert result.exit_code == 3
    assert "restante explain nobody" in result.stdout


def test_looking_confirms_nothing(place: Place, tmp_path: Path) -> None:
    post(place, "one")
    for arguments in (["--json"], ["--to", str(tmp_path / "out")]):
        assert place.run("collect", "ada", "--no-confirm", *arguments).exit_code == 0
        assert states(place) == [State.WAITING]


@pytest.mark.parametrize("file_format", ["jsonl", "arrow", "parquet"])
def test_each_bundle_becomes_a_file_named_by_its_id(place: Place, tmp_path: Path, file_format: str) -> None:
    post(place, "one", "two", "three")
    folder = tmp_path / "mail"
    result = place.run("collect", "ada", "--to", str(folder), "--format", file_format, "--max-messages", "2", "--json")
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [entry["messages"] for entry in told] == [2, 1]
    assert files(folder) == sorted(f"{entry['bundle_id']}.{file_format}" for entry in told)
    data = [value for entry in told for value in _data(Path(entry["file"]))]
    assert data == [b'{"text":"one"}', b'{"text":"two"}', b'{"text":"three"}']
    assert states(place) == [State.COLLECTED] * 3


def _data(path: Path) -> list[bytes]:
    if path.suffix == ".jsonl":
        return [
            json.dumps(json.loads(line)["data"], separators=(",", ":")).encode()
            for line in path.read_text().splitlines()
        ]
    table: pa.Table = (
        pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path.read_bytes()).read_all()
    )
    return [bytes(value or b"") for value in table.column("data").to_pylist()]


def test_a_bundle_whose_file_is_there_is_confirmed_and_not_written_again(place: Place, tmp_path: Path) -> None:
    post(place, "one")
    with place.opened() as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / f"{bundle.bundle_id}.parquet").write_bytes(b"written by an earlier run")
    result = place.run("collect", "ada", "--to", str(folder))
    assert result.exit_code == 0
    assert "written before" in result.stdout
    assert files(folder) == [f"{bundle.bundle_id}.parquet"]
    assert states(place) == [State.COLLECTED]


def test_what_was_not_finished_does_not_count_as_there(place: Place, tmp_path: Path) -> None:
    post(place, "one")
    with place.opened() as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / f"{bundle.bundle_id}.jsonl.abc.unfinished").write_bytes(b"half")
    assert place.run("collect", "ada", "--to", str(folder)).exit_code == 0
    assert json.loads((folder / f"{bundle.bundle_id}.jsonl").read_text())["data"] == {"text": "one"}


def test_a_bundle_that_cannot_be_written_is_not_confirmed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(place, "one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full_disk)
        result = place.run("collect", "ada", "--to", str(tmp_path / "mail"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error storage_full: ")
    assert files(tmp_path / "mail") == []
    assert states(place) == [State.WAITING]
    assert place.run("collect", "ada", "--to", str(tmp_path / "mail")).exit_code == 0
    assert states(place) == [State.COLLECTED]


def _full_disk(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_it_stops_after_as_many_bundles_as_were_asked_for(place: Place) -> None:
    post(place, "one", "two", "three")
    assert place.run("collect", "ada", "--max-messages", "1", "--max-bundles", "2").exit_code == 0
    assert states(place) == [State.COLLECTED, State.COLLECTED, State.WAITING]


def test_only_the_origins_that_were_asked_for(place: Place) -> None:
    post(place, "one", origin="shop")
    post(place, "two", origin="bank")
    assert place.run("collect", "ada", "--origin", "bank").exit_code == 0
    assert states(place) == [State.WAITING, State.COLLECTED]
    assert place.run("collect", "ada", "--group", "shop").exit_code == 0
    assert states(place) == [State.COLLECTED, State.COLLECTED]


def test_a_bundle_that_somebody_else_confirmed_meanwhile_counts(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(place, "one")
    write = collect_files.BundleFolder.write

    def write_and_be_overtaken(self: collect_files.BundleFolder, bundle: surface.Bundle) -> Path:
        path = write(self, bundle)
        bundle.dequeue()
        return path

    monkeypatch.setattr(collect_files.BundleFolder, "write", write_and_be_overtaken)
    assert place.run("collect", "ada", "--to", str(tmp_path / "mail")).exit_code == 0


def test_control_characters_do_not_reach_a_terminal(place: Place) -> None:
    with place.opened() as hub:
        hub.producer.send(Message(recipient="ada", data=b"\x1b[31mred\x07", media_type="text/plain"))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", place.run("collect", "ada").stdout)


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[HubPlace]:
    """A hub with an origin that delivers content."""
    ports = {"claims": OriginPort(content=lambda _: Content(data=b"a,b\n1,2\n", media_type="text/csv; charset=utf-8"))}
    with start(tmp_path / "data", QUIET, origins=ports) as running:
        place = HubPlace(running.url)
        with place.opened() as hub:
            hub.producer.send([Message(recipient="ada", origin="claims") for _ in range(2)])
        yield place


def test_claim_check_content_is_written_as_it_is(claims: HubPlace, tmp_path: Path) -> None:
    result = claims.run("collect", "ada", "--to", str(tmp_path / "mail"))
    assert result.exit_code == 0, result.output
    (name,) = files(tmp_path / "mail")
    assert name.endswith(".csv")
    assert (tmp_path / "mail" / name).read_bytes() == b"a,b\n1,2\n"
    assert states(claims) == [State.COLLECTED] * 2


def test_claim_check_content_is_printed(claims: HubPlace) -> None:
    (line,) = claims.run("collect", "ada", "--json", "--no-confirm").stdout.splitlines()
    told = json.loads(line)
    assert (told["content_base64"], told["media_type"]) == ("YSxiCjEsMgo=", "text/csv; charset=utf-8")
    assert claims.run("collect", "ada", "--text", "--no-confirm").stdout == "a,b\n1,2\n\n"
    assert "a,b" in claims.run("collect", "ada").stdout


def test_following_waits_for_mail_until_it_is_interrupted(hub_place: HubPlace) -> None:
    command = [sys.executable, "-m", "restante.cli", "collect", "ada", "--follow", "--json", *hub_place.options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in ("one", "two"):
            post(hub_place, text)
            assert json.loads(process.stdout.readline())["data"] == {"text": text}
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert State.COLLECTED in states(hub_place)


def test_a_bundle_that_is_unknown_is_still_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    post(place, "one")

    def unknown(self: object) -> None:
        raise BundleUnknown("There is no such bundle.")

    monkeypatch.setattr(sync.Bundle, "dequeue", unknown)
    result = place.run("collect", "ada")
    assert result.exit_code == 1
    assert result.stderr.startswith("error bundle_unknown: ")


def test_a_collect_that_is_killed_again_and_again_gets_everything_exactly_once(
    hub_place: HubPlace, tmp_path: Path
) -> None:
    post(hub_place, *map(str, range(2_000)))
    command = [sys.executable, "-m", "restante.cli", "collect", "ada", "--to", str(tmp_path / "mail"), "--json"]
    for bundles_before_the_end in (1, 5, 12):
        options = ["--max-messages", "40", *hub_place.options]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(bundles_before_the_end):
                assert process.stdout.readline()
            process.kill()
    assert subprocess.run([*command, *hub_place.options], capture_output=True, timeout=60, check=False).returncode == 0
    texts = [
        json.loads(line)["data"]["text"]
        for path in (tmp_path / "mail").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert len(texts) == 2_000
    assert sorted(map(int, texts)) == list(range(2_000))
    with hub_place.opened() as hub:
        assert hub.recipient("ada").peek() is None
