"""A hub as Spark's tasks see it, by its URL alone: in threads of this process, or in processes that a test may kill."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

import restante
from restante.client.surface.surface import Hub
from restante.server.serve import ServedHub, start
from tests.cluster.several import SeveralHub
from tests.crash.served import Served


class SparkHub(ABC):
    """A hub at a URL. Whoever connects closes what it got."""

    url: str
    folder: Path
    token: str | None = None

    def connect(self) -> Hub:
        return restante.connect(self.url, token=self.token)

    @abstractmethod
    def be_gone(self) -> None:
        """From now on nobody answers there."""

    @abstractmethod
    def another(self) -> SparkHub:
        """An empty hub of the same kind; it is started by `with`."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class HubHere(SparkHub):
    """A hub in threads of this process, of one shard or of several behind doors. It starts in milliseconds."""

    def __init__(self, folder: Path, *, several: bool = False) -> None:
        self.folder = folder
        self._several = several
        self._running: ServedHub | SeveralHub | None = None

    def be_gone(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    def another(self) -> HubHere:
        return HubHere(self.folder.parent / "another", several=self._several)

    def __enter__(self) -> Self:
        self._running = SeveralHub(self.folder) if self._several else start(self.folder)
        self.url = self._running.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.be_gone()


class HubProcess(Served, SparkHub):
    """A hub in a process of its own, or in several."""

    def be_gone(self) -> None:
        self.kill()

    def another(self) -> HubProcess:
        return HubProcess(self.folder.parent / "another", *self._options)

    def restart(self) -> None:
        """On the same folder and port, whether it was killed or still runs."""
        if self.process.poll() is None:
            self.end()
        self.start()
