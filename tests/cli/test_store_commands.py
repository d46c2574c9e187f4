"""Commands on a database: migrate makes its tables, the doctor examines it, copy brings a hub there and back."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import psycopg
import pytest

import restante
from restante.assembly import look_at_shards
from restante.errors import FormatUnsupported, InvalidRequest, InvalidSettings, Unavailable
from restante.hub.doctor.doctor import examine
from restante.hub.upkeep.copy import copy
from restante.model.publishing.message import Message
from restante.server.serve import start
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.postgresql import PostgresqlMoment, PostgresqlStore
from restante.stores.sqlite import SqliteStore
from tests.cli.places import run
from tests.crash.seen import Seen, seen
from tests.postgresql_server import PostgresqlServer, schema_address

SETTINGS = Settings(partition_count=4, filing=False, housekeeping_seconds=0)
NAMES = [f"recipient-{number}" for number in range(5)]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return schema_address(tmp_path)


def fill(place: str | Path) -> Seen:
    """Mail that waits, was collected, withdrawn, and lies in an open bundle; small and large."""
    with restante.open(place, settings=SETTINGS) as hub:
        hub.producer.send(
            [Message(recipient=name, id=f"{name}-{n}", data=b"small") for n in range(9) for name in NAMES]
        )
        hub.producer.send([Message(recipient=NAMES[0], id="large", data=bytes(900_000))])
        for name in NAMES[:2]:
            bundle = hub.recipient(name).peek(max_messages=3)
            assert bundle is not None
            bundle.dequeue()
        hub.recipient(NAMES[2]).withdraw(f"{NAMES[2]}-4")
        assert hub.recipient(NAMES[3]).peek(max_messages=2) is not None
        return seen(hub, NAMES)


def shown(place: str | Path) -> Seen:
    with restante.open(place, settings=SETTINGS) as hub:
        return seen(hub, NAMES)


def test_a_hub_is_copied_into_a_database_and_back(tmp_path: Path, address: str) -> None:
    before = fill(tmp_path / "data")
    answer = run("copy", "--from", str(tmp_path / "data"), "--to", address)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert shown(address) == before
    answer = run("copy", "--from", address, "--to", str(tmp_path / "back"), "--json")
    assert json.loads(answer.stdout)["partitions"] == 4
    assert run("doctor", str(tmp_path / "back")).exit_code == 0
    assert shown(tmp_path / "back") == before
    with restante.open(tmp_path / "back", settings=SETTINGS) as hub:
        receipt = hub.producer.send([Message(recipient=NAMES[0], id="large", data=bytes(900_000))])
        assert receipt.duplicates == 1


def test_a_database_in_use_is_copied_as_of_one_moment(tmp_path: Path, address: str) -> None:
    with restante.open(address, settings=SETTINGS) as hub:
        hub.producer.send([Message(recipient="ada", id="1", data=b"one")])
        with closing(PostgresqlMoment.open(address)) as moment, closing(SqliteStore.open(tmp_path / "night")) as target:
            hub.producer.send([Message(recipient="ada", id="2", data=b"two")])
            copy(moment, target)
    with closing(SqliteStore.open(tmp_path / "night")) as night:
        assert examine(night).sound
    with restante.open(tmp_path / "night", settings=SETTINGS) as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        assert [message.id for message in bundle.messages] == ["1"]


def test_nothing_is_copied_over_anything(tmp_path: Path, address: str) -> None:
    fill(tmp_path / "data")
    fill(address)
    refused = run("copy", "--from", str(tmp_path / "data"), "--to", address)
    assert (refused.exit_code, "is not new" in refused.stderr) == (1, True)
    refused = run("copy", "--from", address, "--to", str(tmp_path / "data"))
    assert (refused.exit_code, "is not empty" in refused.stderr) == (1, True)


def test_the_address_of_another_kind_of_store_is_no_name_of_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with restante.open("mail"):
        pass
    copied = run("copy", "--from", "mail", "--to", "mysql://db/mail")
    assert copied.exit_code == 1
    assert "name a folder, or a database as postgresql://user@host/database" in copied.stderr
    with pytest.raises(InvalidRequest, match="no store that there is"):
        restante.open("mysql://db/mail")
    assert [path.name for path in tmp_path.iterdir()] == ["mail"]


def test_a_copy_keeps_its_partitions_and_says_so(tmp_path: Path, address: str) -> None:
    fill(tmp_path / "data")
    assert run("migrate", "--store", address, "--shards", "2").exit_code == 0
    refused = run("copy", "--from", str(tmp_path / "data"), "--to", address)
    assert refused.exit_code == 1
    assert "made with 256 partitions, and the source has 4" in " ".join(refused.stderr.split())


def test_a_copy_that_was_cut_short_is_opened_by_nobody(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    target = MemoryStore()

    def stop(_done: int, _all: int) -> None:
        target.fail_at(0)

    with closing(SqliteStore.open(tmp_path / "data")) as source, pytest.raises(Unavailable):
        copy(source, target, progress=stop)
    with pytest.raises(FormatUnsupported):
        restante.open(None, settings=SETTINGS, store=target.survivor())


def test_an_empty_store_is_not_copied() -> None:
    with pytest.raises(InvalidRequest, match="nothing to copy"):
        copy(MemoryStore(), MemoryStore())


def test_the_doctor_examines_a_database_beside_its_hub(address: str) -> None:
    with restante.open(address, settings=SETTINGS) as hub:
        hub.producer.send([Message(recipient="ada", id="1", data=b"one")])
        answer = run("doctor", "--store", address, "--json")
        assert (answer.exit_code, json.loads(answer.stdout)["verdict"]) == (0, "sound")
        with psycopg.connect(address, autocommit=True) as session:
            session.execute("UPDATE restante_blobs SET data = overlay(data PLACING '\\xffff'::bytea FROM 100)")
        answer = run("doctor", "--store", address, "--json")
        assert (answer.exit_code, json.loads(answer.stdout)["verdict"]) == (1, "problems")


def test_the_doctor_asks_what_to_examine() -> None:
    assert "--store" in run("doctor").stderr


def test_migrate_makes_the_tables_and_then_has_nothing_to_do(address: str) -> None:
    looked = run("migrate", "--store", address, "--check", "--json")
    assert (looked.exit_code, json.loads(looked.stdout)["before"]) == (1, {"layout": None, "format": None})
    assert run("migrate", "--store", address).exit_code == 0
    assert "nothing to do" in run("migrate", "--store", address, "--check").stdout
    PostgresqlStore.open(address).close()


def test_a_hub_is_served_from_a_database(tmp_path: Path, address: str) -> None:
    settings = msgspec.structs.replace(SETTINGS, store_url=address)
    for _ in range(2):
        served = start(tmp_path / "data", settings)
        try:
            with restante.connect(served.url) as hub:
                hub.producer.send([Message(recipient="ada", id="1", data=b"one")])
                bundle = hub.recipient("ada").peek()
                assert bundle is not None
                assert [message.id for message in bundle.messages] == ["1"]
        finally:
            served.stop()
    assert not (tmp_path / "data" / "restante.db").exists()


def test_a_served_hub_says_that_its_server_has_gone_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    server = PostgresqlServer()
    served = start(tmp_path / "data", msgspec.structs.replace(SETTINGS, store_url=server.address))
    try:
        with restante.connect(served.url) as hub:
            hub.producer.send([Message(recipient="ada", id="1", data=b"one")])
            server.stop(signal.SIGQUIT)
            assert "lease" in answered(f"{served.url}/readyz", 503)
            assert "restante_messages_waiting 1.0" in answered(f"{served.url}/metrics", 200)
            answered(f"{served.url}/v1/recipients/ada/peek", 421)
            server.start()
            answered(f"{served.url}/readyz", 200)
            hub.producer.send([Message(recipient="ada", id="2", data=b"two")])
            bundle = hub.recipient("ada").peek()
            assert bundle is not None
            assert [message.id for message in bundle.messages] == ["1", "2"]
    finally:
        served.stop()
        server.remove()


def answered(url: str, status: int) -> str:
    """What is answered, as soon as it has this status."""
    while (found := asked(url))[0] != status:
        time.sleep(0.01)
    return found[1]


def asked(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_password_file_is_read_and_must_be_there(tmp_path: Path, address: str) -> None:
    named = msgspec.structs.replace(SETTINGS, store_password_file=str(tmp_path / "password"))
    with pytest.raises(InvalidSettings, match="store_password_file"):
        restante.open(address, settings=named)
    (tmp_path / "password").write_text("secret\n")
    restante.open(address, settings=named).close()


def test_migrate_makes_the_shards_of_a_new_database_and_of_no_other(address: str) -> None:
    made = run("migrate", "--store", address, "--shards", "4", "--partitions", "16")
    assert (made.exit_code, "created" in made.stdout) == (0, True)
    shared = look_at_shards(address, Settings())
    assert shared is not None
    assert [(own.start, own.stop) for own in shared.ranges] == [(0, 4), (4, 8), (8, 12), (12, 16)]
    again = run("migrate", "--store", address, "--shards", "2")
    assert (again.exit_code, "there already" in again.stderr) == (1, True)
    assert run("migrate", "--store", address).exit_code == 0
    refused = run("migrate", "--shards", "2")
    assert (refused.exit_code, "give --store" in refused.stderr) == (1, True)
    with pytest.raises(InvalidRequest, match="--node"):
        restante.open(address)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--node", "a"), "give --store too"),
        (("--node", "a", "--shards", "2", "--store", "postgresql://u@127.0.0.1:1/d"), "A node is one process"),
        (("--node", "a", "--store", "postgresql://u@127.0.0.1:1/d"), "RESTANTE_CLUSTER_SECRET"),
    ],
    ids=["no store", "several processes", "no secret"],
)
def test_a_node_that_lacks_something_says_so(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    refused = run("serve", "--data", str(tmp_path / "data"), "--port", "0", *options)
    assert (refused.exit_code, said in refused.stderr) == (1, True), refused.stderr
