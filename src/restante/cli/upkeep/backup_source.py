"""Where the bytes of a backup come from: a hub that runs, or a data folder that none has open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from restante.cli.shared.hub_options import Door, hear_client, open_hub_of
from restante.cli.shared.hub_requests import asked, told_failures
from restante.client.transport.address import HubAddress, addresses_of

if TYPE_CHECKING:
    from restante.cluster.local_shards import LocalShards
    from restante.hub.door.hub import OpenHub


class BackupSource(NamedTuple):
    """`read` gives at most so many bytes, none at the end; `size_bytes` is that of all, if it is known."""

    read: Callable[[int], bytes]
    size_bytes: int | None


def source_of(door: Door) -> AbstractContextManager[BackupSource]:
    if door.data is None:
        hear_client()
        return _of_hub(addresses_of(door.hub, token=door.token))
    return _of_folder(door.data)


@contextmanager
def _of_folder(folder: Path) -> Iterator[BackupSource]:
    hub = _opened(folder)
    try:
        with hub.backup() as stream:
            yield BackupSource(_Chunks(iter(stream)).read, stream.size_bytes)
    finally:
        hub.close()


def _opened(folder: Path) -> OpenHub | LocalShards:
    from restante.cli.shared.hub_options import settings_here
    from restante.cluster.local_shards import LocalShards
    from restante.cluster.shard_folders import read_table

    table = read_table(folder)
    return open_hub_of(folder) if table is None else LocalShards(folder, table, settings_here())


class _Chunks:
    """Chunks, read like a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = memoryview(chunk)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


@contextmanager
def _of_hub(addresses: Sequence[HubAddress]) -> Iterator[BackupSource]:
    with told_failures(addresses, "backup"):
        answer = asked(addresses, "/v1/backup")

    def read(size: int) -> bytes:
        # Here, so that the writer of the file does not take it for a failure of its own.
        with told_failures(addresses, "backup"):
            return answer.read(size)

    with answer:
        length = answer.headers.get("Content-Length")
        yield BackupSource(read, int(length) if length else None)
