"""The benchmark of the feed: everybody gives back the same mail, and a reader beside sees all that is published."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench import plots, tables
from bench.beside import InProcess as BesideInProcess
from bench.beside import OverTheWire, Side
from bench.load import CONNECTIONS
from bench.mail import Mail, recipient_names
from bench.ours_feed import WISHES, InProcess, Served
from bench.ours_wire import Restante
from bench.peers.postgresql import Postgresql
from bench.peers.valkey import Valkey
from bench.process import bytes_read
from bench.readers import Reader
from bench.server import Server
from bench.stream import KINDS, Stream, kinds_of_streams, mixed_parcels, of_kind
from bench.workloads import wire_feed

MESSAGES, PARCEL = 1_000, 100
SERVERS: dict[str, type[Server]] = {kind.name: kind for kind in (Valkey, Postgresql)}
SIDES: list[Callable[[Path], Side]] = [BesideInProcess, OverTheWire]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below `tmp_path`, which is root's alone: a server that refuses to run as root has to get there."""
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as name:
        yield Path(name)


@pytest.mark.long
@pytest.mark.parametrize("kind", kinds_of_streams(), ids=lambda kind: kind.__name__)
def test_every_way_of_a_peer_reads_everything_and_nothing_of_before(kind: type[Stream], folder: Path) -> None:
    server = SERVERS[kind.server]
    if missing := server.missing():
        pytest.skip(f"{kind.server} is {missing}")
    place = folder / "server"
    place.mkdir()
    mail = mixed_parcels(Mail(), recipients=50, messages=MESSAGES, parcel=PARCEL)
    with closing(server(place)) as started, closing(kind(started)) as stream:
        stream.fill(mail[:3])
        stream.fill(mail)
        for name, read in stream.ways().items():
            assert name.startswith(f"{kind.server}, ")
            assert [read(), read()] == [MESSAGES, MESSAGES], name
        assert stream.lesser <= stream.ways().keys()


def test_valkey_and_postgresql_are_read_beside_us() -> None:
    assert {kind.server for kind in kinds_of_streams()} == SERVERS.keys()


@pytest.mark.parametrize("kind", [InProcess, Served])
def test_our_ways_read_everything_or_what_was_asked_for(
    kind: Callable[[Path], InProcess | Served], tmp_path: Path
) -> None:
    mail = mixed_parcels(Mail(), recipients=50, messages=MESSAGES, parcel=PARCEL)
    with closing(kind(tmp_path)) as stream:
        stream.fill(mail)
        found = {name.removeprefix(stream.name): read() for name, read in stream.ways().items()}
    assert found.keys() == WISHES.keys()
    assert found.pop(", one kind of ten") == of_kind(mail, KINDS[0]) < MESSAGES
    assert set(found.values()) == {MESSAGES}


def test_octets_that_are_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "octets"
    path.write_bytes(bytes(100_000))
    before = bytes_read()
    path.read_bytes()
    assert 100_000 <= bytes_read() - before < 200_000


@pytest.mark.parametrize("kind", SIDES)
def test_publishing_beside_a_reader_is_timed_and_the_reader_sees_all_of_it(
    kind: Callable[[Path], Side], tmp_path: Path
) -> None:
    mail, names = Mail(), recipient_names(50)
    with closing(kind(tmp_path)) as side:
        side.fill([mail.table(names, PARCEL)])
        for reader in Reader:
            assert side.parcels([mail.table(names, PARCEL) for _ in range(3)], reader) > 0
            side.settle()
            assert side.singles(side.prepare_singles(mail.table(names, 2 * CONNECTIONS)), reader) > 0
        followed = [seen.changes for seen in side.seen[Reader.FOLLOWING]]
        caught_up = [seen.changes for seen in side.seen[Reader.CATCHING_UP]]
    assert followed == [1 + 3 * PARCEL, 1 + 2 * CONNECTIONS]
    assert len(caught_up) == 2
    assert min(caught_up) > 0
    assert not side.seen[Reader.NOBODY]


def test_the_plots_name_the_lines_of_the_workload(tmp_path: Path) -> None:
    assert {what for _, what, _ in plots.WIRE_FEED} == set(wire_feed.LINES.values())
    lines = [
        {"what": what, "ours": {"name": "restante", "value": 2.0}, "reference": {"name": "valkey, XREAD", "value": 1.0}}
        for what in wire_feed.LINES.values()
    ]
    drawn = plots.draw({"workloads": {"wire_feed": {"lines": lines}}}, tmp_path)
    assert [path.name for path in drawn] == ["bench-peers-feed.png"]
    assert drawn[0].stat().st_size > 1_000


LINE: dict[str, Any] = {
    "what": "commit",
    "ours": {"text": "2.00 ms"},
    "reference": {"text": "1.00 ms", "name": "plain"},
    "ratio": 2.0,
    "goal": "≤ 1 × plain",
    "met": False,
}
REPORT: dict[str, Any] = {
    "date": "2026-01-01 00:00 UTC",
    "machine": {
        "cores": 2,
        "cpu": "a processor",
        "file_system": "ext4",
        "fdatasync_4_kib_seconds": 0.0004,
        "load_average_before": 0.1,
    },
    "workloads": {"consignments": {"lines": [LINE]}, "peek": {"lines": [LINE]}},
}


class TestTablesOfTheDocs:
    def test_what_stands_between_the_markers_of_a_workload_is_replaced_and_nothing_else(self) -> None:
        page = "above\n<!-- bench:consignments -->\nold\n<!-- /bench:consignments -->\nbelow\n"
        found = tables.filled(page, REPORT)
        assert found.startswith("above\n<!-- bench:consignments -->\n\n| workload | ours |")
        assert found.endswith("<!-- /bench:consignments -->\nbelow\n")
        assert "| commit | 2.00 ms | 1.00 ms (plain) | 2.00 × | ≤ 1 × plain | **no** |" in found
        assert "Run of 2026-01-01 00:00 UTC" in found
        assert "old" not in found
        assert tables.filled(found, REPORT) == found

    def test_a_page_without_markers_stays_as_it_is(self) -> None:
        assert tables.filled("a page\n", REPORT) == "a page\n"

    def test_the_page_has_the_markers_of_the_workloads_whose_tables_are_written(self) -> None:
        page = tables.PAGE.read_text(encoding="utf-8")
        for name in ("consignments", "wire_feed", "wire_feed_beside"):
            assert page.count(f"<!-- bench:{name} -->\n") == page.count(f"<!-- /bench:{name} -->") == 1, name


def test_our_server_is_not_a_peer() -> None:
    assert Restante.name not in {kind.server for kind in kinds_of_streams()}
