"""Who is at the counter: the grant of a request, by its bearer token, or everything where the hub is open."""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path

from restante.errors import Forbidden, InvalidSettings, Unauthenticated
from restante.model.access import EVERYTHING, Grant, Role
from restante.server.tokens import TokenFile
from restante.settings import ServerSettings

_BEARER = "bearer "


class Gate:
    """Lets in whom the tokens let in. Without a token file, or as long as it is optional and empty: everybody."""

    def __init__(self, tokens: TokenFile | None, *, optional: bool = False) -> None:
        self._tokens = tokens
        self._optional = optional

    @property
    def open(self) -> bool:
        return self._tokens is None or (self._optional and not self._tokens.any())

    def grant(self, authorization: str | None) -> Grant:
        if self._tokens is None or (self._optional and not self._tokens.any()):
            return EVERYTHING
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            raise Unauthenticated(
                "This hub asks for a token. Over HTTP it goes into the header Authorization: Bearer <token>, in Python "
                "into token=…, on the command line into --token or RESTANTE_TOKEN."
            )
        found = self._tokens.grant_of(authorization[len(_BEARER) :].strip(), time.time())
        if found is None:
            raise Unauthenticated("The token is unknown, revoked or expired. Ask the operator for another one.")
        return found


def check_role(grant: Grant, roles: frozenset[Role], recipient: str | None) -> None:
    """Refuse whoever has none of these roles, or has them for other recipients."""
    if Role.OPERATOR in grant.roles:
        return
    held = grant.roles & roles
    if not held:
        wanted = " or ".join(sorted(role.value for role in roles | {Role.OPERATOR}))
        raise Forbidden(f"This takes the role {wanted}; the token {grant.name} does not have it.")
    if recipient is not None and held == {Role.RECIPIENT} and not grant.may_collect(recipient):
        raise Forbidden(f"The token {grant.name} is not for this recipient.")


def gate_of(settings: ServerSettings, folder: Path | None, *, insecure: bool) -> Gate:
    """The gate that the settings ask for; refused if it would leave a hub open to a network.

    With `auto`, tokens are asked for from the moment there are any, also if that is while the hub runs.
    """
    tokens = None if folder is None else TokenFile(folder / "tokens.json")
    if settings.access == "tokens":
        if tokens is None:
            raise InvalidSettings("server.access is tokens, but this hub has no data folder to keep them in.")
        return Gate(tokens)
    gate = Gate(tokens, optional=True) if settings.access == "auto" else Gate(None)
    if gate.open and not insecure and not is_loopback(settings.host):
        raise InvalidSettings(
            f"{settings.host} can be reached from other machines, and nobody would be asked for a token. Make one with "
            "`restante tokens create --new`, serve on 127.0.0.1, or say --insecure if that is what you want."
        )
    return gate


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
