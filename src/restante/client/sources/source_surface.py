"""The surface of sources that programs see: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from restante.model.sources.source_answers import SourceStatus


class Sources(Protocol):
    """How far the logs are stored that messages come from."""

    def get(self, source: str) -> SourceStatus: ...
    def list(self) -> Iterator[SourceStatus]: ...
    def reset(self, source: str, position: int | None, *, partition: int | None = None) -> SourceStatus:
        """Let what lies beyond a position be stored when it comes again; None: all of it."""
        ...

    def delete(self, source: str) -> None:
        """Forget how far a source is stored."""
        ...
