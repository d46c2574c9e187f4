"""Doors and shards in processes of their own, on a real Kafka: shards are killed under load, and nobody is refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import restante
from restante.calls.backplane import ListRefusedRecords, ReadBackplane
from restante.errors import MessageConflict
from tests.cluster.test_processes import Served
from tests.cluster.test_processes import served as serve_several
from tests.kafka.broker import Broker
from tests.kafka.test_backplane_faults import Senders, check
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(280)]
SHARDS = 2


def options(broker: Broker, topic: str, folder: Path) -> tuple[str, ...]:
    settings = folder / "restante.toml"
    settings.write_text(
        f'partition_count = 4\n[backplane]\ntopic = "{topic}"\nbrokers = "{broker.address}"\nstored_seconds = 60\n'
    )
    return ("--shards", str(SHARDS), "--doors", "2", "--settings", str(settings))


def shard_process(running: Served, data: Path, number: int) -> int | None:
    """The process that has the database of a shard open."""
    database = str(data / f"shard-{number}" / "restante.db")
    for child in running.children():
        links = Path(f"/proc/{child}/fd")
        try:
            if any(str(link.readlink()) == database for link in links.iterdir()):
                return child
        except FileNotFoundError:
            continue
    return None


def kill_shard(running: Served, data: Path, number: int) -> None:
    """As soon as it is there; it is started again by the supervisor."""
    found: list[int] = []

    def is_found() -> bool:
        found.extend(filter(None, [shard_process(running, data, number)]))
        return bool(found)

    wait_until(is_found, f"shard {number} is there")
    os.kill(found[0], signal.SIGKILL)


@pytest.mark.parametrize(
    "kinds",
    [pytest.param(("accepted",), marks=pytest.mark.long), ("stored",)],
    ids=["accepted", "stored"],
)
def test_shards_are_killed_under_load_and_nobody_is_refused(
    broker: Broker, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    topic, data = broker.topic("killed-shards", partitions=4), tmp_path / "data"
    with serve_several(data, *options(broker, topic, tmp_path)) as running:
        senders = Senders(running.url, kinds, timeout=90)
        try:
            for turn in range(6):
                reached = sum(senders.sent) + 60
                wait_until(lambda reached=reached: sum(senders.sent) >= reached, "some messages")  # type: ignore[misc]
                kill_shard(running, data, turn % SHARDS)
        finally:
            senders.stop()
        assert senders.refusals == []
        check(running.url, senders)
        assert running.end() == 0


def test_a_door_tells_what_became_of_records_and_lists_what_was_refused(broker: Broker, tmp_path: Path) -> None:
    topic, data = broker.topic("door-outcomes", partitions=4), tmp_path / "data"
    with serve_several(data, *options(broker, topic, tmp_path)) as running, restante.connect(running.url) as hub:
        names = [f"c{number}" for number in range(20)]
        receipt = hub.send([{"recipient": name, "id": name, "text": "a"} for name in names])
        assert (receipt.accepted, len(receipt.partitions)) == (20, 4)
        again = hub.send([{"recipient": name, "id": name, "text": "a"} for name in names])
        assert (again.accepted, again.duplicates) == (0, 20)
        for name in names[:3]:
            with pytest.raises(MessageConflict):
                hub.send(recipient=name, id=name, text="b")
        assert len(hub.link.call(ListRefusedRecords()).records) == 3
        status = hub.link.call(ReadBackplane())
        assert (status.topic, status.failure, status.messages, status.refused) == (topic, None, 20, 3)
        assert [own.lag for own in status.partitions] == [0] * 4
        assert running.end() == 0
