"""No room: nothing acknowledged is lost, the error says so, and the hub goes on when there is room again."""

from __future__ import annotations

import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import StorageFull
from restante.limits import KIB, MIB
from restante.model.publishing.message import Message, State
from restante.settings import Settings
from tests.crash.seen import check_counters, mailbox_of, seen
from tests.crash.served import Served
from tests.server.wire import Answer, Wire

CHECKOUT = Path(__file__).parents[2]
SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
NAMES = ("ada", "ben")
SENDS_MAX = 5_000


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def sent(number: int, size: int) -> list[Message]:
    """A parcel, for both recipients, of about so many bytes."""
    return [
        Message(recipient=name, id=id_of(number), data=bytes([number % 256]) * (size // 2), weight=1 + size // KIB)
        for name in NAMES
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "restante-test", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(hub: Hub, size: int) -> int:
    """Publish until there is no room; gives how many publishes were acknowledged."""
    for number in range(SENDS_MAX):
        try:
            hub.producer.send(sent(number, size))
        except StorageFull:
            return number
    raise AssertionError("the disk was never full")


def check_kept(hub: Hub, count: int) -> None:
    """Of everybody exactly what was acknowledged."""
    for name in NAMES:
        kept = mailbox_of(hub, name).history
        assert [message.id for message in kept] == [id_of(number) for number in range(count)]
        assert all(set(message.data) <= {number % 256} for number, message in enumerate(kept))


@pytest.mark.parametrize("size", [2 * KIB, 100 * KIB, 600 * KIB], ids=["small", "middling", "in files"])
def test_a_full_disk_loses_nothing_and_room_lets_the_hub_go_on(small_disk: Path, size: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes((10 if size < 100 * KIB else 8) * MIB))
    with restante.open(small_disk / "data", settings=SETTINGS) as hub:
        kept = fill(hub, size)
        assert kept
        check_kept(hub, kept)
        for _ in range(3):
            with pytest.raises(StorageFull):
                hub.producer.send([message for number in range(4) for message in sent(9_000 + number, 600 * KIB)])
        check_kept(hub, kept)
        ballast.unlink()
        hub.producer.send(sent(kept, size))
        check_kept(hub, kept + 1)
        check_counters(seen(hub, NAMES))
    with restante.open(small_disk / "data", settings=SETTINGS) as hub:
        check_kept(hub, kept + 1)
        collect(hub, kept + 1)


def collect(hub: Hub, count: int) -> None:
    for name in NAMES:
        found = 0
        for bundle in hub.recipient(name).bundles(idle=0):
            found += bundle.dequeue().messages
        assert found == count
        assert len(mailbox_of(hub, name).of(State.COLLECTED)) == count


def test_filing_that_finds_no_room_changes_nothing_and_succeeds_later(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with restante.open(small_disk / "data", settings=SETTINGS) as hub:
        for number in range(12):
            hub.producer.send(sent(number, 160 * KIB))
        ballast.write_bytes(bytes(8 * MIB + 512 * KIB))
        for _ in range(2):
            with pytest.raises(StorageFull):
                hub.file()
            check_kept(hub, 12)
        ballast.unlink()
        assert hub.file()
        check_kept(hub, 12)
    with restante.open(small_disk / "data", settings=SETTINGS) as hub:
        check_kept(hub, 12)


# A limit on the length of files does to new blob files what a full disk does, and needs no right to mount.
PUBLISH_UNDER_A_LIMIT = """
import pathlib, resource, sys
import restante
from restante.errors import StorageFull
from tests.crash.test_full import KIB, SETTINGS, check_kept, sent
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
with restante.open(pathlib.Path(sys.argv[1]), settings=SETTINGS) as hub:
    hub.producer.send(sent(0, 600 * KIB))
    resource.setrlimit(resource.RLIMIT_FSIZE, (500 * KIB, most))
    for _ in range(2):
        try:
            hub.producer.send(sent(1, 600 * KIB))
            print("acknowledged")
        except StorageFull:
            print("full")
    hub.producer.send(sent(1, 2 * KIB))
    check_kept(hub, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    hub.producer.send(sent(2, 600 * KIB))
    check_kept(hub, 3)
    print("went on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
@pytest.mark.parametrize(
    ("size", "limit", "count"), [(200 * KIB, 5 * MIB, 100), (600 * KIB, 500 * KIB, 3)], ids=["database", "files"]
)
def test_a_file_size_limit_is_a_full_disk_to_a_served_hub(tmp_path: Path, size: int, limit: int, count: int) -> None:
    with Served(tmp_path / "data", filing="false") as served, closing(Wire(served.url)) as wire:

        def publish(number: int) -> Answer:
            return wire.publish({"recipient": "ada", "id": id_of(number), "data": "x" * size})

        assert publish(0).status == 201
        _, most = resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (limit, most))
        answers = [publish(number) for number in range(1, count + 1)]
        refused = answers[-1]
        assert (refused.status, refused.problem["code"]) == (507, "storage_full")
        assert {answer.status for answer in answers} <= {201, 507}
        assert str(tmp_path).encode() not in refused.body
        assert wire.get("/livez").status == 200
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (most, most))
        again = [publish(number) for number in range(1, count + 1)]
        assert [answer.status for answer in again] == [201] * count
        before = sum(answer.status == 201 for answer in answers)
        assert sum(answer.json()["duplicates"] for answer in again) == before
        assert served.end() == 0
        served.check_folder()


def test_a_publish_that_finds_no_room_for_its_file_is_refused_and_the_hub_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PUBLISH_UNDER_A_LIMIT, str(tmp_path / "data")]
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert child.stdout.split("\n") == ["full", "full", "went on", ""], child.stderr
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        check_kept(hub, 3)
