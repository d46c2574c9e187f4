"""The source when something goes wrong: every change arrives once."""

from __future__ import annotations

from pathlib import Path

import pytest

from restante.client.surface.surface import Message
from tests.spark.driving import DriverGone, Drivers
from tests.spark.gate import Gate, Passing, cut, kill_caller
from tests.spark.served import SparkHub

SNAPSHOT = r"^GET /v1/partitions/\d+/snapshot"
FEED = r"^GET /v1/partitions/\d+/feed\?after="
"""By tasks: the driver asks without a position, for the start."""
PLAN = r"^GET /v1/partitions(\?|$)"
NAMES = 60
PER_TRIGGER = "40"

Told = list[list[object]]


def publish(hub: SparkHub, first: int, last: int) -> None:
    with hub.connect() as connected:
        connected.producer.send(
            [Message(recipient=f"r{n % NAMES}", origin="grid", data=b"%d" % n) for n in range(first, last)]
        )


def collect(hub: SparkHub, *names: int) -> None:
    with hub.connect() as connected:
        for name in names:
            for bundle in connected.recipient(f"r{name}").bundles(idle=0):
                bundle.dequeue()


def options(url: str, **more: str) -> dict[str, str]:
    return {"url": url, "maxMessagesPerTrigger": PER_TRIGGER, **more}


def positions(hub: SparkHub) -> dict[int, int]:
    with hub.connect() as connected:
        return {status.partition: status.visible_sequence for status in connected.partitions()}


def fed(hub: SparkHub, after: dict[int, int] | None = None) -> Told:
    """What the feed tells a client, as the driver tells it."""
    with hub.connect() as connected, connected.feed(after=after) as feed:
        rows = [
            [page.partition, row["sequence_number"], row["change"], row["message_sequence_number"], row["recipient"], None,
             None if row["data"] is None else row["data"].decode()]
            for page in feed
            for row in page.table.to_pylist()
        ]  # fmt: skip
    return sorted(rows, key=repr)


def stored(hub: SparkHub, at: dict[int, int]) -> Told:
    """What a snapshot tells, as a stream's bootstrap tells it."""
    with hub.connect() as connected:
        rows = [
            [page.partition, row["sequence_number"], "stored", row["sequence_number"], row["recipient"], row["state"],
             row["data"].decode()]
            for page in connected.snapshot(positions=at)
            for row in page.table.to_pylist()
        ]  # fmt: skip
    return sorted(rows, key=repr)


def stream_out(drivers: Drivers, gate: Gate, tmp_path: Path, format: str, **more: str) -> None:
    drivers().ask(
        "stream_out",
        options=options(gate.url, **more),
        format=format,
        table=str(tmp_path / "table"),
        checkpoint=str(tmp_path / "checkpoint"),
    )


def table_rows(drivers: Drivers, tmp_path: Path, format: str) -> Told:
    rows: Told = drivers().ask("table_rows", format=format, table=str(tmp_path / "table"))
    return rows


def test_a_worker_that_is_killed_or_cut_off_while_it_reads_is_tried_again(
    drivers: Drivers, hub: SparkHub, tmp_path: Path
) -> None:
    publish(hub, 0, 300)
    collect(hub, 1, 2, 3)
    with Gate(hub.url) as gate:
        rules = [gate.when(FEED, before=cut), gate.when(FEED, after=cut, passes=3)]
        rules += [gate.when(FEED, before=kill_caller, passes=5), gate.when(FEED, after=kill_caller, passes=7)]
        stream_out(drivers, gate, tmp_path, "parquet", startingPosition="earliest")
        assert all(rule.acted() for rule in rules)
    assert table_rows(drivers, tmp_path, "parquet") == fed(hub)


@pytest.mark.long
def test_a_batch_read_whose_worker_is_killed_shows_one_moment(drivers: Drivers, hub: SparkHub) -> None:
    publish(hub, 0, 300)
    collect(hub, 1, 2, 3)
    at = positions(hub)

    def change_and_kill(passing: Passing) -> bool:
        publish(hub, 300, 400)
        collect(hub, 4, 5)
        assert passing.kill_caller()
        return False

    with Gate(hub.url) as gate:
        rule = gate.when(SNAPSHOT, after=change_and_kill, passes=2)
        rows = drivers().ask("batch_rows", options={"url": gate.url})
        assert rule.acted()
    told = [[row[0], row[1], "stored", row[1], *row[-3:]] for row in rows]
    assert sorted(told, key=repr) == stored(hub, at)


@pytest.mark.long
def test_a_bootstrap_whose_driver_is_killed_goes_on_as_of_the_same_moment(
    drivers: Drivers, hub: SparkHub, tmp_path: Path
) -> None:
    publish(hub, 0, 300)
    collect(hub, 1, 2, 3)
    at = positions(hub)

    def kill(_: Passing) -> bool:
        drivers.kill()
        return False

    with Gate(hub.url) as gate:
        rule = gate.when(SNAPSHOT, after=kill, passes=3)
        with pytest.raises(DriverGone):
            drivers().ask(
                "stream_out",
                options={"url": gate.url},
                format="delta",
                table=str(tmp_path / "table"),
                checkpoint=str(tmp_path / "checkpoint"),
            )
        assert rule.acted()
        publish(hub, 300, 400)
        collect(hub, 4, 5)
        stream_out(drivers, gate, tmp_path, "delta")
    assert table_rows(drivers, tmp_path, "delta") == sorted([*stored(hub, at), *fed(hub, at)], key=repr)


@pytest.mark.long
@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("moment", ["between", "within"])
def test_a_stream_whose_driver_is_killed_goes_on_without_loss_or_repetition(
    drivers: Drivers, hub: SparkHub, tmp_path: Path, format: str, moment: str
) -> None:
    publish(hub, 0, 300)
    collect(hub, 1, 2, 3)

    def kill(_: Passing) -> bool:
        drivers.kill()
        return False

    with Gate(hub.url) as gate:
        for _ in range(2):
            # Plans come between micro-batches, the feed is read within them.
            rule = gate.when(PLAN if moment == "between" else FEED, before=kill, passes=6 if moment == "between" else 9)
            with pytest.raises(DriverGone):
                stream_out(drivers, gate, tmp_path, format, startingPosition="earliest")
            assert rule.acted()
            publish(hub, 300, 320)
        stream_out(drivers, gate, tmp_path, format, startingPosition="earliest")
    assert table_rows(drivers, tmp_path, format) == fed(hub)
