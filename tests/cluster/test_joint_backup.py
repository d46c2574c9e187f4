"""A backup of several shards is one cut: made under load, restored, examined, and served again."""

from __future__ import annotations

import http.client
import io
import itertools
import json
import sqlite3
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import restante
from restante.cli import app
from restante.client.surface.sync import Hub
from restante.cluster.restored_shards import restore
from restante.errors import DataDamaged, RestanteError
from restante.hub.upkeep.restore import verify
from restante.model.batches.batch_answers import BatchState
from tests.cluster.several import SeveralHub
from tests.cluster.test_doctored_folders import doctor, fill
from tests.cluster.test_doors import names
from tests.profiles import by_profile
from tests.server.wire import Wire
from tests.waiting import wait_until

EVERYBODY = [names(shard)[0] for shard in range(4)]
RESTORED = "restored"


@pytest.fixture
def several(tmp_path: Path) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path / "data")
    yield running
    running.stop()


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def mail_of(hub: Hub, name: str) -> list[str]:
    """The texts of all messages of a mailbox, whatever became of them."""
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = hub.recipient(name).history(after=after, limit=1_000)
        found += [str(message.text) for message in page.messages]
        after = page.next
    return found


class Load:
    """Three callers that go on until they are told to stop; they note what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stopping = threading.Event()
        self.sent: list[int] = []
        self.consigned: list[int] = []
        self.batches: dict[int, str] = {}
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._go_on, args=(one,)) for one in (self._send, self._consign, self._bind)
        ]
        for thread in self._threads:
            thread.start()

    def _go_on(self, one: object) -> None:
        assert callable(one)
        try:
            with restante.connect(self.url) as hub:
                for number in itertools.count():
                    if self.stopping.is_set():
                        return
                    one(hub, number)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test is to see it
            self.failures.append(error)

    def _send(self, hub: Hub, number: int) -> None:
        hub.producer.send([restante.Message(recipient=name, text=f"sent {number}") for name in EVERYBODY])
        self.sent.append(number)

    def _consign(self, hub: Hub, number: int) -> None:
        with hub.consignment(f"night {number}", batch=True) as night:
            night.stage("w", 0, [restante.Message(recipient=name, text=f"consigned {number}") for name in EVERYBODY])
        self.consigned.append(number)

    def _bind(self, hub: Hub, number: int) -> None:
        with hub.batches.open() as batch:
            self.batches[number] = batch.id
            letters = [restante.Message(recipient=name, text=f"bound {number}") for name in EVERYBODY]
            hub.producer.send(letters, batch=batch)

    def stop(self) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures


def test_a_backup_under_load_is_one_cut(several: SeveralHub, tmp_path: Path) -> None:
    load = Load(several.url)
    backups, held = [], []
    for number in range(by_profile(dev=1, ci=4)):
        before = len(load.sent), len(load.consigned)
        while min(len(load.sent) - before[0], len(load.consigned) - before[1]) < 3:
            assert not load.failures, load.failures
            threading.Event().wait(0.01)
        known = tuple(load.sent), tuple(load.consigned)
        content = Wire(several.url).get("/v1/backup").body
        manifest = verify(io.BytesIO(content).read)
        held.append(manifest.held_ms)
        backups.append((number, content, known))
    load.stop()
    assert min(held) > 0, "each says for how long commits were held"
    for number, content, (sent, consigned) in backups:
        folder = tmp_path / f"{RESTORED} {number}"
        restore(io.BytesIO(content).read, folder)
        report = doctor(folder)
        assert report["verdict"] == "sound", report
        _look_at(folder, sent, consigned)


def consigned_everywhere(hub: Hub) -> bool:
    mail = [mail_of(hub, name) for name in EVERYBODY]
    return len({tuple(text for text in own if text.startswith("consigned")) for own in mail}) == 1


def _look_at(folder: Path, sent: tuple[int, ...], consigned: tuple[int, ...]) -> None:
    """All that was acknowledged is there; what was under way is there wholly or not at all."""
    running = SeveralHub(folder)
    try:
        with restante.connect(running.url) as hub:
            for status in hub.consignments(state="open"):
                hub.consignment(status.key).discard()
            wait_until(lambda: consigned_everywhere(hub), "what was decided is applied in all shards")
            for own in [mail_of(hub, name) for name in EVERYBODY]:
                assert len(set(own)) == len(own)
                assert {f"sent {number}" for number in sent} <= set(own)
                assert {f"consigned {number}" for number in consigned} <= set(own)
                for kind in ("sent", "consigned", "bound"):
                    numbers = [int(text.split()[1]) for text in own if text.startswith(f"{kind} ")]
                    assert numbers == list(range(len(numbers)))
            for batch in hub.batches.list(state="open"):
                hub.batches.get(batch.id).seal()
            for name in EVERYBODY:
                while (bundle := hub.recipient(name).peek()) is not None:
                    bundle.dequeue()
            for batch in hub.batches.list():
                assert hub.batches.get(batch.id).completed().state is BatchState.COMPLETE
    finally:
        running.stop()
    assert doctor(folder)["verdict"] == "sound"


def test_a_folder_of_several_shards_is_backed_up_and_restored_by_commands(several: SeveralHub, tmp_path: Path) -> None:
    fill(several.url)
    over_http = tmp_path / "http.tar"
    told = json.loads(command("backup", str(over_http), "--hub", several.url, "--json"))
    assert told["partition_count"] == 16
    several.stop()
    from_folder = tmp_path / "folder.tar"
    command("backup", str(from_folder), "--data", str(tmp_path / "data"))
    for file in (over_http, from_folder):
        with tarfile.open(file) as archive:
            assert archive.getnames() == [*(f"shard-{n}.tar" for n in range(4)), "manifest.json", "manifest.sha256"]
        command("restore", str(file), "--dry-run")
        restored = tmp_path / file.stem
        assert "sound" in command("restore", str(file), "--data", str(restored))
        assert doctor(restored)["checked"] | {"messages": 8, "batches": 3} == doctor(restored)["checked"]


def fences(folder: Path) -> dict[int, int]:
    with closing(sqlite3.connect(folder / "restante.db")) as database:
        return dict(database.execute("SELECT partition, fence FROM fences"))


def test_restored_fences_are_beyond_all_that_lived(several: SeveralHub, tmp_path: Path) -> None:
    fill(several.url)
    content = Wire(several.url).get("/v1/backup").body
    for _ in range(3):
        several.stop_shard(1)
        several.start_shard(1)
    several.stop()
    restore(io.BytesIO(content).read, tmp_path / RESTORED)
    for shard in range(4):
        lived = max(fences(tmp_path / "data" / f"shard-{shard}").values())
        assert min(fences(tmp_path / RESTORED / f"shard-{shard}").values()) > lived


def test_every_byte_of_a_joint_backup_counts(several: SeveralHub, tmp_path: Path) -> None:
    fill(several.url)
    content = Wire(several.url).get("/v1/backup").body
    step = max(1, len(content) // 97)
    for at in range(700, len(content), step):
        damaged = bytearray(content)
        damaged[at] ^= 1
        with pytest.raises(RestanteError):
            restore(io.BytesIO(bytes(damaged)).read, tmp_path / RESTORED)
        assert not (tmp_path / RESTORED).exists()
    with pytest.raises(DataDamaged):
        verify(io.BytesIO(content[:-600]).read)


def test_a_backup_that_is_given_up_keeps_nobody_from_the_next(several: SeveralHub) -> None:
    fill(several.url)
    for _ in range(3):
        connection = http.client.HTTPConnection(*Wire(several.url).address, timeout=30)
        connection.request("GET", "/v1/backup")
        assert connection.getresponse().status == 200
        connection.close()
    last = Wire(several.url)
    for _ in range(50):
        answer = last.get("/v1/backup")
        if answer.status == 200:
            return
        assert "under way already" in answer.problem["detail"]
    raise AssertionError("a backup that nobody reads is not let go of")


def test_a_silent_shard_makes_no_smaller_backup(several: SeveralHub) -> None:
    several.stop_shard(2)
    assert Wire(several.url).get("/v1/backup").status == 503
    several.start_shard(2)
    assert Wire(several.url).get("/v1/backup").status == 200
