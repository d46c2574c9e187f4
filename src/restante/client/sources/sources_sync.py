# Generated from `sources_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""Sources, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterator

from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link, where
from restante.model.sources.source import NO_POSITION
from restante.model.sources.source_answers import SourceStatus


class Sources:
    """The sources of messages, such as Kafka topics, and how far each is stored."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<Sources of the hub {where(self._link)}>"

    def get(self, source: str) -> SourceStatus:
        """How far a source is stored, by partition.

        ```python
        status = hub.sources.get("orders/3")
        ```
        """
        return self._link.call(ReadSource(source))

    def list(self) -> Iterator[SourceStatus]:
        """All sources by name, page by page as you go on.

        ```python
        for status in hub.sources.list():
            print(status.source, status.position)
        ```
        """
        return every(self._link, ListSources(), lambda page: page.sources)

    def reset(self, source: str, position: int | None, *, partition: int | None = None) -> SourceStatus:
        """Set a source back to a position, in one partition or in all: later messages are stored when they are sent again.

        The position None is before the first one.

        ```python
        hub.sources.reset("orders/3", 41)
        ```
        """
        return self._link.call(ResetSource(source, NO_POSITION if position is None else position, partition))

    def delete(self, source: str) -> None:
        """Forget a source that is gone for good. Its messages stay.

        ```python
        hub.sources.delete("orders/3")
        ```
        """
        self._link.call(DeleteSource(source))
