# Generated from `pages_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""Lists for programs that wait that are read page by page, as the caller goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from restante.calls.call import Call
from restante.client.transport.link import Link


class PagedAnswer(Protocol):
    """The answer of a call that lists something."""

    @property
    def next(self) -> str | int | None:
        """The `after` of the next page; None if this is the last."""
        ...


Page = TypeVar("Page", bound=PagedAnswer)
Row = TypeVar("Row")


def every(link: Link, call: Call[Page], rows: Callable[[Page], Sequence[Row]]) -> Iterator[Row]:
    """The rows of all pages. The call has a field `after`."""
    while True:
        page = link.call(call)
        yield from rows(page)
        if page.next is None:
            return
        call = msgspec.structs.replace(call, after=page.next)
