"""When a publish is to be answered, as requests say it: in a header."""

from __future__ import annotations

from restante.errors import InvalidRequest
from restante.model.backplane.accept import Accept
from restante.server.connections.exchange import Exchange

HEADER = "Restante-Accept"
_KEY = HEADER.lower().encode()


def accept_of(exchange: Exchange) -> Accept | None:
    """The promise that the sender of a publish is content with, if it says so."""
    text = exchange.header(_KEY)
    if text is None:
        return None
    if not exchange.distinct and sum(name == _KEY for name, _ in exchange.scope["headers"]) > 1:
        raise InvalidRequest(f"The header {HEADER} may be given once.", header=HEADER)
    try:
        return Accept(text.strip().lower())
    except ValueError as error:
        raise InvalidRequest(
            f"The header {HEADER} is `stored` or `accepted`, not {text[:64]!r}.", header=HEADER
        ) from error
