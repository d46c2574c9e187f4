"""A real proxy between a client and a hub, that a test can cut: before a request gets through, or after it did."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 65_536


class CuttingProxy:
    """Passes bytes on, but for as many exchanges as it was told to cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._lock = threading.Lock()
        self._before = self._after = 0
        self.cuts = 0
        """How often it has cut."""
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pumps: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def cut_before(self, times: int = 1) -> None:
        """Cut when the next bytes of a request come, before the hub has seen them."""
        with self._lock:
            self._before = times

    def cut_after(self, times: int = 1) -> None:
        """Cut when the next bytes of an answer come: the hub has done it, and the client does not hear of it."""
        with self._lock:
            self._after = times

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(client)
            try:
                hub = socket.create_connection(self._target)
            except OSError:
                self._shut(client)
                continue
            self._open.add(hub)
            self.connections += 1
            for source, target, from_hub in ((client, hub, False), (hub, client, True)):
                thread = threading.Thread(target=self._pump, args=(source, target, from_hub), daemon=True)
                self._pumps.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, from_hub: bool) -> None:
        try:
            while chunk := source.recv(_CHUNK):
                if self._cuts(from_hub):
                    break
                target.sendall(chunk)
        except OSError:
            pass
        for end in (source, target):
            self._shut(end)

    def _cuts(self, from_hub: bool) -> bool:
        with self._lock:
            left = self._after if from_hub else self._before
            if not left:
                return False
            if from_hub:
                self._after -= 1
            else:
                self._before -= 1
            self.cuts += 1
            return True

    def _shut(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        for end in self._open:
            self._shut(end)
        for thread in self._pumps:
            thread.join()
        for end in self._open:
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
