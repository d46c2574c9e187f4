"""How many entries a page has."""

from __future__ import annotations

from restante.errors import InvalidRequest
from restante.limits import PAGE_DEFAULT, PAGE_MAX


def page_size(limit: int | None) -> int:
    """The page size that was asked for, or the default; more than the most is clipped."""
    size = min(PAGE_DEFAULT if limit is None else limit, PAGE_MAX)
    if size < 1:
        raise InvalidRequest(f"limit must be at least 1, not {limit}.", parameter="limit")
    return size
