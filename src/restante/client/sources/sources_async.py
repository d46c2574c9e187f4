"""Sources, for asynchronous programs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.client.surface.pages_async import every
from restante.client.transport.link import AsyncLink, where
from restante.model.sources.source import NO_POSITION
from restante.model.sources.source_answers import SourceStatus


class Sources:
    """The sources of messages, such as Kafka topics, and how far each is stored."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<Sources of the hub {where(self._link)}>"

    async def get(self, source: str) -> SourceStatus:
        """How far a source is stored, by partition.

        ```python
        status = await hub.sources.get("orders/3")
        ```
        """
        return await self._link.call(ReadSource(source))

    def list(self) -> AsyncIterator[SourceStatus]:
        """All sources by name, page by page as you go on.

        ```python
        async for status in hub.sources.list():
            print(status.source, status.position)
        ```
        """
        return every(self._link, ListSources(), lambda page: page.sources)

    async def reset(self, source: str, position: int | None, *, partition: int | None = None) -> SourceStatus:
        """Set a source back to a position, in one partition or in all: later messages are stored when they are sent again.

        The position None is before the first one.

        ```python
        await hub.sources.reset("orders/3", 41)
        ```
        """
        return await self._link.call(ResetSource(source, NO_POSITION if position is None else position, partition))

    async def delete(self, source: str) -> None:
        """Forget a source that is gone for good. Its messages stay.

        ```python
        await hub.sources.delete("orders/3")
        ```
        """
        await self._link.call(DeleteSource(source))
