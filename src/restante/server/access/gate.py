"""`Gate` gives each request its grant: that of its bearer token, or everything where the hub asks for no token."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import TypeVar

from restante.errors import Forbidden, InvalidSettings, RestanteError, Unauthenticated, Unavailable
from restante.model.access.access import EVERYTHING, Grant, Role
from restante.model.access.open_access import refuse_open
from restante.server.access.tokens import FILE_NAME, TokenFile
from restante.settings import ServerSettings

T = TypeVar("T")

_log = logging.getLogger("restante.server")

_BEARER = "bearer "
_REMEDY = "Copy it back, or make a token with `restante tokens create`."


class Gate:
    """Admits callers by their tokens, or everybody: without a token file, or while tokens are optional and none was made.

    Once closed, it stays closed: a file that is lost, emptied or damaged lets nobody in.
    """

    def __init__(self, tokens: TokenFile | None, *, optional: bool = False) -> None:
        self._tokens = tokens
        self._optional = optional
        self._told = ""
        """The problem with the tokens that was logged last."""

    @property
    def open(self) -> bool:
        """Whether nobody is asked for a token."""
        if self._tokens is None:
            return True
        if self._optional and not self._tokens.surely_none() and self._looked(self._tokens.any):
            self._optional = False
        return self._optional

    def lets_all_in(self, now: float) -> bool:
        """Whether nobody is asked for a token, as far as that is known without a look; by the monotonic clock."""
        return self._tokens is None or (self._optional and self._tokens.surely_none(now))

    @property
    def tokens(self) -> TokenFile | None:
        """The token file that requests are checked against; None where the hub can have none."""
        return self._tokens

    def version(self) -> Hashable:
        """Another value when tokens have changed, or can no longer be read; looked for now."""
        if self._tokens is None:
            return None
        try:
            version = self._looked(self._tokens.version)
        except Unavailable:
            return self._told
        if version is not None:
            self._told = ""
        elif self._tokens.any():
            self._tell(f"{self._tokens.path} is gone: nobody has a token, so nobody is let in. {_REMEDY}")
        return version

    def admit(
        self, authorization: str | None, roles: frozenset[Role], recipient: str | None, group: str | None = None
    ) -> Grant:
        """The grant of the caller; refused if that is not what it takes."""
        if self.open:
            return EVERYTHING
        grant = self.grant(authorization)
        check_role(grant, roles, recipient, group)
        return grant

    def grant(self, authorization: str | None) -> Grant:
        if self._tokens is None or self.open:
            return EVERYTHING
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            raise Unauthenticated(
                "This hub asks for a token. Over HTTP it goes into the header Authorization: Bearer <token>, in Python "
                "into token=…, on the command line into --token or RESTANTE_TOKEN."
            )
        found = self._looked(partial(self._tokens.grant_of, authorization[len(_BEARER) :].strip(), time.time()))
        if found is None:
            raise Unauthenticated("The token is unknown, revoked or expired. Ask the operator for another one.")
        return found

    def _looked(self, look: Callable[[], T]) -> T:
        """The tokens. If they cannot be read, the log says why, and callers that nobody is let in."""
        try:
            return look()
        except RestanteError as error:
            self._tell(f"The tokens cannot be read, so nobody is let in: {error.message}")
            raise Unavailable(
                "The hub cannot read its tokens, so it refuses every request that needs one. The log says why."
            ) from error

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            _log.error(problem)


def check_role(grant: Grant, roles: frozenset[Role], recipient: str | None, group: str | None = None) -> None:
    """Refuse a caller who has none of these roles, or has them for other recipients or groups."""
    if Role.OPERATOR in grant.roles:
        return
    held = grant.roles & roles
    if not held:
        wanted = " or ".join(sorted(role.value for role in roles | {Role.OPERATOR}))
        raise Forbidden(f"This route needs the role {wanted}; the token {grant.name} does not have it.")
    if recipient is not None and held == {Role.RECIPIENT} and not grant.may_collect(recipient):
        raise Forbidden(f"The token {grant.name} is not for this recipient.")
    if group is not None and held == {Role.WORKER} and not grant.may_work(group):
        raise Forbidden(f"The token {grant.name} is not for this group.")


def gate_of(settings: ServerSettings, folder: Path | None, *, insecure: bool) -> Gate:
    """The gate that the settings ask for; refused if it would leave a hub open to a network.

    With `auto`, tokens are asked for from the moment there are any, also if that is while the hub runs.
    """
    tokens = None if folder is None else TokenFile(folder / FILE_NAME)
    if tokens is not None and settings.access != "open":
        tokens.listed()  # A hub whose tokens cannot be read does not start, and says why.
    if settings.access == "tokens":
        if tokens is None:
            raise InvalidSettings("server.access is tokens, but this hub has no data folder to keep them in.")
        return Gate(tokens)
    gate = Gate(tokens, optional=True) if settings.access == "auto" else Gate(None)
    if gate.open:
        refuse_open(settings.host, insecure=insecure)
    return gate
