"""A backplane as operators see it: status, refused records, metrics, health, commands, the doctor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import restante
from restante.assembly import open_store
from restante.calls.backplane import (
    DeleteRefusedRecord,
    ListRefusedRecords,
    ReadBackplane,
    ReadRefusedRecord,
    RepeatRefusedRecord,
)
from restante.calls.removal import RetainNow
from restante.cli import app
from restante.client.surface.surface import Bundle
from restante.client.surface.sync import Hub
from restante.errors import MessageConflict, NotFound
from restante.hub.backplane.status import forget_poison
from restante.hub.doctor.doctor import examine
from restante.server.serve import ServedHub, start
from restante.settings import BackplaneSettings, Settings
from tests.backplane.memory_backplane import MemoryBackplane

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, backplane=BackplaneSettings(stored_seconds=5))


@pytest.fixture
def log() -> MemoryBackplane:
    return MemoryBackplane(4)


@pytest.fixture
def served(log: MemoryBackplane, tmp_path: Path) -> Iterator[ServedHub]:
    with start(tmp_path / "data", SETTINGS, backplane=log) as running:
        yield running


@pytest.fixture
def hub(served: ServedHub) -> Iterator[Hub]:
    with restante.connect(served.url, retries=0) as hub:
        yield hub


def refuse(hub: Hub, count: int) -> None:
    """So many records that are in conflict with what is stored."""
    hub.send(recipient="ada", id="one", text="first")
    for number in range(count):
        with pytest.raises(MessageConflict):
            hub.send(recipient="ada", id="one", text=f"other {number}")


def test_refused_records_are_listed_with_their_reasons_and_forgotten(hub: Hub) -> None:
    refuse(hub, 3)
    first = hub.link.call(ListRefusedRecords(limit=2))
    rest = hub.link.call(ListRefusedRecords(limit=2, after=first.next))
    found = [*first.records, *rest.records]
    assert ([own.position for own in found], rest.next) == ([1, 2, 3], None)
    assert {(own.code, own.messages, own.partition) for own in found} == {
        ("message_conflict", 1, hub.partition_of("ada"))
    }
    assert "other content" in found[0].errors[0].detail
    hub.link.call(DeleteRefusedRecord(found[0].partition, found[0].position))
    with pytest.raises(NotFound):
        hub.link.call(DeleteRefusedRecord(found[0].partition, found[0].position))
    assert [own.position for own in hub.link.call(ListRefusedRecords()).records] == [2, 3]


def test_the_status_says_how_far_the_log_is_stored(hub: Hub, log: MemoryBackplane) -> None:
    refuse(hub, 1)
    status = hub.link.call(ReadBackplane())
    assert (status.topic, status.failure, status.records, status.messages, status.refused) == ("memory", None, 2, 1, 1)
    own = status.partitions[hub.partition_of("ada")]
    assert (own.position, own.lag) == (1, 0)
    log.away = "no broker"
    away = hub.link.call(ReadBackplane())
    assert away.failure is not None
    assert [each.lag for each in away.partitions] == [None] * 4


def test_metrics_count_what_went_through(served: ServedHub, hub: Hub) -> None:
    refuse(hub, 1)
    metrics = served.desk.metrics.text().decode()
    assert "restante_backplane_records_total 2.0" in metrics
    assert "restante_backplane_refused_total 1.0" in metrics
    assert "restante_backplane_waiting 0.0" in metrics


def test_health_has_a_leaf_that_is_red_while_the_log_is_away(served: ServedHub, log: MemoryBackplane) -> None:
    leaves = {leaf.name: leaf for leaf in served.desk.hub.health_leaves()}
    assert [reading.value for reading in leaves["doors/backplane"].readings] == [0, 0]
    log.away = "no broker"
    leaves = {leaf.name: leaf for leaf in served.desk.hub.health_leaves()}
    away = leaves["doors/backplane"].readings[0]
    assert (away.name, away.value) == ("away", 1)
    assert "no broker" in str(away.reason)


def test_commands_show_it(served: ServedHub, hub: Hub) -> None:
    refuse(hub, 1)
    shown = _command(served, "show")
    assert "The topic memory: it is read and stored." in shown
    assert "2 records read, 1 message stored, 1 refused" in shown
    (record,) = json.loads(_command(served, "refused", "--json"))["records"]
    assert "other content" in record["reason"]
    place = str(record["partition"]), str(record["position"])
    assert "Would remove the refused record" in _command(served, "forget", *place, "--dry-run")
    assert "Would try the refused record" in _command(served, "again", "--all", "--dry-run")
    assert len(json.loads(_command(served, "refused", "--json"))["records"]) == 1
    again = _run(served, "again", *place)
    assert (again.exit_code, "Refused again: the refused record" in again.stdout) == (1, True)
    assert _run(served, "again").exit_code == 2
    assert _run(served, "again", *place, "--all").exit_code == 2
    assert "Removed the refused record" in _command(served, "forget", *place, "--yes")
    assert "No record was refused." in _command(served, "refused")


def test_a_refused_record_is_stored_when_nothing_stands_in_its_way_any_more(
    log: MemoryBackplane, tmp_path: Path
) -> None:
    settings = Settings(partition_count=4, housekeeping_seconds=0, collected_retention_seconds=0)
    with start(tmp_path / "data", settings, backplane=log) as running, restante.connect(running.url, retries=0) as hub:
        _repeat_refused(hub)


def _repeat_refused(hub: Hub) -> None:
    refuse(hub, 2)
    first, second = hub.link.call(ListRefusedRecords()).records
    with pytest.raises(MessageConflict):
        hub.link.call(RepeatRefusedRecord(first.partition, first.position))
    assert hub.link.call(ReadRefusedRecord(first.partition, first.position)) == first
    _bundle(hub, "ada").dequeue()
    hub.link.call(RetainNow())  # the id of the first message is forgotten with it
    receipt = hub.link.call(RepeatRefusedRecord(first.partition, first.position))
    assert (receipt.accepted, receipt.duplicates, len(receipt.partitions)) == (1, 0, 1)
    assert [message.text for message in _bundle(hub, "ada").messages] == ["other 0"]
    with pytest.raises(NotFound):
        hub.link.call(RepeatRefusedRecord(first.partition, first.position))
    assert hub.link.call(ListRefusedRecords()).records == (second,)


def test_send_may_be_content_with_the_backplane(served: ServedHub, hub: Hub, tmp_path: Path) -> None:
    lines = tmp_path / "mail.jsonl"
    lines.write_text("".join(json.dumps({"recipient": "bob", "text": f"{n}"}) + "\n" for n in range(3)))
    one = _sent(served, "--recipient", "bob", "--text", "hello", "--accept", "accepted")
    many = _sent(served, str(lines), "--accept", "accepted", "--json")
    assert "1 message accepted" in one
    assert {name: json.loads(many)[name] for name in ("accepted", "stored")} == {"accepted": 3, "stored": False}
    assert "1 message stored" in _sent(served, "--recipient", "bob", "--text", "last", "--accept", "stored")
    found = [message.text for message in _bundle(hub, "bob").messages]
    assert found == ["hello", "0", "1", "2", "last"]


def _bundle(hub: Hub, name: str) -> Bundle:
    while (bundle := hub.recipient(name).peek(wait=20)) is None:
        pass
    return bundle


def _sent(served: ServedHub, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["send", *arguments, "--hub", served.url])
    assert done.exit_code == 0, done.output
    return done.stdout


def _command(served: ServedHub, *arguments: str) -> str:
    done = _run(served, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def _run(served: ServedHub, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["backplane", *arguments, "--hub", served.url])


def test_refused_records_pass_the_doctor_and_go_with_time(log: MemoryBackplane, tmp_path: Path) -> None:
    settings = Settings(partition_count=4, housekeeping_seconds=0, collected_retention_seconds=0)
    with start(tmp_path / "data", settings, backplane=log) as running, restante.connect(running.url, retries=0) as hub:
        refuse(hub, 2)
        core = running.desk.hub.core
        assert (forget_poison(core), forget_poison(core)) == (2, 0)
        refuse(hub, 1)
    store = open_store(tmp_path / "data")
    assert examine(store).sound
    store.close()
