"""Lists: read page by page, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from restante.cli.shared.plain import say
from restante.limits import PAGE_MAX

Item = TypeVar("Item")
Place = TypeVar("Place", str, int)


def gathered(
    read: Callable[[int, Place | None], tuple[Sequence[Item], Place | None]], limit: int, after: Place | None = None
) -> list[Item]:
    """The first items, at most `limit`. `read` is given how many, and after which place; it says where to go on."""
    found: list[Item] = []
    while len(found) < limit:
        items, after = read(min(limit - len(found), PAGE_MAX), after)
        found += items
        if after is None:
            break
    return found


def print_more(count: int, limit: int, how: str = "give a higher --limit.") -> None:
    """How to see more, if the limit has cut the list off."""
    if count == limit:
        say(f"There may be more: {how}")
