"""Sources as requests name them: in the header of a publish."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from restante.errors import InvalidRequest
from restante.model.sources.source import check_source
from restante.server.connections.exchange import Exchange

HEADER = "Restante-Source"
_KEY = HEADER.lower().encode()


def source_of(exchange: Exchange) -> str | None:
    """Where the messages of a publish come from, if it says so."""
    text = exchange.header(_KEY)
    if text is None:
        return None
    if not exchange.distinct and sum(name == _KEY for name, _ in exchange.scope["headers"]) > 1:
        raise InvalidRequest(f"The header {HEADER} may be given once: a publish has one source.", header=HEADER)
    try:
        return check_source(unquote_to_bytes(text.encode("latin-1")).decode())
    except UnicodeError as error:
        raise InvalidRequest(f"The header {HEADER} must be percent-encoded UTF-8.", header=HEADER) from error
