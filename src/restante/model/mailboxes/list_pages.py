"""Pages of a list: how many entries each has, and where the next one begins, as text that a caller hands back."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode

from restante.errors import InvalidRequest
from restante.limits import PAGE_DEFAULT, PAGE_MAX


def page_size(limit: int | None) -> int:
    """The page size that was asked for, or the default; more than the most is clipped."""
    size = min(PAGE_DEFAULT if limit is None else limit, PAGE_MAX)
    if size < 1:
        raise InvalidRequest(f"limit must be at least 1, not {limit}.", parameter="limit")
    return size


def page_token(key: bytes) -> str:
    """The key of the last entry of a page, as the caller is given it."""
    return urlsafe_b64encode(key).decode()


def key_after(token: str, *, characters_max: int) -> bytes:
    """The key that a `page_token` was made of."""
    try:
        if len(token) <= characters_max:
            return b64decode(token, altchars=b"-_", validate=True)
    except ValueError:
        pass
    raise InvalidRequest(f"after must be the `next` of the page before, not {token[:64]!r}.", parameter="after")


def check_order(order: str) -> None:
    """Refuse an order of recipients that there is not."""
    if order not in ("waiting", "oldest"):
        raise InvalidRequest(f"order must be waiting or oldest, not {order!r}.")
