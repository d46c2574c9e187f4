"""Backups: whole and consistent while the hub works, and refused when a single byte of them is wrong."""

from __future__ import annotations

import io
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

import restante
from restante.assembly import open_hub, open_store
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, FileNow
from restante.errors import DataDamaged, FormatUnsupported, InvalidRequest, RestanteError, Unavailable
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.hub.upkeep import archive
from restante.hub.upkeep.restore import restore, verify
from restante.limits import BACKUP_CHUNK_BYTES
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.message import Message, State
from restante.settings import Settings
from restante.stores.memory import MemoryStore

QUIET = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
LARGE = b"x" * 100_000
"""A few of these lie in a file of their own."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[OpenHub]:
    with closing(open_hub(tmp_path / "data", settings=QUIET)) as hub:
        yield hub


def fill(hub: OpenHub) -> None:
    for recipient in ("ada", "bob", "cara"):
        hub.call(Publish.of([Message(recipient=recipient, data=LARGE) for _ in range(4)]))
    hub.call(Publish.of([Message(recipient="dora", data=b"small")]))


def backed_up(hub: OpenHub) -> bytes:
    with hub.backup() as stream:
        return b"".join(stream)


@pytest.fixture
def backup(hub: OpenHub) -> bytes:
    fill(hub)
    return backed_up(hub)


def reader(content: bytes) -> io.BytesIO:
    return io.BytesIO(content)


def blob_files(hub_folder: Path) -> set[str]:
    return {path.name for path in (hub_folder / "blobs").iterdir()}


def fates(folder: Path, recipients: list[str]) -> dict[str, State | None]:
    """What has become of each message of these recipients, by its id."""
    found: dict[str, State | None] = {}
    with restante.open(folder, settings=QUIET) as hub:
        for name in recipients:
            after: int | None = 0
            while after is not None:
                page = hub.recipient(name).history(after=after, limit=1_000)
                found |= {str(message.id): message.state for message in page.messages}
                after = page.next
    return found


class Load:
    """Publishers and collectors at work, who note what the hub acknowledged."""

    def __init__(self, hub: OpenHub) -> None:
        self.hub = hub
        self.names = [f"recipient-{number}" for number in range(12)]
        self.published: list[str] = []
        self.collected: list[str] = []
        self.enough = threading.Semaphore(0)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._publish, self._publish, self._collect)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def rounds(self, count: int) -> None:
        for _ in range(count):
            assert self.enough.acquire(timeout=60)

    def _publish(self) -> None:
        while not self._stop.is_set():
            ids = [str(uuid4()) for _ in range(100)]
            data = LARGE[: random.choice((10, 6_000))]
            self.hub.call(
                Publish.of([Message(recipient=self.names[n % 12], id=one, data=data) for n, one in enumerate(ids)])
            )
            self.published += ids
            self.enough.release()

    def _collect(self) -> None:
        while not self._stop.is_set():
            name = random.choice(self.names)
            bundle = self.hub.call(Peek(name, max_messages=20))
            if isinstance(bundle, BundleAnswer):
                self.hub.call(Dequeue(name, bundle.bundle_id))
                self.collected += [str(message.id) for message in to_messages(bundle.table)]


def test_everything_acknowledged_before_a_backup_is_in_it_though_the_hub_works_on(tmp_path: Path) -> None:
    settings = Settings(partition_count=4, housekeeping_seconds=0.05, collected_retention_seconds=3_600)
    with closing(open_hub(tmp_path / "data", settings=settings)) as hub, Load(hub) as load:
        load.rounds(10)
        published, collected = list(load.published), list(load.collected)
        with hub.backup() as stream:
            chunks = []
            for chunk in stream:
                chunks.append(chunk)
                if len(chunks) % 10 == 0:
                    load.rounds(1)
            hub.call(FileNow())
    restore(reader(b"".join(chunks)).read, tmp_path / "restored")
    with closing(open_store(tmp_path / "restored")) as store:
        assert examine(store).sound
    found = fates(tmp_path / "restored", load.names)
    assert len(published) >= 1_000
    assert set(published) <= set(found)
    assert {found[one] for one in collected} <= {State.COLLECTED}
    assert set(found) <= set(load.published), "and nothing that nobody sent"


def test_a_backup_is_as_large_as_it_says_and_comes_in_bounded_chunks(hub: OpenHub) -> None:
    hub.call(Publish.of([Message(recipient="ada", data=LARGE) for _ in range(40)]))
    with hub.backup() as stream:
        sizes = [len(chunk) for chunk in stream]
        assert sum(sizes) == stream.size_bytes > 4_000_000
    assert max(sizes) <= BACKUP_CHUNK_BYTES


def test_a_backup_is_an_ordinary_tar_with_a_manifest(backup: bytes) -> None:
    with tarfile.open(fileobj=reader(backup)) as tar:
        names = tar.getnames()
        content = tar.extractfile("manifest.json")
        assert content is not None
        manifest = msgspec.json.decode(content.read(), type=archive.Manifest)
    assert names == ["restante.db", *(f"blobs/{number:012d}" for number in (1, 2, 3)), *names[-2:]]
    assert names[-2:] == ["manifest.json", "manifest.sha256"]
    assert manifest.partition_count == 2
    assert verify(reader(backup).read) == manifest


def test_files_that_are_dropped_meanwhile_stay_until_the_backup_has_ended(hub: OpenHub, tmp_path: Path) -> None:
    fill(hub)
    before = blob_files(tmp_path / "data")
    with hub.backup() as stream:
        for name in ("ada", "bob", "cara"):
            hub.call(Erase(name))
        hub.core.store.checkpoint()
        assert blob_files(tmp_path / "data") >= before
        content = b"".join(stream)
    assert not blob_files(tmp_path / "data") & before
    restore(reader(content).read, tmp_path / "restored")
    assert set(fates(tmp_path / "restored", ["ada", "bob", "cara"]).values()) == {State.WAITING}


def test_a_backup_leaves_nothing_in_the_folder(hub: OpenHub, tmp_path: Path, backup: bytes) -> None:
    assert {path.name for path in (tmp_path / "data").iterdir()} <= {
        "lock",
        "blobs",
        "restante.db",
        "restante.db-wal",
        "restante.db-shm",
        "log-0",
    }


def test_what_a_crash_left_of_a_backup_goes_at_the_next_opening(tmp_path: Path) -> None:
    open_hub(tmp_path).close()
    before = sorted(tmp_path.iterdir())
    for name in ("backup-crashed.db", "backup-crashed.db-wal"):
        (tmp_path / name).write_bytes(b"half of it")
    open_hub(tmp_path).close()
    assert sorted(tmp_path.iterdir()) == before


def test_one_backup_at_a_time(hub: OpenHub) -> None:
    with hub.backup(), pytest.raises(Unavailable, match="under way already"):
        hub.backup()
    assert verify(reader(backed_up(hub)).read).partition_count == 2


def test_closing_the_hub_ends_a_backup_with_an_error(hub: OpenHub) -> None:
    fill(hub)
    with hub.backup() as stream:
        chunks = iter(stream)
        next(chunks)
        hub.close()
        with pytest.raises(Unavailable, match="closed"):
            list(chunks)


def test_an_engine_without_snapshots_says_so() -> None:
    with (
        closing(open_hub(None, store=MemoryStore(), settings=QUIET)) as hub,
        pytest.raises(InvalidRequest, match="This store has no backup of its own"),
    ):
        hub.backup()


def test_a_missing_blob_file_is_no_sound_backup(hub: OpenHub, tmp_path: Path) -> None:
    fill(hub)
    min((tmp_path / "data" / "blobs").iterdir()).unlink()
    with pytest.raises(DataDamaged, match="is missing, so there is no sound backup"):
        hub.backup()
    hub.call(Publish.of(Message(recipient="ada", data=b"the hub goes on")))


@pytest.mark.parametrize("share", [0, 0.0001, 0.01, 0.5, 0.99, 0.9999])
def test_a_backup_that_was_cut_short_is_refused(backup: bytes, tmp_path: Path, share: float) -> None:
    cut = backup[: int(len(backup) * share)]
    with pytest.raises(DataDamaged, match="cut short"):
        verify(reader(cut).read)
    with pytest.raises(DataDamaged, match="cut short"):
        restore(reader(cut).read, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_no_byte_of_a_backup_can_be_changed_unnoticed(hub: OpenHub) -> None:
    hub.call(Publish.of([Message(recipient="ada", data=b"y" * 300_000)]))
    backup = backed_up(hub)
    edges = [at for start in range(0, len(backup), 512) for at in (start, start + 511)]
    chosen = random.Random(4).sample(edges, 150) + list(range(512)) + list(range(len(backup) - 4_096, len(backup), 3))
    for at in chosen:
        changed = bytearray(backup)
        changed[at] ^= 0x20
        with pytest.raises(RestanteError):
            verify(reader(bytes(changed)).read)


def test_a_damaged_backup_leaves_an_empty_folder_empty(backup: bytes, tmp_path: Path) -> None:
    changed = bytearray(backup)
    changed[len(backup) // 2] ^= 1
    folder = tmp_path / "restored"
    folder.mkdir()
    with pytest.raises(DataDamaged, match=r"blobs/0000\d+ in the backup fails its checksum"):
        restore(reader(bytes(changed)).read, folder)
    assert list(folder.iterdir()) == []


def test_something_behind_the_end_is_refused(backup: bytes) -> None:
    with pytest.raises(DataDamaged, match="goes on after its end"):
        verify(reader(backup + b"\0").read)


@pytest.mark.parametrize("content", [b"no tar at all " * 100, bytes(10_240)])
def test_a_file_that_is_no_backup_is_named_so(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not a backup"):
        verify(reader(content).read)


def test_a_folder_in_use_is_refused_and_left_alone(backup: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    with pytest.raises(InvalidRequest, match="is not empty"):
        restore(reader(backup).read, folder)
    assert [path.name for path in folder.iterdir()] == ["precious"]


def test_a_backup_is_read_from_a_source_that_gives_little_at_a_time(backup: bytes, tmp_path: Path) -> None:
    source = reader(backup)
    restore(lambda size: source.read(min(size, 1_000)), tmp_path / "restored")
    assert len(fates(tmp_path / "restored", ["ada", "bob", "cara", "dora"])) == 13


def entry(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname, info.mode = len(content), kind, target, 0o600
    return info.tobuf(tarfile.GNU_FORMAT) + content + archive.padding(len(content))


HOSTILE = {
    "a way up": entry("../evil", b"evil"),
    "a way up among the blobs": entry("blobs/../../evil", b"evil"),
    "an absolute path": entry("/tmp/evil", b"evil"),
    "a symbolic link": entry("blobs/000000000001", b"", tarfile.SYMTYPE, "/etc"),
    "a folder": entry("blobs/000000000001", b"", tarfile.DIRTYPE),
    "a hard link": entry("blobs/000000000001", b"", tarfile.LNKTYPE, "/etc/passwd"),
    "another name": entry("tokens.json", b"{}"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_backup_writes_nothing_anywhere(hostile: bytes, tmp_path: Path) -> None:
    content = entry("restante.db", b"database") + hostile + archive.END
    with pytest.raises(DataDamaged):
        restore(reader(content).read, tmp_path / "inner" / "restored")
    assert [path.name for path in tmp_path.rglob("*")] == ["inner"]


def sealed(manifest: bytes, *parts: bytes) -> bytes:
    ends = entry("manifest.json", manifest) + entry("manifest.sha256", archive.seal(manifest)) + archive.END
    return b"".join(parts) + ends


def test_a_backup_of_a_newer_format_asks_for_the_newer_version() -> None:
    manifest = b'{"format": 3, "something": "new"}'
    with pytest.raises(FormatUnsupported, match="format 3"):
        verify(reader(sealed(manifest, entry("restante.db", b"database"))).read)


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, backup: bytes) -> None:
    manifest = verify(reader(backup).read)
    doubled = msgspec.structs.replace(manifest, files=(manifest.files[0],) * 2)
    size = archive.BLOCK + manifest.files[0].bytes + len(archive.padding(manifest.files[0].bytes))
    content = sealed(archive.encode_manifest(doubled), backup[:size], backup[:size])
    with pytest.raises(DataDamaged, match="does not hold the files"):
        verify(reader(content).read)
    with pytest.raises(DataDamaged, match=r"holds restante.db twice"):
        restore(reader(content).read, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
