"""Tokens over the wire: who the caller is; listing, making and revoking tokens, for operators; tickets for browsers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from restante import limits
from restante.calls.mailboxes import PartitionOf
from restante.errors import Forbidden, InvalidRequest
from restante.limits import RECIPIENT_CHARACTERS_MAX, TICKET_SECONDS
from restante.model.access.access import Role
from restante.model.mailboxes.list_pages import page_size
from restante.server.access.gate import check_role
from restante.server.access.tokens import Token, TokenFile, id_of
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)
_Names = tuple[str, ...]
_Roles = tuple[Role, ...]
_EVERYBODY = frozenset(Role)
_OPERATOR = frozenset({Role.OPERATOR})
_RECIPIENT = frozenset({Role.RECIPIENT})


class Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The caller, and what it may do. Null for origins, recipients or groups is all of them."""

    name: Annotated[str, Meta(description="The id of the token; `everyone` on a hub that asks for none.")]
    open: Annotated[bool, Meta(description="Whether this hub asks for no token.")]
    roles: tuple[Role, ...]
    origins: _Names | None
    recipients: _Names | None
    groups: _Names | None
    expires_at: datetime | None


class TokenShown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token: everything but its text, which nobody can see again."""

    id: str
    state: Annotated[str, Meta(description="`valid`, `expired` or `revoked`.")]
    roles: tuple[Role, ...]
    origins: _Names | None
    recipients: _Names | None
    groups: _Names | None
    note: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class TokenPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens, the newest first."""

    tokens: tuple[TokenShown, ...]
    next: str | None


class TokenBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The purpose of a new token. Origins bind a publisher, recipients a recipient, groups a worker."""

    roles: Annotated[_Roles, Meta(min_length=1)]
    origins: _Names | None = None
    recipients: _Names | None = None
    groups: _Names | None = None
    note: Annotated[str, Meta(max_length=limits.TOKEN_NOTE_CHARACTERS_MAX)] = ""
    expires_at: datetime | None = None


class TokenMade(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new token. Its text is in no other answer."""

    id: str
    token: str


async def whoami(desk: Desk, exchange: Exchange) -> None:
    grant = exchange.grant
    answer = Caller(
        name=grant.name,
        open=desk.gate.open,
        roles=tuple(role for role in Role if role in grant.roles),
        origins=_sorted(grant.origins),
        recipients=_sorted(grant.recipients),
        groups=_sorted(grant.groups),
        expires_at=None if grant.expires_at is None else datetime.fromtimestamp(grant.expires_at, UTC),
    )
    await exchange.json(200, answer, headers=_NO_STORE)


def _sorted(names: frozenset[str] | None) -> _Names | None:
    return None if names is None else tuple(sorted(names))


async def tokens(desk: Desk, exchange: Exchange) -> None:
    size, start = page_size(exchange.integer("limit")), exchange.integer("after") or 0
    kept = desk.gate.tokens
    found = () if kept is None else tuple(reversed(await desk.read(kept.listed)))
    now = datetime.now(UTC)
    shown = tuple(_shown(token, now) for token in found[start : start + size])
    following = str(start + size) if start + size < len(found) else None
    await exchange.json(200, TokenPage(tokens=shown, next=following), headers=_NO_STORE)


def _shown(token: Token, now: datetime) -> TokenShown:
    said = msgspec.structs.asdict(token)
    del said["sha256"]
    return TokenShown(**said, state=token.state(now))


async def make_token(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, TokenBody)
    kept = _kept(desk)
    secret = await desk.read(_made, kept, sent)
    await exchange.json(201, TokenMade(id=id_of(secret) or "", token=secret), headers=_NO_STORE)


def _made(kept: TokenFile, sent: TokenBody) -> str:
    said = msgspec.structs.asdict(sent)
    return kept.create(**said)


async def revoke(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    kept, identity = _kept(desk), exchange.place["token"]
    if identity == exchange.grant.name:
        raise InvalidRequest(
            "This is the token that asks. Revoke it with another one, or with `restante tokens revoke`."
        )
    token = await desk.read(kept.revoke, identity)
    await exchange.json(200, _shown(token, datetime.now(UTC)), headers=_NO_STORE)


def _kept(desk: Desk) -> TokenFile:
    """The tokens, if some are asked for: the first one closes the hub, and is made on its own machine."""
    kept = desk.gate.tokens
    if kept is None or desk.gate.open:
        raise Forbidden(
            "This hub asks for no token, so everybody here is the same. Make the first token with `restante tokens create`."
        )
    return kept


class TicketBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The purpose of the ticket."""

    recipient: Annotated[
        str, Meta(min_length=1, max_length=RECIPIENT_CHARACTERS_MAX, description="Whose mailbox is to be followed.")
    ]


class TicketAnswer(msgspec.Struct, frozen=True):
    """A ticket, and until when it opens a live connection."""

    ticket: str
    expires_at: datetime


async def make_ticket(desk: Desk, exchange: Exchange) -> None:
    body = await read_request(desk, exchange, TicketBody)
    desk.hub.call(PartitionOf(body.recipient))  # This refuses a name that no recipient can have.
    check_role(exchange.grant, _RECIPIENT, body.recipient)
    expires_at = datetime.now(UTC) + timedelta(seconds=TICKET_SECONDS)
    ticket = desk.tickets.make(exchange.grant.name, exchange.header(b"authorization"), body.recipient)
    await exchange.json(201, TicketAnswer(ticket, expires_at), headers=_NO_STORE)


ROUTES = (
    Route("POST", "/v1/tickets", make_ticket, _RECIPIENT),
    Route("GET", "/v1/whoami", whoami, _EVERYBODY),
    Route("GET", "/v1/tokens", tokens, _OPERATOR, frozenset({"limit", "after"})),
    Route("POST", "/v1/tokens", make_token, _OPERATOR),
    Route("DELETE", "/v1/tokens/{token}", revoke, _OPERATOR),
)
