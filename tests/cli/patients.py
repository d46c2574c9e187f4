"""Stores to be examined by a doctor: a lively one with some of everything, and ways to damage it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import msgspec
import numpy as np
import xxhash

import restante
from restante.hub.doctor.doctor import Report, examine
from restante.hub.engine.partitions import PARTITION_KEY, PartitionRow
from restante.limits import BLOCK_BYTES
from restante.model.publishing.message import Message
from restante.model.storage.change import decode_change
from restante.model.storage.changes import BlobKey, Changes, Space
from restante.model.storage.row_formats import DRAWER, RECORD
from restante.model.storage.run import RunRow, decode_run
from restante.model.storage.segment import Area, Segment, block_checks, decode
from restante.ports.content import Content, OriginPort
from restante.ports.store import Store
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.hub.engines import FakeClock

Patch = Callable[[Any], None]


def fill(store: Store, *, partitions: int = 1) -> None:
    """Some of everything: shelves and mailbags, bundles open and closed, contents, messages in every state."""
    clock = FakeClock()
    settings = Settings(partition_count=partitions, filing=False, housekeeping_seconds=0)
    ports = {"claims": OriginPort(content=lambda request: Content(data=b"content " * 100, media_type="text/plain"))}
    hub = restante.open(None, store=cast("Store", _Kept(store)), settings=settings, origins=ports, clock=clock)
    ids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(12)]
    soon = datetime.fromtimestamp(clock.now / 1e6, UTC) + timedelta(seconds=10)
    hub.producer.send([_letter("cara", id=name, properties={"n": name}) for name in ids])
    for number in range(9):
        hub.producer.send([_letter(name, kind=f"k{number % 2}") for name in ("ada", "bob", "dora") for _ in range(40)])
    hub.producer.send([_letter("cara", expires_at=soon), _letter("erik"), _letter("fred", expires_at=soon)])
    hub.producer.send([Message(recipient="dora", origin="claims") for _ in range(3)])
    hub.recipient("cara").withdraw(ids[3])
    hub.recipient("cara").set_aside(ids[5])
    _collect(hub, "cara", 8, dequeue=True)
    hub.recipient("cara").release(ids[5])
    _collect(hub, "bob", 30, dequeue=True)
    _collect(hub, "bob", 20, dequeue=False)
    assert hub.recipient("dora").peek(origins=["claims"]) is not None
    hub.file()
    hub.recipient("erik").erase()
    clock.advance(60)
    hub.expire()
    hub.producer.send([_letter("ada"), _letter("bob")])
    hub.close()


@cache
def _filled() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


def filled_memory() -> MemoryStore:
    """A store in memory that was filled, once for all who ask."""
    return _filled().survivor()


class _Kept:
    """Lets a hub close without closing its store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def close(self) -> None:
        pass


def _letter(recipient: str, **fields: Any) -> Message:
    return Message(recipient=recipient, data=b"a letter " * 20, **fields)


def _collect(hub: Any, name: str, messages: int, *, dequeue: bool) -> None:
    bundle = hub.recipient(name).peek(max_messages=messages)
    assert bundle is not None
    if dequeue:
        bundle.dequeue()


class Patient:
    """A store that tests damage through its own port."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._fence = store.raise_fences(1)

    def examined(self) -> Report:
        return examine(self.store)

    def entries(self, space: Space) -> list[tuple[bytes, bytes]]:
        return self.store.scan(0, space)

    def put(self, space: Space, key: bytes, value: bytes | None) -> None:
        changes = Changes(fences={0: self._fence})
        if value is None:
            changes.delete(0, space, key)
        else:
            changes.put(0, space, key, value)
        self.store.commit(changes)

    def edit(self, space: Space, which: int, edited: Callable[[Any], object]) -> None:
        """Change one entry of a space, given and taken as plain lists."""
        key, value = self.entries(space)[which]
        self.put(space, key, msgspec.msgpack.encode(edited(msgspec.msgpack.decode(value))))

    def edit_counters(self, **fields: int) -> None:
        value = self.store.get(0, Space.PARTITION, PARTITION_KEY)
        assert value is not None
        row = msgspec.msgpack.decode(value, type=PartitionRow)
        self.put(Space.PARTITION, PARTITION_KEY, msgspec.msgpack.encode(msgspec.structs.replace(row, **fields)))

    def runs(self) -> list[RunRow]:
        rows = [decode_run(value) for _, value in self.entries(Space.RUN)]
        return sorted(rows, key=lambda row: -row.rows)

    def change(self, kind: str) -> tuple[bytes, bytes]:
        return next(entry for entry in self.entries(Space.CHANGE) if decode_change(entry[1]).kind.value == kind)

    def head_of(self, recipient: str) -> tuple[bytes, bytes]:
        return next(entry for entry in self.entries(Space.HEAD) if recipient.encode() in entry[0])

    def edit_head(self, recipient: str, edited: Callable[[Any], object]) -> None:
        key, value = self.head_of(recipient)
        self.put(Space.HEAD, key, msgspec.msgpack.encode(edited(msgspec.msgpack.decode(value))))

    # Blobs.

    def largest(self) -> tuple[BlobKey, Segment, bytearray]:
        """The segment of the largest run, and its bytes."""
        place = self.runs()[0].segments[0]
        content = bytearray(self.store.read_blob(BlobKey(0, place.blob), 0, place.length))
        return BlobKey(0, place.blob), decode(bytes(content[: place.front])), content

    def drop(self, blob: BlobKey) -> None:
        self.store.commit(Changes(dropped=[blob], fences={0: self._fence}))

    def replace(self, blob: BlobKey, content: bytes | bytearray) -> None:
        self.drop(blob)
        self.store.checkpoint()  # else the number counts as used
        self.store.put_blob(blob, [bytes(content)], fence=self._fence)

    def flip(self, area: Area, at: int) -> None:
        """Flip a bit of the largest run; a negative place counts from the area's end."""
        blob, segment, content = self.largest()
        begin = segment.frame_length + (segment.ledger_length if area is Area.DATA else 0)
        length = segment.data_length if area is Area.DATA else segment.ledger_length
        content[begin + at % length] ^= 4
        self.replace(blob, content)

    def forge(self, patch: Callable[[Any, Any], None]) -> None:
        """Change the drawers' lines and the records of the largest run, with all checksums made good."""
        blob, segment, content = self.largest()
        lines = np.frombuffer(content, DRAWER, len(segment.drawers), segment.frame_length)
        records = np.frombuffer(content, RECORD, segment.rows, segment.frame_length + segment.records_at)
        patch(lines, records)
        self.replace(blob, sealed(segment, content))


def sealed(segment: Segment, content: bytearray) -> bytes:
    """The segment with its checksums computed again."""
    begin, middle = segment.frame_length, segment.frame_length + segment.ledger_length
    checks = np.concatenate([block_checks(content[begin:middle]), block_checks(content[middle:])])
    at = 48 + int.from_bytes(content[24:28], "little")
    assert len(checks) == -(-segment.ledger_length // BLOCK_BYTES) + -(-segment.data_length // BLOCK_BYTES)
    sound = bytes(content[:at]) + checks.tobytes() + bytes(content[at + checks.nbytes :])
    return sound[:8] + xxhash.xxh3_64_intdigest(sound[16:begin]).to_bytes(8, "little") + sound[16:]
