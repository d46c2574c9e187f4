"""Erased for good: which bytes are gone from the data folder and from backups, and when."""

from __future__ import annotations

import io
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from restante.assembly import open_hub
from restante.calls.mailboxes import Dequeue, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, FileNow, RetainNow
from restante.hub.door.hub import OpenHub
from restante.hub.removal.scrub import scrub
from restante.hub.upkeep.restore import restore
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import Message
from restante.model.storage.changes import Space
from restante.model.storage.partition import partition_of
from restante.ports.content import Content, OriginPort
from restante.settings import Settings

QUIET = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
NAME = "erased-recipient-5c1f0a"
TEXT = b"text-that-must-go-91be27"
PROPERTY = "property-that-must-go-08d3aa"
CONTENT = b"content-that-must-go-77e04b"
SECRETS = (TEXT, PROPERTY.encode(), CONTENT)
OTHERS = tuple(f"other-{number}" for number in range(40))
KEPT = b"text-that-stays-3b6690"


def message(recipient: str, data: bytes) -> Message:
    return Message(recipient=recipient, data=data, properties={"note": PROPERTY if recipient == NAME else "kept"})


def opened(folder: Path) -> OpenHub:
    origins = {"charges": OriginPort(content=lambda _: Content(data=CONTENT * 10_000))}
    return open_hub(folder, settings=QUIET, origins=origins)


def fill(hub: OpenHub) -> None:
    """Leave the recipient's bytes wherever they may lie: log, journal, pages, free pages, files and parts of files."""
    elsewhere = next(name for name in OTHERS if partition_of(name, 2) != partition_of(NAME, 2))
    # One file, with a blob for each of two partitions.
    hub.call(
        Publish.of([message(name, data * 5_000) for name, data in ((NAME, TEXT), (elsewhere, KEPT)) for _ in range(5)])
    )
    for number in range(40):
        hub.call(Publish.of([message(NAME, TEXT * 50), message(OTHERS[number], KEPT * 50)]))
        if number % 10 == 9:
            hub.core.store.checkpoint()
            hub.call(FileNow())
    hub.call(Publish.of([Message(recipient=NAME, origin="charges", weight=1)]))
    bundle = hub.call(Peek(NAME, max_messages=3))
    assert isinstance(bundle, BundleAnswer)
    hub.call(Dequeue(NAME, bundle.bundle_id))
    content = hub.call(Peek(NAME, origins=("charges",)))
    assert isinstance(content, BundleAnswer)
    assert content.content is not None
    hub.core.store.checkpoint()
    hub.call(Publish.of([message(NAME, TEXT)]))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[OpenHub]:
    with closing(opened(tmp_path / "data")) as hub:
        fill(hub)
        yield hub


def traces(folder: Path, secrets: tuple[bytes, ...] = SECRETS) -> list[tuple[str, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    contents = [(str(path.relative_to(folder)), path.read_bytes()) for path in files]
    return [(name, secret) for name, content in contents for secret in secrets if secret in content]


def unpacked(hub: OpenHub, folder: Path) -> Path:
    with hub.backup() as stream:
        content = b"".join(stream)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    restore(io.BytesIO(content).read, folder / "restored")
    return folder


def check_others(hub: OpenHub) -> None:
    kept = [message.data for name in OTHERS for message in hub.call(ReadHistory(name, limit=1_000)).messages]
    assert len(kept) == 45
    assert all(data.startswith(KEPT) for data in kept if isinstance(data, bytes))


def where_the_name_is(folder: Path) -> set[Space]:
    """In which spaces of a closed folder's database; nowhere else."""
    with closing(sqlite3.connect(folder / "restante.db")) as database:
        rows = database.execute("SELECT space FROM entries WHERE instr(key || value, ?)", (NAME.encode(),)).fetchall()
    assert {name for name, _ in traces(folder, (NAME.encode(),))} <= {"restante.db"}
    return {Space(space) for (space,) in rows}


def test_what_is_to_be_erased_lies_everywhere_before(hub: OpenHub, tmp_path: Path) -> None:
    assert {secret for _, secret in traces(tmp_path / "data")} == set(SECRETS)
    assert {name.split("/")[0] for name, _ in traces(tmp_path / "data")} >= {"log-0", "blobs", "restante.db"}
    assert {secret for _, secret in traces(unpacked(hub, tmp_path / "backup"))} == set(SECRETS)


def test_a_backup_after_an_erasure_holds_nothing_of_it(hub: OpenHub, tmp_path: Path) -> None:
    hub.call(Erase(NAME))
    assert traces(unpacked(hub, tmp_path / "backup")) == []
    with closing(opened(tmp_path / "backup" / "restored")) as restored:
        check_others(restored)
    # One record tells the feed who was erased.
    assert where_the_name_is(tmp_path / "backup" / "restored") == {Space.CHANGE, Space.SETTLEMENT}


def test_after_the_next_housekeeping_the_folder_holds_nothing_of_it(hub: OpenHub, tmp_path: Path) -> None:
    hub.call(Erase(NAME))
    assert scrub(hub.core) == 1
    assert traces(tmp_path / "data") == []
    check_others(hub)
    assert scrub(hub.core) == 0, "there is nothing more to do"
    hub.call(Publish.of([message(OTHERS[0], KEPT)]))
    hub.close()
    assert where_the_name_is(tmp_path / "data") == {Space.CHANGE, Space.SETTLEMENT}


def test_a_hub_that_is_closed_has_scrubbed_before(hub: OpenHub, tmp_path: Path) -> None:
    hub.call(Erase(NAME))
    hub.close()
    assert traces(tmp_path / "data") == []


def test_a_crash_after_an_erasure_leaves_the_scrubbing_to_the_next_hub(hub: OpenHub, tmp_path: Path) -> None:
    hub.call(Erase(NAME))
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "data", crashed, ignore=shutil.ignore_patterns("*-shm", "lock"))
    assert traces(crashed) != []
    with closing(opened(crashed)) as after:
        after.call(RetainNow())
        assert traces(crashed) == []
        check_others(after)


def test_what_somebody_reads_or_backs_up_is_scrubbed_when_they_are_done(hub: OpenHub, tmp_path: Path) -> None:
    with hub.core.pins.reading():
        hub.call(Erase(NAME))
        assert scrub(hub.core) == 0
    with hub.backup():
        assert scrub(hub.core) == 0
    assert scrub(hub.core) == 1
    assert traces(tmp_path / "data") == []


def test_an_erasure_while_the_store_is_scrubbed_is_scrubbed_too(hub: OpenHub, tmp_path: Path) -> None:
    hub.call(Erase(NAME))
    hub.call(Publish.of([message(NAME, TEXT * 9_000), message(OTHERS[0], KEPT)]))
    store_scrub = type(hub.core.store).scrub

    class Meanwhile(type(hub.core.store)):  # type: ignore[misc]
        def scrub(self) -> bool:
            done = store_scrub(self)
            hub.call(Erase(NAME))
            return done

    kind = type(hub.core.store)
    hub.core.store.__class__ = Meanwhile
    assert scrub(hub.core) == 1
    hub.core.store.__class__ = kind
    assert traces(tmp_path / "data") != []
    assert scrub(hub.core) == 1
    assert traces(tmp_path / "data") == []
