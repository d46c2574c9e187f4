"""Sources, for asynchronous programs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from restante.calls.sources import DeleteSource, ListSources, ReadSource, ResetSource
from restante.client.transport.link import AsyncLink
from restante.model.sources.source import NO_POSITION
from restante.model.sources.source_answers import SourceStatus


class Sources:
    """How far the logs are stored that messages come from."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def get(self, source: str) -> SourceStatus:
        """How far a source is stored, by partition.

        ```python
        status = await hub.sources.get("orders/3")
        ```
        """
        return await self._link.call(ReadSource(source))

    async def list(self) -> AsyncIterator[SourceStatus]:
        """All of them by name, page by page as you go on.

        ```python
        async for status in hub.sources.list():
            print(status.source, status.position)
        ```
        """
        after: str | None = None
        while True:
            page = await self._link.call(ListSources(after=after))
            for status in page.sources:
                yield status
            after = page.next
            if after is None:
                return

    async def reset(self, source: str, position: int | None, *, partition: int | None = None) -> SourceStatus:
        """Let what lies beyond a position be stored when it comes again; None: all of it. In one partition, or in all.

        ```python
        await hub.sources.reset("orders/3", 41)
        ```
        """
        return await self._link.call(ResetSource(source, NO_POSITION if position is None else position, partition))

    async def delete(self, source: str) -> None:
        """Forget how far a source is stored, when it is gone for good. Its messages stay.

        ```python
        await hub.sources.delete("orders/3")
        ```
        """
        await self._link.call(DeleteSource(source))
