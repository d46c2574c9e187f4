"""`restante feed`: everything in order, from where one was, as lines, as Arrow and as Parquet files."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import restante
from restante.cli.feed import feed_folder
from restante.cli.feed import feed_follow as feed_reading
from restante.cli.feed.feed_outputs import ArrowStream, ByteOutput, Given, Lines, Output
from restante.cli.feed.feed_progress import Positions, Summary
from restante.cli.feed.feed_rows import change_count, first_changes, rows_of
from restante.client.surface.surface import Feed, Hub
from restante.errors import InvalidRequest, Unavailable
from restante.model.publishing.message import Message
from restante.settings import Settings
from tests.cli.places import FolderPlace, HubPlace, Place
from tests.cli.test_command_line import PLAIN

Row = dict[str, Any]
NAMES = ("ada", "bob", "cara", "dora", "erik", "fred")


def fill(place: Place, rounds: int = 2, **fields: Any) -> None:
    with place.opened() as hub:
        publish(hub, rounds, **fields)


def publish(hub: Hub, rounds: int = 1, **fields: Any) -> None:
    for number in range(rounds):
        hub.producer.send([Message(recipient=name, data={"n": number}, **fields) for name in NAMES])


def collect(place: Place, name: str) -> None:
    with place.opened() as hub:
        bundle = hub.recipient(name).peek()
        assert bundle is not None
        bundle.dequeue()


def lines(place: Place, *options: str) -> list[Row]:
    result = place.run("feed", *options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def summary(place: Place, *options: str) -> dict[str, Any]:
    result = place.run("feed", *options, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout if "--output" in options else result.stderr)
    return answer


def numbers(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["sequence_number"]) for row in rows)


def parquet_rows(folder: Path) -> list[Row]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def kept(path: Path) -> dict[int, int]:
    return {int(key): value for key, value in json.loads(path.read_text())["positions"].items()}


def test_every_change_is_a_line_in_order(place: Place) -> None:
    fill(place)
    collect(place, "ada")
    rows = lines(place)
    assert [row["change"] for row in rows].count("published") == 12
    (_, *_), (first, second) = rows, [row for row in rows if row["change"] == "collected"]
    assert first["sequence_number"] == second["sequence_number"]
    assert {first["recipient"], second["recipient"]} == {"ada"}
    for partition in {row["partition"] for row in rows}:
        own = [row["sequence_number"] for row in rows if row["partition"] == partition]
        assert own == sorted(own)
    sent = next(row for row in rows if row["recipient"] == "bob")
    assert sent["data"] == {"n": 0}
    assert "bundle_id" not in sent


def test_the_summary_goes_beside_the_changes(place: Place, tmp_path: Path) -> None:
    fill(place)
    told = summary(place)
    assert (told["changes"], told["rows"], told["stored"], told["lag"]) == (12, 12, 0, 0)
    assert sum(told["positions"].values()) == 12
    result = place.run("feed", "--output", str(tmp_path / "feed.jsonl"))
    assert result.stdout.startswith("12 changes in ")
    assert "lag 0.\nPositions: 0: " in result.stdout
    assert len((tmp_path / "feed.jsonl").read_text().splitlines()) == 12
    assert (tmp_path / "feed.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_hyphen_is_standard_output(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(place)
    assert len(lines(place, "--output", "-")) == 12
    assert not (tmp_path / "-").exists()


def test_filters_and_columns_choose(place: Place) -> None:
    fill(place, 1, kind="order", origin="shop")
    fill(place, 1)
    assert {row["recipient"] for row in lines(place, "--recipient", "ada", "--recipient", "bob")} == {"ada", "bob"}
    assert len(lines(place, "--kind", "order", "--recipient", "ada")) == 1
    assert len(lines(place, "--origin", "shop")) == 6
    few = lines(place, "--columns", "recipient,id", "--columns", "at", "--kind", "order")
    assert set(few[0]) == {"partition", "sequence_number", "change", "recipient", "id", "at"}
    data = lines(place, "--columns", "data", "--kind", "order")
    assert set(data[0]) == {"partition", "sequence_number", "change", "data"}


def test_a_partition_is_read_from_a_number(place: Place) -> None:
    fill(place, 3)
    partition = next(row["partition"] for row in lines(place) if row["recipient"] == "ada")
    whole = [row for row in lines(place) if row["partition"] == partition]
    middle = whole[1]["sequence_number"]
    rows = lines(place, "--partition", str(partition), "--after", str(middle))
    assert rows == whole[2:]
    missing = place.run("feed", "--partition", "999")
    assert (missing.exit_code, missing.stderr.split(":")[0]) == (1, "error partition_unknown")


def test_a_limit_ends_it_and_the_next_run_goes_on(place: Place, tmp_path: Path) -> None:
    fill(place, 3)
    whole, positions = lines(place), str(tmp_path / "positions.json")
    found: list[Row] = []
    for count in (5, 5, 5, 3, 0):
        rows = lines(place, "--limit", "5", "--positions", positions)
        assert len(rows) == count
        found += rows
    assert numbers(found) == numbers(whole)


@pytest.mark.parametrize("options", [[], ["--kind", "order"]])
def test_positions_lead_on(place: Place, tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "positions.json"
    fill(place, 1, kind="order")
    fill(place, 2)
    first = lines(place, "--positions", str(file), *options)
    assert len(first) == (6 if options else 18)
    with place.opened() as hub:
        ends = {status.partition: status.visible_sequence for status in hub.partitions()}
    assert kept(file) == ends
    assert lines(place, "--positions", str(file), *options) == []
    fill(place, 1, kind="order")
    assert len(lines(place, "--positions", str(file), *options)) == 6


def test_positions_of_partitions_that_are_not_read_stay(place: Place, tmp_path: Path) -> None:
    fill(place)
    file = tmp_path / "positions.json"
    file.write_text('{"positions": {"0": 0, "3": 1}}')
    lines(place, "--positions", str(file), "--partition", "0")
    assert kept(file)[3] == 1


@pytest.mark.parametrize("content", ["[]", "{", '{"positions": {"0": -1}}', '{"positions": {"a": 1}}', '{"place": 1}'])
def test_a_file_that_holds_no_positions_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "positions.json"
    file.write_text(content)
    with pytest.raises(InvalidRequest, match="is no file of positions"):
        Positions(file)
    assert file.read_text() == content


def test_arrow_is_one_stream(place: Place, tmp_path: Path) -> None:
    fill(place, 3)
    collect(place, "ada")
    result = place.run("feed", "--format", "arrow", "--columns", "recipient,bundle_id")
    table = pa.ipc.open_stream(result.stdout_bytes).read_all()
    assert table.column_names == ["partition", "sequence_number", "change", "recipient", "bundle_id"]
    assert table.num_rows == 21
    path = tmp_path / "feed.arrows"
    assert summary(place, "--format", "arrow", "--output", str(path))["rows"] == 21
    with pa.memory_map(str(path)) as source:
        written = pa.ipc.open_stream(source).read_all()
    assert [row["change"] for row in written.select(["change"]).to_pylist()].count("published") == 18
    again = place.run("feed", "--format", "arrow", "--output", str(path))
    assert (again.exit_code, again.stderr.split(":")[0]) == (1, "error invalid_request")
    empty = place.run("feed", "--format", "arrow", "--kind", "none")
    assert pa.ipc.open_stream(empty.stdout_bytes).read_all().num_rows == 0


def test_parquet_files_are_named_by_partition_and_first_number(place: Place, tmp_path: Path) -> None:
    fill(place, 3)
    lake, file = tmp_path / "lake", tmp_path / "positions.json"
    told = summary(place, "--format", "parquet", "--output", str(lake), "--positions", str(file))
    whole = lines(place)
    assert told["rows"] == 18
    assert numbers(parquet_rows(lake)) == numbers(whole)
    used = {row["partition"] for row in whole}
    assert {path.name for path in lake.iterdir()} == {f"partition-{one:05d}-{1:015d}.parquet" for one in used}
    before = kept(file)
    fill(place, 1)
    assert summary(place, "--format", "parquet", "--output", str(lake), "--positions", str(file))["rows"] == 6
    assert numbers(parquet_rows(lake)) == numbers(lines(place))
    names = {path.name for path in lake.iterdir()}
    assert all(f"partition-{one:05d}-{before[one] + 1:015d}.parquet" in names for one in used)


def test_files_that_were_not_recorded_are_written_again_under_the_same_names(place: Place, tmp_path: Path) -> None:
    fill(place, 3)
    lake, file = tmp_path / "lake", tmp_path / "positions.json"
    options = ("--format", "parquet", "--output", str(lake), "--positions", str(file))
    summary(place, *options)
    file.unlink()
    fill(place, 1)
    summary(place, *options)
    assert numbers(parquet_rows(lake)) == numbers(lines(place))


def test_a_parquet_file_is_rolled_and_recorded_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_folder, "FILE_ROWS_MAX", 4)
    schema = pa.schema([("sequence_number", pa.int64())])
    folder = feed_folder.Folder(tmp_path, schema)
    told = []
    for first in range(0, 9, 3):
        rows = pa.table({"sequence_number": [first + 1, first + 2, first + 3]}, schema)
        told.append(folder.put(Given(rows, 7, first + 3)))
    assert told == [False, True, False]
    assert folder.settle() == {7: 6}
    assert folder.put(Given(schema.empty_table(), 7, 20)) is False
    assert folder.settle() == {7: 6}
    unfinished = [path for path in tmp_path.iterdir() if path.suffix == ".unfinished"]
    assert len(unfinished) == 1
    assert pq.read_table(tmp_path).num_rows == 6
    assert folder.finish() == {7: 20}
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "partition-00007-000000000000001.parquet",
        "partition-00007-000000000000007.parquet",
    ]


def test_what_is_not_finished_is_dropped(tmp_path: Path) -> None:
    schema = pa.schema([("sequence_number", pa.int64())])
    folder = feed_folder.Folder(tmp_path, schema)
    folder.put(Given(pa.table({"sequence_number": [1]}, schema), 0, 1))
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_not_more_files_than_some_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_folder, "_FILES_OPEN_MAX", 2)
    schema = pa.schema([("sequence_number", pa.int64())])
    folder = feed_folder.Folder(tmp_path, schema)
    told = [folder.put(Given(pa.table({"sequence_number": [1]}, schema), one, 1)) for one in range(4)]
    assert told == [False, False, True, True]
    assert len(list(tmp_path.glob(".*.unfinished"))) == 2
    folder.close()


def test_what_a_crash_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    schema = pa.schema([("sequence_number", pa.int64())])
    left = tmp_path / ".partition-00003-000000000000001.parquet.abc.unfinished"
    foreign = tmp_path / ".mine.unfinished"
    left.touch()
    foreign.touch()
    other = feed_folder.Folder(tmp_path, schema)
    assert list(tmp_path.iterdir()) == [foreign]
    other.put(Given(pa.table({"sequence_number": [1]}, schema), 0, 1))
    feed_folder.Folder(tmp_path, schema).close()
    assert other.finish() == {0: 1}
    assert pq.read_table(tmp_path).num_rows == 1


@pytest.mark.parametrize("name", ["lines", "stream", "folder"])
def test_a_page_without_rows_moves_the_position_and_nothing_else(tmp_path: Path, name: str) -> None:
    rows, path = rows_of((), bootstrap=False), tmp_path / "out"
    output: Output = feed_folder.Folder(path, rows.schema)
    if name != "folder":
        path = tmp_path / "file"
        channel = ByteOutput(path)
        output = Lines(channel, ()) if name == "lines" else ArrowStream(channel, rows.schema)
    size = path.stat().st_size
    assert output.put(Given(rows.schema.empty_table(), 2, 17)) is False
    assert output.settle() == {2: 17}
    assert path.stat().st_size <= max(size, len(rows.schema.serialize()))
    assert not path.is_dir() or list(path.iterdir()) == []
    output.finish()
    output.close()


def test_positions_never_go_back(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "positions.json")
    positions.record({0: 0, 1: 5})
    positions.record({0: 7, 1: 4})
    assert kept(tmp_path / "positions.json") == {0: 7, 1: 5}


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_a_bootstrap_begins_with_all_that_is_stored(place: Place, tmp_path: Path, file_format: str) -> None:
    fill(place, 2)
    collect(place, "ada")
    file = tmp_path / "positions.json"
    options = ["--bootstrap", "--positions", str(file), "--format", file_format]
    if file_format == "parquet":
        told = summary(place, *options, "--output", str(tmp_path / "lake"))
        rows = parquet_rows(tmp_path / "lake")
        assert (told["stored"], told["changes"]) == (12, 0)
    else:
        rows = lines(place, *options)
    assert {row["change"] for row in rows} == {"stored"}
    states = [(row["recipient"], row["state"]) for row in rows]
    assert sorted(states) == sorted([("ada", "collected")] * 2 + [(name, "waiting") for name in NAMES[1:]] * 2)
    fill(place, 1)
    more = lines(place, "--bootstrap", "--positions", str(file))
    assert [row["change"] for row in more] == ["published"] * 6


def test_a_bootstrap_has_the_columns_that_were_asked_for(place: Place) -> None:
    fill(place, 1)
    rows = lines(place, "--bootstrap", "--columns", "recipient,at", "--recipient", "ada")
    (row,) = rows
    assert set(row) == {"partition", "sequence_number", "change", "recipient", "at", "state"}
    assert (row["recipient"], row["state"]) == ("ada", "waiting")


@pytest.fixture
def shortened(tmp_path: Path) -> tuple[FolderPlace, int]:
    """A folder whose feed has lost its beginning in one partition, for what was collected is not kept."""
    place = FolderPlace(tmp_path / "data")
    settings = Settings(partition_count=4, collected_retention_seconds=0, housekeeping_seconds=0)
    with restante.open(place.folder, settings=settings) as hub:
        publish(hub)
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        bundle.dequeue()
        hub.retain()
        publish(hub)
        (gone,) = [page.partition for page in hub.feed() if page.start > 1]
    return place, gone


def test_a_position_that_is_gone_needs_a_bootstrap(shortened: tuple[FolderPlace, int], tmp_path: Path) -> None:
    place, gone = shortened
    refused = place.run("feed", "--partition", str(gone), "--after", "0")
    assert (refused.exit_code, refused.stderr.split(":")[0]) == (1, "error position_gone")
    assert refused.stderr.endswith("To begin with all that is stored, give --bootstrap.\n")
    file = tmp_path / "positions.json"
    start = json.dumps({"positions": {str(partition): 0 for partition in range(4)}})
    file.write_text(start)
    assert place.run("feed", "--positions", str(file)).exit_code == 1
    assert kept(file)[gone] == 0
    file.write_text(start)
    rows = lines(place, "--positions", str(file), "--bootstrap")
    assert {row["partition"] for row in rows if row["change"] == "stored"} == {gone}
    whole = lines(place, "--bootstrap")
    of_others = [row for row in rows if row["change"] == "published"]
    assert numbers(rows) == numbers(whole)
    assert {row["partition"] for row in of_others} == {row["partition"] for row in whole} - {gone}


def test_a_position_beyond_the_end_is_said_and_nothing_is_skipped(
    shortened: tuple[FolderPlace, int], tmp_path: Path
) -> None:
    place, _ = shortened
    file = tmp_path / "positions.json"
    start = json.dumps({"positions": {str(partition): 10_000 for partition in range(4)}})
    for options in ([], ["--bootstrap"]):
        file.write_text(start)
        refused = place.run("feed", "--positions", str(file), *options)
        assert (refused.exit_code, refused.stderr.split(":")[0]) == (1, "error position_ahead")
        assert "Give new --positions" in refused.stderr
        assert file.read_text() == start


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--after", "1"], "A number counts in one partition: add one --partition."),
        (["--after", "1", "--partition", "0", "--partition", "1"], "add one --partition."),
        (["--after", "1", "--partition", "0", "--bootstrap"], "leave out --positions and --bootstrap."),
        (["--after", "1", "--partition", "0", "--positions", "x.json"], "leave out --positions and --bootstrap."),
        (["--format", "parquet"], "Parquet is written to a folder: name it with --output."),
        (["--format", "parquet", "--output", __file__], "is not a folder"),
        (["--limit", "0"], "it must be at least 1, not '0'."),
        (["--format", "csv"], "it must be one of 'jsonl', 'arrow', 'parquet', not 'csv'."),
        (["--columns", "colour"], "The feed has no column 'colour'."),
        (["--columns", ","], "Name columns, with commas between them."),
        (["--columns", ""], "Name columns, with commas between them."),
        (["--origin", ""], "A name must not be blank."),
        (["--kind", "order", "--kind", " "], "A name must not be blank."),
        (["--recipient", " "], "A name must not be blank."),
        (["--reader", ""], "A name must not be blank."),
        (["--format", "parquet", "--output", "-"], "Parquet is written to a folder: name it with --output."),
    ],
)
def test_what_does_not_go_together_is_refused(
    folder_place: FolderPlace, options: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    result = folder_place.run("feed", *options)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize("file_format", ["jsonl", "arrow"])
def test_a_file_is_not_left_behind_by_an_error(place: Place, tmp_path: Path, file_format: str) -> None:
    file = tmp_path / "feed"
    result = place.run("feed", "--partition", "999", "--output", str(file), "--format", file_format)
    assert result.exit_code == 1
    assert not file.exists()


@pytest.mark.parametrize("file_format", ["jsonl", "arrow"])
def test_what_nobody_reads_is_not_recorded(hub_place: HubPlace, tmp_path: Path, file_format: str) -> None:
    with hub_place.opened() as hub:
        hub.producer.send([Message(recipient="ada", data=b"x" * 1_000) for _ in range(2_000)])
    file = tmp_path / "positions.json"
    command = [sys.executable, "-m", "restante.cli", "feed", "--positions", str(file), "--format", file_format]
    with subprocess.Popen(
        [*command, *hub_place.options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1
    assert not file.exists() or 2_000 not in kept(file).values()


def test_changes_are_counted_and_cut_whole() -> None:
    table = pa.table({"sequence_number": [3, 4, 4, 4, 7, 9, 9]})
    assert change_count(table) == 4
    assert change_count(table.slice(0, 0)) == 0
    cut = [first_changes(table, count).column(0).to_pylist() for count in (1, 2, 3, 4, 5)]
    assert cut == [[3], [3, 4, 4, 4], [3, 4, 4, 4, 7], [3, 4, 4, 4, 7, 9, 9], [3, 4, 4, 4, 7, 9, 9]]


def test_rows_ask_snapshots_for_the_same_columns() -> None:
    rows = rows_of(("at", "key", "message_sequence_number"), bootstrap=True)
    assert rows.columns == ("sequence_number", "change", "at", "message_sequence_number", "key")
    assert rows.snapshot_columns == ("sequence_number", "published_at", "state", "collected_at")
    assert rows_of((), bootstrap=False).columns == ()


class Following:
    """`restante feed --follow`, with standard error on a terminal."""

    def __init__(self, place: HubPlace, *options: str) -> None:
        self._inner, outer = pty.openpty()
        command = [sys.executable, "-m", "restante.cli", "feed", "--follow", *options, *place.options]
        environment = PLAIN | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=outer, env=environment)
        os.close(outer)
        self.screen = ""

    def line(self) -> Row:
        assert self.process.stdout is not None
        row: Row = json.loads(self.process.stdout.readline())
        return row

    def until(self, text: str) -> None:
        while text not in self.screen:
            ready, _, _ = select.select([self._inner], [], [], 60)
            assert ready, f"nothing more came: {self.screen}"
            self.screen += os.read(self._inner, 65_536).decode(errors="replace")

    def end(self) -> tuple[int, bytes]:
        """Ctrl-C; the exit code, and what was still on standard output."""
        self.process.send_signal(signal.SIGINT)
        with suppress(OSError):  # Nobody has the other end any more.
            while select.select([self._inner], [], [], 60)[0]:
                self.screen += os.read(self._inner, 65_536).decode(errors="replace")
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)
        os.close(self._inner)


@contextmanager
def following(place: HubPlace, *options: str) -> Iterator[Following]:
    running = Following(place, *options)
    try:
        yield running
    finally:
        running.close()


def test_following_gives_out_what_comes_until_control_c(hub_place: HubPlace, tmp_path: Path) -> None:
    file = tmp_path / "positions.json"
    with hub_place.opened() as hub, following(hub_place, "--positions", str(file)) as reader:
        publish(hub)
        rows = [reader.line() for _ in NAMES]
        reader.until("6 changes")
        publish(hub)
        rows += [reader.line() for _ in NAMES]
        reader.until("12 changes")
        reader.until("lag 0")
        code, rest = reader.end()
    assert (code, rest) == (0, b"")
    assert len(set(numbers(rows))) == 12
    assert "Traceback" not in reader.screen
    assert "12 changes in " in reader.screen
    assert sum(kept(file).values()) == 12


def test_whoever_is_killed_goes_on_and_misses_nothing(hub_place: HubPlace, tmp_path: Path) -> None:
    file = tmp_path / "positions.json"
    with hub_place.opened() as hub:
        with following(hub_place, "--positions", str(file)) as reader:
            publish(hub, 3)
            rows = [reader.line() for _ in range(18)]
            reader.process.kill()
        publish(hub, 2)
        rows += lines(hub_place, "--positions", str(file))
    assert set(numbers(rows)) == set(numbers(lines(hub_place)))


def test_control_c_finishes_the_files(hub_place: HubPlace, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with hub_place.opened() as hub, following(hub_place, "--format", "parquet", "--output", str(lake)) as reader:
        publish(hub, 2)
        reader.until("12 changes")
        code, said = reader.end()
    assert code == 0
    assert said.startswith(b"12 changes in ")
    assert len(parquet_rows(lake)) == 12
    assert [path.suffix for path in lake.iterdir()] == [".parquet"] * len(list(lake.iterdir()))


class Noted(Positions):
    """Positions that say when some are recorded."""

    def __init__(self) -> None:
        super().__init__(None)
        self._recorded = threading.Condition()

    def record(self, safe: Mapping[int, int]) -> None:
        super().record(safe)
        with self._recorded:
            self._recorded.notify_all()

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """It is looked at after each recording."""
        with self._recorded:
            assert self._recorded.wait_for(holds, 60)

    def wait_for_another(self) -> None:
        with self._recorded:
            assert self._recorded.wait(60)


class Watched(feed_reading.FeedFollower):
    """Reading along that shows how far the feed is."""

    feed: Feed | None = None

    @property
    def looked_at(self) -> Mapping[int, int]:
        return {} if self.feed is None else self.feed.positions

    def _feed(self, after: dict[int, int]) -> Feed:
        self.feed = super()._feed(after)
        return self.feed


@contextmanager
def following_in_thread(
    place: HubPlace, lake: Path, positions: Positions | None = None, kinds: tuple[str, ...] = ()
) -> Iterator[tuple[Hub, Future[Summary], Watched]]:
    """Twelve changes into a folder, as they come."""
    rows = rows_of((), bootstrap=False)
    chosen = feed_reading.FollowOptions(
        partitions=(),
        after={},
        origins=(),
        kinds=kinds,
        recipients=(),
        bootstrap=False,
        follow=True,
        limit=12,
        reader=None,
        quiet=True,
    )
    with place.opened() as hub, ThreadPoolExecutor() as pool:
        folder = feed_folder.Folder(lake, rows.schema)
        reading = Watched(hub, chosen, rows, folder, positions or Positions(None))
        try:
            yield hub, pool.submit(reading.all), reading
        finally:
            if reading.feed is not None:
                reading.feed.close()
        folder.close()


def test_files_are_finished_while_nothing_comes(
    hub_place: HubPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_folder, "FILE_SECONDS_MAX", 0.3)
    monkeypatch.setattr(feed_reading, "_RECORD_SECONDS", 0.1)
    positions = Noted()
    with following_in_thread(hub_place, tmp_path / "lake", positions) as (hub, reading, _):
        publish(hub)
        positions.wait_for(lambda: bool(positions.found))
        assert parquet_rows(tmp_path / "lake")
        publish(hub)
        assert reading.result(60).changes == 12
    assert len(set(numbers(parquet_rows(tmp_path / "lake")))) == 12


def test_it_is_recorded_how_far_was_looked_where_nothing_was_asked_for(
    hub_place: HubPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_reading, "_RECORD_SECONDS", 0.1)
    lake, positions = tmp_path / "lake", Noted()
    with following_in_thread(hub_place, lake, positions, ("order",)) as (hub, reading, _):
        publish(hub, 3)
        positions.wait_for(lambda: sum(positions.found.values()) == 18)
        assert list(lake.iterdir()) == []
        publish(hub, 2, kind="order")
        assert reading.result(60).changes == 12
    assert sum(positions.found.values()) == 30
    assert len(parquet_rows(lake)) == 12


def test_what_is_given_out_and_not_safe_holds_its_position_back(
    hub_place: HubPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_reading, "_RECORD_SECONDS", 0.1)
    positions = Noted()
    with following_in_thread(hub_place, tmp_path / "lake", positions, ("order",)) as (hub, reading, watched):
        hub.producer.send([Message(recipient="ada", kind="order", data=number) for number in range(5)])
        positions.wait_for(lambda: sum(watched.looked_at.values()) == 5)
        hub.producer.send([Message(recipient="ada", data=number) for number in range(5)])
        positions.wait_for(lambda: sum(watched.looked_at.values()) == 10)
        positions.wait_for_another()
        assert sum(positions.found.values()) == 0
        publish(hub, 2, kind="order")
        assert reading.result(60).changes == 12
    assert sum(positions.found.values()) > 0


def test_a_file_that_cannot_be_finished_ends_it(
    hub_place: HubPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_folder, "FILE_SECONDS_MAX", 0.3)
    monkeypatch.setattr(feed_reading, "_RECORD_SECONDS", 0.1)
    lake = tmp_path / "lake"
    with following_in_thread(hub_place, lake) as (hub, reading, _):
        publish(hub)
        lake.rename(tmp_path / "elsewhere")
        publish(hub)
        with pytest.raises(Unavailable, match="could not be written"):
            reading.result(60)


def test_an_arrow_stream_does_not_go_to_a_terminal(hub_place: HubPlace) -> None:
    inner, outer = pty.openpty()
    command = [sys.executable, "-m", "restante.cli", "feed", "--format", "arrow", *hub_place.options]
    result = subprocess.run(command, stdout=outer, stderr=subprocess.PIPE, timeout=120, env=PLAIN, check=False)
    os.close(outer)
    os.close(inner)
    assert result.returncode == 2
    assert b"not for a terminal" in result.stderr
