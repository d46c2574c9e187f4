"""Batches as requests name them: in the header of a publish, in a frame, in a body."""

from __future__ import annotations

from restante.errors import InvalidRequest
from restante.model.columns.text_ids import is_uuid
from restante.server.connections.exchange import Exchange

HEADER = "Restante-Batch"
_KEY = HEADER.lower().encode()


def batch_of(exchange: Exchange) -> str | None:
    """The batch that the messages of a publish are bound to, if they are."""
    text = exchange.header(_KEY)
    if text is None:
        return None
    if not exchange.distinct and sum(name == _KEY for name, _ in exchange.scope["headers"]) > 1:
        raise InvalidRequest(f"The header {HEADER} may be given once: a publish belongs to one batch.", header=HEADER)
    if not is_uuid(text):
        raise _no_uuid(f"The header {HEADER}", text, header=HEADER)
    return text.lower()


def check_id(text: str, *, field: str) -> str:
    """Check the id of a batch that a body or a frame gives."""
    if not is_uuid(text):
        raise _no_uuid(field, text, field=field)
    return text.lower()


def _no_uuid(what: str, text: str, **details: str) -> InvalidRequest:
    return InvalidRequest(f"{what} must be a UUID of 36 characters, not {text[:64]!r}.", **details)
