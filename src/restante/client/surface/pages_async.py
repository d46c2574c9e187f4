"""Lists for asynchronous programs that are read page by page, as the caller goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from restante.calls.call import Call
from restante.client.transport.link import AsyncLink


class PagedAnswer(Protocol):
    """The answer of a call that lists something."""

    @property
    def next(self) -> str | int | None:
        """The `after` of the next page; None if this is the last."""
        ...


Page = TypeVar("Page", bound=PagedAnswer)
Row = TypeVar("Row")


async def every(link: AsyncLink, call: Call[Page], rows: Callable[[Page], Sequence[Row]]) -> AsyncIterator[Row]:
    """The rows of all pages. The call has a field `after`."""
    while True:
        page = await link.call(call)
        for each in rows(page):
            yield each
        if page.next is None:
            return
        call = msgspec.structs.replace(call, after=page.next)
