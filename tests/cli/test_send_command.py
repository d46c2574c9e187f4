"""`restante send`: files of every kind, what is wrong with them by line, and sending them again."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from restante.cli.publishing import pieces_columns, pieces_csv, pieces_lines
from restante.cli.publishing.pieces import FileReading
from restante.client.surface.surface import Hub
from restante.limits import FILE_LINE_BYTES_MAX, SEND_PIECE_BYTES
from restante.model.publishing.message import Message
from tests.cli.places import FolderPlace, HubPlace, Place, run

Fields = dict[str, Any]


def waiting(place: Place, recipient: str) -> tuple[Message, ...]:
    with place.opened() as hub:
        return hub.recipient(recipient).history(limit=1_000).messages


def json_lines(path: Path, messages: Sequence[Fields]) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf-8")
    return path


def numbered(count: int, recipient: str = "ada") -> list[Fields]:
    return [{"recipient": recipient, "data": {"n": number}} for number in range(count)]


COLUMNS = pa.table({"recipient": ["ada", "bob", "ada"], "data": [b"one", b"two", b"three"], "kind": ["k", None, "k"]})


def write_arrow_file(path: Path) -> None:
    with pa.ipc.new_file(str(path), COLUMNS.schema) as writer:
        writer.write_table(COLUMNS)


def write_arrow_stream(path: Path) -> None:
    with pa.ipc.new_stream(str(path), COLUMNS.schema) as writer:
        writer.write_table(COLUMNS)


def write_lines(path: Path) -> None:
    rows = [{name: value for name, value in row.items() if value is not None} for row in COLUMNS.to_pylist()]
    json_lines(path, [row | {"data": row["data"].decode()} for row in rows])


WRITERS: dict[str, Callable[[Path], object]] = {
    "mail.jsonl": write_lines,
    "mail.csv": lambda path: path.write_text("recipient,data,kind\nada,one,k\nbob,two,\nada,three,k\n"),
    "mail.parquet": lambda path: pq.write_table(COLUMNS, path),
    "mail.arrow": write_arrow_file,
    "mail.arrows": write_arrow_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_kind_of_file_is_sent(place: Place, tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    result = place.run("send", str(tmp_path / name), "--kind", "other")
    assert result.exit_code == 0, result.output
    assert "3 messages stored" in result.stdout
    ada, bob = waiting(place, "ada"), waiting(place, "bob")
    plain = [message.data if isinstance(message.data, str) else message.data.decode() for message in (*ada, *bob)]
    assert plain == ["one", "three", "two"]
    assert [message.kind for message in (*ada, *bob)] == ["k", "k", "other"]


def test_several_files_and_standard_input(place: Place, tmp_path: Path) -> None:
    first = json_lines(tmp_path / "first.jsonl", numbered(2))
    assert place.answer("send", str(first), str(first))["messages"] == 4
    result = place.run("send", "-", "--recipient", "bob", stdin=b'{"data": 1}\n\n  {"data": 2}\n')
    assert result.exit_code == 0, result.output
    assert [message.data for message in waiting(place, "bob")] == [1, 2]


def test_arrow_and_csv_come_from_standard_input_too(place: Place) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, COLUMNS.schema) as writer:
        writer.write_table(COLUMNS)
    assert place.run("send", "-", "--format", "arrow", stdin=sink.getvalue().to_pybytes()).exit_code == 0
    assert place.run("send", "-", "--format", "csv", stdin=b"recipient,data\ncara,hello\n").exit_code == 0
    assert len(waiting(place, "ada")) == 2
    assert [message.text for message in waiting(place, "cara")] == ["hello"]


def test_one_message_from_the_command_line(place: Place) -> None:
    assert place.run("send", "--recipient", "ada", "--text", "hello").exit_code == 0
    assert place.run("send", "--recipient", "ada", "--value", '{"a": [1, 2]}', "--kind", "order").exit_code == 0
    text, value = waiting(place, "ada")
    assert (text.text, text.media_type) == ("hello", "text/plain")
    assert (value.data, value.media_type, value.kind) == ({"a": [1, 2]}, "application/json", "order")


def test_a_text_as_a_value_stays_a_value(place: Place) -> None:
    assert place.run("send", "--recipient", "ada", "--value", '"hello"').exit_code == 0
    (found,) = waiting(place, "ada")
    assert (found.data, found.text, found.media_type) == ("hello", None, "application/json")


def test_one_message_may_have_an_id_and_wait_for_its_time(place: Place) -> None:
    later = (
        "send",
        "--recipient",
        "ada",
        "--text",
        "hello",
        "--id",
        "reminder-1",
        "--visible-at",
        "2090-01-31T12:00:00Z",
    )
    assert place.run(*later).exit_code == 0
    assert "0 messages stored, 1 duplicate skipped" in place.run(*later).stdout
    assert not waiting(place, "ada")
    shown = place.run("history", "ada", "reminder-1")
    assert re.search(r"^ +delayed +due 2090-01-31 12:00:00Z +reminder-1 ", shown.stdout, re.MULTILINE), shown.stdout
    assert place.run("recipients", "withdraw", "ada", "reminder-1").exit_code == 0
    assert place.run("history", "ada", "reminder-1").exit_code == 1


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [("--id", "m-1", "about one message"), ("--visible-at", "2090-01-31T12:00:00Z", "about one message")],
)
def test_what_one_message_has_is_not_for_files(tmp_path: Path, option: str, value: str, told: str) -> None:
    result = run("send", str(json_lines(tmp_path / "a.jsonl", numbered(1))), option, value)
    assert result.exit_code == 2
    assert told in result.stderr
    assert option in result.stderr


def test_a_time_that_is_none_is_named() -> None:
    result = run("send", "--recipient", "ada", "--text", "x", "--visible-at", "soon")
    assert result.exit_code == 2
    assert "2030-01-31T12:00:00Z, not 'soon'." in result.stderr


def test_a_csv_row_may_wait_for_its_time(folder_place: FolderPlace, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("recipient,id,text,visible_at\nada,two,later,2090-01-31T12:00:00Z\n")
    result = folder_place.run("send", str(tmp_path / "a.csv"))
    assert result.exit_code == 0, result.output
    assert not waiting(folder_place, "ada")
    assert "due 2090-01-31 12:00:00Z" in folder_place.run("history", "ada", "two").stdout


def test_text_and_data_in_one_csv_row_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("recipient,data,text\nada,one,\nada,,two\nada,three,four\n")
    result = run("send", str(tmp_path / "a.csv"), "--dry-run")
    assert result.exit_code == 1
    assert "line 4: data and text are both there: give one of them" in result.stderr


def test_all_fields_of_a_csv_row(folder_place: FolderPlace, tmp_path: Path) -> None:
    heading = "id,recipient,origin,kind,document_type,weight,bundleable,data_base64,media_type,properties,expires_at"
    identity = "01234567-89ab-cdef-0123-456789abcdef"
    row = f'{identity},ada,shop,order,paper,9,false,{base64.b64encode(bytes(5)).decode()},a/b,"{{""p"": ""q""}}",2099-01-31T12:00:00Z'
    (tmp_path / "all.csv").write_text(f"{heading}\n{row}\n")
    result = folder_place.run("send", str(tmp_path / "all.csv"))
    assert result.exit_code == 0, result.output
    (found,) = waiting(folder_place, "ada")
    assert (found.id, found.origin, found.kind, found.document_type) == (identity, "shop", "order", "paper")
    assert (found.weight, found.bundleable, found.data, found.media_type) == (9, False, bytes(5), "a/b")
    assert (found.properties, found.expires_at) == ({"p": "q"}, datetime(2099, 1, 31, 12, tzinfo=UTC))


def test_text_over_several_lines_keeps_its_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('recipient,data,weight\nada,"two\nlines",\nada,x,many\n')
    result = run("send", str(tmp_path / "a.csv"), "--dry-run")
    assert result.exit_code == 1
    assert "a.csv, line 4: weight must be a whole number, not 'many'. Nothing was sent." in result.stderr


WRONG = {
    "a field that is unknown": (b'{"recipient": "ada", "wight": 1}', "invalid_message", "the field wight is unknown"),
    "a field that is read only": (b'{"recipient": "ada", "state": "waiting"}', "invalid_message", "read only"),
    "half a line": (b'{"recipient": "ada"', "invalid_request", "it is not JSON: it ends too early"),
    "two on one line": (b'{"recipient": "ada"}, {"recipient": "bob"}', "invalid_request", "a line is one message"),
    "no object": (b"[1]", "invalid_message", "must be a JSON object"),
    "a bad id": (b'{"recipient": "ada", "id": "..", "data": 1}', "invalid_message", "id"),
    "no UTF-8": (b'{"recipient": "\xff"}', "invalid_request", "UTF-8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_is_named_and_what_was_stored_before_is_told(place: Place, tmp_path: Path, case: str) -> None:
    line, code, reason = WRONG[case]
    good = json_lines(tmp_path / "good.jsonl", numbered(3))
    (tmp_path / "bad.jsonl").write_bytes(b'{"recipient": "ada", "data": 1}\n\n' + line + b"\n")
    for arguments in ((), ("--origin", "default")):
        result = place.run("send", str(good), str(tmp_path / "bad.jsonl"), *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error {code}: {tmp_path}/bad.jsonl, line 3: "), result.stderr
        assert reason in result.stderr
        assert "Stored before: 3 messages; nothing of this piece and on." in result.stderr
        assert result.stderr.count("\n") == 1
    assert len(waiting(place, "ada")) == 6


def test_a_line_that_only_a_hub_can_refuse_is_named_too(place: Place, tmp_path: Path) -> None:
    one = {"recipient": "ada", "id": "00000000-0000-0000-0000-000000000001"}
    assert place.run("send", str(json_lines(tmp_path / "a.jsonl", [one | {"data": 1}]))).exit_code == 0
    again = json_lines(tmp_path / "b.jsonl", [*numbered(2), one | {"data": 2}])
    result = place.run("send", str(again))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error message_conflict: {again}, line 3: ")


def test_a_wrong_row_of_columns_is_named(place: Place, tmp_path: Path) -> None:
    pq.write_table(pa.table({"recipient": ["ada", " "], "data": [b"1", b"2"]}), tmp_path / "a.parquet")
    result = place.run("send", str(tmp_path / "a.parquet"))
    assert result.exit_code == 1
    assert "a.parquet, row 2: " in result.stderr


@pytest.mark.parametrize("option", [[], ["--kind", "k"]])
def test_an_arrow_file_that_lies_is_a_clear_error(tmp_path: Path, option: list[str]) -> None:
    kinds: Any = pa.DictionaryArray.from_arrays(pa.array([9, None], pa.int32()), pa.array(["k"]), safe=False)
    table = pa.table({"recipient": ["ada", "bob"], "data": [b"1", b"2"], "kind": kinds})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    result = run("send", str(tmp_path / "a.arrow"), "--dry-run", *option)
    assert result.exit_code == 1
    assert "cannot be read" in result.stderr


def test_a_parquet_file_with_a_name_that_is_no_text_is_a_clear_error(tmp_path: Path) -> None:
    written = tmp_path / "a.parquet"
    pq.write_table(pa.table({"recipient": ["ada"], "data": [b"1"]}), written)
    written.write_bytes(written.read_bytes().replace(b"recipient", b"recip\xffent"))
    result = run("send", str(written), "--dry-run")
    assert result.exit_code == 1
    assert "cannot be read as Parquet: a name in it is not UTF-8" in result.stderr


def test_large_rows_of_a_parquet_file_are_unpacked_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen thousand at a time, with documents of a MiB, were 16 GiB of memory."""
    written = tmp_path / "a.parquet"
    documents = [bytes([number]) * 100_000 for number in range(100)]
    pq.write_table(pa.table({"recipient": ["ada"] * 100, "data": documents}), written, use_dictionary=False)
    monkeypatch.setattr(pieces_columns, "_READ_BYTES", 1_000_000)
    seen: list[int] = []
    monkeypatch.setattr(pieces_columns, "check_sound", lambda table: seen.append(table.num_rows))
    pieces = list(pieces_columns.parquet_pieces(written, FileReading()))
    assert sum(len(piece.messages) for piece in pieces) == sum(seen) == 100
    assert max(seen) <= 10


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.parquet", b"not Parquet at all", "cannot be read as Parquet"),
        ("a.arrow", b"not Arrow at all", "cannot be read as Arrow"),
        ("a.csv", b"", "begins with a line that names its columns"),
        ("a.csv", b"recipient,colour\n", "the column colour is unknown"),
        ("a.csv", b"data\n", "the column recipient is missing"),
        ("a.csv", b"recipient,data\nada\n", "it has 1 cell, and the heading names 2"),
        ("a.csv", b'recipient,data\nada,"x\n', "it is not CSV"),
        ("a.csv", b"recipient,data\nada,\xff\n", "line 2: it is not UTF-8"),
        ("a.csv", b"recipient,data\nada,x\nada,\xc3\xa9\nada,\xe9\n", "line 4: it is not UTF-8"),
        ("a.csv", b"recipient,data,state\nada,x,waiting\n", "the column state is read only"),
        pytest.param("a.jsonl", b" " * (FILE_LINE_BYTES_MAX + 1), "it is longer than", id="a long line"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = run("send", str(tmp_path / name), "--dry-run")
    assert result.exit_code == 1
    assert result.stderr.startswith("error invalid_")
    assert f"{name}, " in result.stderr
    assert reason in result.stderr


def test_a_dry_run_finds_what_is_wrong_and_sends_nothing(place: Place, tmp_path: Path) -> None:
    good = json_lines(tmp_path / "good.jsonl", numbered(3))
    result = place.run("send", str(good), "--dry-run")
    assert result.exit_code == 0
    assert "3 messages checked" in result.stdout
    bad = json_lines(tmp_path / "bad.jsonl", [*numbered(3), {"recipient": "ada", "data": 1, "weight": 0}])
    result = place.run("send", str(bad), "--dry-run")
    assert result.exit_code == 1
    assert "line 4: weight" in result.stderr
    assert waiting(place, "ada") == ()


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_sent_again_under_the_same_key_stores_nothing_twice(place: Place, tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    first = place.answer("send", str(tmp_path / name), "--idempotent", "night-1")
    again = place.answer("send", str(tmp_path / name), "--idempotent", "night-1")
    other = place.answer("send", str(tmp_path / name), "--idempotent", "night-2")
    counts = [(answer["accepted"], answer["duplicates"]) for answer in (first, again, other)]
    assert counts == [(3, 0), (0, 3), (3, 0)]


def test_ids_that_are_there_are_kept_and_the_missing_ones_are_derived(
    folder_place: FolderPlace, tmp_path: Path
) -> None:
    own = "00000000-0000-0000-0000-000000000007"
    pq.write_table(pa.table({"recipient": ["ada"] * 3, "data": [b"x"] * 3, "id": [None, own, None]}), tmp_path / "a.pq")
    for duplicates in (0, 3):
        answer = folder_place.answer("send", str(tmp_path / "a.pq"), "--idempotent", "k")
        assert answer["duplicates"] == duplicates
    ids = [message.id for message in waiting(folder_place, "ada")]
    assert ids[1] == own
    assert len(set(ids)) == 3


def test_without_a_key_the_same_file_is_new_mail(place: Place, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", numbered(2))
    assert [place.answer("send", str(path))["accepted"] for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("name", ["big.jsonl", "big.csv", "big.parquet", "big.arrow"])
def test_a_large_file_goes_in_pieces_in_its_order(
    folder_place: FolderPlace, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pieces_lines, pieces_csv, pieces_columns):
        monkeypatch.setattr(module, "SEND_PIECE_BYTES", 5_000)
    texts = [f"message number {number:06d}" for number in range(1_000)]
    table = pa.table({"recipient": ["ada"] * 1_000, "data": texts})
    match name:
        case "big.jsonl":
            json_lines(tmp_path / name, table.to_pylist())
        case "big.csv":
            pyarrow.csv.write_csv(table, tmp_path / name)
        case "big.parquet":
            pq.write_table(table.cast(COLUMNS.select(["recipient", "data"]).schema), tmp_path / name)
        case _:
            with pa.ipc.new_file(str(tmp_path / name), COLUMNS.select(["recipient", "data"]).schema) as writer:
                writer.write_table(table.cast(COLUMNS.select(["recipient", "data"]).schema))
    sends: list[int] = []
    with folder_place.opened() as hub:
        _note_sends(hub, sends, monkeypatch)
    result = folder_place.run("send", str(tmp_path / name))
    assert result.exit_code == 0, result.output
    assert sum(sends) == 1_000
    assert len(sends) > 5
    found = [message.data for message in waiting(folder_place, "ada")]
    assert [one if isinstance(one, str) else one.decode() for one in found] == texts


def _note_sends(hub: Hub, sends: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the size of each send, and let it go on."""
    kind = type(hub.producer)
    send = kind.send

    def noted(self: Any, messages: Any, **options: Any) -> Any:
        receipt = send(self, messages, **options)
        sends.append(receipt.accepted)
        return receipt

    monkeypatch.setattr(kind, "send", noted)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--text", "hello"],
        ["--recipient", "ada", "--text", "a", "--value", "1"],
        ["no-such-file.jsonl"],
        ["-", "--format", "parquet"],
        ["-", "--format", "xml"],
    ],
)
def test_a_send_that_makes_no_sense_exits_with_2(arguments: list[str]) -> None:
    assert run("send", *arguments).exit_code == 2


def test_a_file_without_a_telling_suffix_needs_its_format(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "mail.txt", numbered(1))
    assert run("send", str(path), "--dry-run").exit_code == 2
    assert run("send", str(path), "--dry-run", "--format", "jsonl").exit_code == 0


def test_a_value_that_is_no_json_is_not_understood() -> None:
    result = run("send", "--recipient", "ada", "--value", "{")
    assert result.exit_code == 2
    assert "--value: it is not JSON" in result.stderr


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_what_is_wrong_with_one_message_needs_no_place(place: Place, dry_run: list[str]) -> None:
    result = place.run("send", "--recipient", " ", "--text", "hello", *dry_run)
    assert result.exit_code == 1
    told = "error invalid_message: recipient must have 1 to 256 characters, and not be blank."
    assert result.stderr == f"{told}{' Nothing was sent.' if dry_run else ''}\n"


def test_a_dry_run_tells_every_bad_line_of_every_file(tmp_path: Path) -> None:
    bad = {"recipient": "ada", "data": 1, "weight": 0}
    lines = [json.dumps(one) for one in (*numbered(1), bad, *numbered(1), bad)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{", '{"wight": 1}']) + "\n")
    (tmp_path / "b.csv").write_text("recipient,data,weight\nada,x,many\nada,x,1\nada\nada,x,0\n")
    (tmp_path / "c.parquet").write_bytes(b"not Parquet")
    pq.write_table(pa.table({"recipient": [" ", "ada", ""], "data": [b"1"] * 3}), tmp_path / "d.parquet")
    files = [str(tmp_path / name) for name in ("a.jsonl", "b.csv", "c.parquet", "d.parquet")]
    result = run("send", *files, "--dry-run")
    assert result.exit_code == 1
    heading, *told = result.stderr.splitlines()
    assert heading == "error invalid_request: 10 problems; nothing was sent."
    places = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in told]
    assert sorted(places) == [
        "a.jsonl, line 2",
        "a.jsonl, line 4",
        "a.jsonl, line 5",
        "a.jsonl, line 6",
        "b.csv, line 2",
        "b.csv, line 4",
        "b.csv, line 5",
        "c.parquet, it cannot be read as Parquet",
        "d.parquet, row 1",
        "d.parquet, row 3",
    ]


def test_a_dry_run_shows_the_first_twenty_and_counts_all(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{\n" * 33)
    heading, *told = run("send", str(tmp_path / "a.jsonl"), "--dry-run").stderr.splitlines()
    assert heading == "error invalid_request: 33 problems; nothing was sent. The first 20:"
    assert [line.split(": ")[0].rpartition(" ")[2] for line in told] == [str(number) for number in range(1, 21)]


@pytest.mark.parametrize("file_format", ["jsonl", "arrow", "parquet"])
def test_what_collect_wrote_is_forwarded_under_its_ids(place: Place, tmp_path: Path, file_format: str) -> None:
    sent: list[Fields] = [
        {"recipient": "ada", "data": {"n": 1}, "properties": {"p": "q"}},
        {"recipient": "ada", "data_base64": "AAE="},
    ]
    assert place.run("send", str(json_lines(tmp_path / "a.jsonl", sent)), "--kind", "k").exit_code == 0
    before = waiting(place, "ada")
    assert place.run("collect", "ada", "--to", str(tmp_path / "mail"), "--format", file_format).exit_code == 0
    (file,) = map(str, (tmp_path / "mail").iterdir())
    other = FolderPlace(tmp_path / "other")
    refused = other.run("send", file)
    assert refused.exit_code == 1
    assert "read only" in refused.stderr
    assert "--forward" in refused.stderr
    assert other.answer("send", file, "--forward")["accepted"] == 2
    after = waiting(other, "ada")
    assert [(one.id, one.data, one.kind, one.properties, one.media_type) for one in after] == [
        (one.id, one.data, one.kind, one.properties, one.media_type) for one in before
    ]
    assert place.answer("send", file, "--forward")["duplicates"] == 2


def test_columns_that_a_hub_gave_are_left_out_of_csv_too(folder_place: FolderPlace, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sequence_number,recipient,data,state\n7,ada,hello,waiting\n")
    assert folder_place.answer("send", str(tmp_path / "a.csv"), "--forward")["accepted"] == 1
    assert [message.data for message in waiting(folder_place, "ada")] == ["hello"]


def test_a_hub_that_is_gone_says_how_far_it_came(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", numbered(2))
    result = run("send", str(path), "--hub", "http://127.0.0.1:1")
    assert result.exit_code == 1
    warning, error = result.stderr.splitlines()
    assert "Trying again" in warning
    assert error.startswith("error unavailable: ")
    assert error.endswith(" Acknowledged before: 0 messages.")


def test_messages_are_bound_to_a_batch(place: Place, tmp_path: Path) -> None:
    with place.opened() as hub:
        batch = hub.batches.open(key="night").id
    path = json_lines(tmp_path / "night.jsonl", numbered(3))
    assert place.run("send", str(path), "--batch", batch).exit_code == 0
    with place.opened() as hub:
        status = hub.batches.get(batch).status()
        assert (status.items, status.pending) == (3, 3)
        assert hub.batches.get(batch).seal() is False
    refused = place.run("send", str(path), "--batch", batch)
    assert refused.exit_code == 1
    assert "sealed" in refused.stderr


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ((), "Messages without an id are stored again when they are sent again"),
        (("--idempotent", "night-7"), "Run the same command again to go on: what is stored is skipped."),
    ],
    ids=["without ids", "idempotent"],
)
def test_control_c_says_what_is_stored_and_how_to_go_on(
    hub_place: HubPlace, options: tuple[str, ...], advice: str
) -> None:
    line = b'{"recipient": "ada", "data": "%b"}\n' % (b"x" * 2_000)
    content = line * (SEND_PIECE_BYTES // len(line) * 5 // 2)
    command = [sys.executable, "-m", "restante.cli", "send", "-", *options, *hub_place.options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with hub_place.opened() as hub:
        assert process.stdin is not None
        process.stdin.write(content)
        process.stdin.flush()
        while not hub.recipient("ada").history(limit=1).messages:
            assert process.poll() is None, "it ended too early"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        stored = sum(status.visible_sequence for status in hub.partitions())
    assert process.returncode == 130
    assert told.decode().startswith(f"Stopped. Stored: {stored:,} messages; nothing of the rest. {advice}")
    if options:
        again = hub_place.run("send", "-", *options, stdin=content)
        assert f"{stored:,} duplicates skipped" in again.stdout


def test_a_text_that_is_meant_to_be_sent_is_told_from_a_file(tmp_path: Path) -> None:
    result = run("send", "ada", "hello")
    assert result.exit_code == 2
    told = " ".join(result.stderr.replace("│", " ").split())
    assert "ada is not a file. To send a text: --recipient NAME --text TEXT." in told
