"""Where the next page of a list begins, as text that a caller hands back."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode

from restante.errors import InvalidRequest


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
