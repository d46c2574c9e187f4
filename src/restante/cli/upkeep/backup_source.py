"""Where the bytes of a backup come from: a hub that runs, or a data folder that none has open."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from restante.cli.shared.hub_options import Door, open_hub_of
from restante.client.transport.address import HubAddress, address_of
from restante.errors import RestanteError, Unavailable
from restante.wire.problems import error_of

_SOCKET_SECONDS = 60.0
_PROBLEM_BYTES_MAX = 1 << 20


class BackupSource(NamedTuple):
    """`read` gives at most so many bytes, none at the end; `size_bytes` is that of all, if it is known."""

    read: Callable[[int], bytes]
    size_bytes: int | None


def source_of(door: Door) -> AbstractContextManager[BackupSource]:
    if door.data is None:
        return _of_hub(address_of(door.hub, token=door.token))
    return _of_folder(door.data)


@contextmanager
def _of_folder(folder: Path) -> Iterator[BackupSource]:
    hub = open_hub_of(folder)
    try:
        with hub.backup() as stream:
            yield BackupSource(_Chunks(iter(stream)).read, stream.size_bytes)
    finally:
        hub.close()


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
def _of_hub(address: HubAddress) -> Iterator[BackupSource]:
    with _translated(address):
        answer = _asked(address)

    def read(size: int) -> bytes:
        # Here, so that whoever writes the file does not take it for a failure of his own.
        with _translated(address):
            return answer.read(size)

    with answer:
        length = answer.headers.get("Content-Length")
        yield BackupSource(read, int(length) if length else None)


@contextmanager
def _translated(address: HubAddress) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        raise _told(error) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"The hub at {address.url} did not give its backup: {reason}. Is it running?") from error


def _asked(address: HubAddress) -> http.client.HTTPResponse:
    request = urllib.request.Request(f"{address.url}/v1/backup", headers=address.credentials())
    # What is on this machine is not asked through a proxy.
    proxies = [urllib.request.ProxyHandler({})] if address.local else []
    answer: http.client.HTTPResponse = urllib.request.build_opener(*proxies).open(request, timeout=_SOCKET_SECONDS)
    return answer


def _told(error: urllib.error.HTTPError) -> RestanteError:
    with error:
        try:
            return error_of(msgspec.json.decode(error.read(_PROBLEM_BYTES_MAX), type=dict[str, object]))
        except msgspec.MsgspecError:
            return Unavailable(f"{error.url} answered {error.code} {error.reason}. Is a hub there?")
