"""Bearer tokens, in the file `tokens.json` of a data folder.

A token is `rst_`, its id of 8 characters, `_`, and 43 characters of urlsafe base64 of 32 random bytes. The file has only
the SHA-256 of it: 256 random bits need no slow hash. Every change replaces the file as a whole, under a lock beside it,
so that no reader sees half of one and no writer loses another's. A revoked token stays listed, and the lock stays where
tokens were ever made: a hub whose last token was revoked, or whose file was lost, must not take that for a hub without
access rules.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from restante import limits
from restante.decoders import json_decoder
from restante.errors import DataDamaged, InvalidRequest, RestanteError
from restante.model.access.access import Grant, Role
from restante.model.groups.group_names import check_group
from restante.model.names import name_problem
from restante.model.publishing.message import RESERVED_ORIGINS
from restante.server.access.private_file import Stamp, content_of, lock_of, locked, replace, stamp_of

FILE_NAME = "tokens.json"
_FORMAT = 1
_ID_CHARACTERS = 8
# Letters and digits that are not taken for one another when they are read aloud.
_ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_SECRET_BYTES = 32
_FILE_BYTES_MAX = 64 * limits.MIB
_LOOK_SECONDS = 1.0
_shape = re.compile(rf"rst_([a-z0-9]{{{_ID_CHARACTERS}}})_[A-Za-z0-9_-]{{43}}")


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as it is kept: everything but the secret."""

    id: str
    sha256: str
    roles: tuple[Role, ...]
    origins: tuple[str, ...] | None = None
    recipients: tuple[str, ...] | None = None
    note: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    groups: tuple[str, ...] | None = None

    def state(self, now: datetime) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"

    def grant(self) -> Grant:
        return Grant(
            self.id,
            frozenset(self.roles),
            None if self.origins is None else frozenset(self.origins),
            None if self.recipients is None else frozenset(self.recipients),
            None if self.expires_at is None else self.expires_at.timestamp(),
            None if self.groups is None else frozenset(self.groups),
        )


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    tokens: tuple[Token, ...] = ()


class _Known(msgspec.Struct, frozen=True):
    """A token and its grant, ready to be asked for."""

    token: Token
    grant: Grant


class TokenFile:
    """The tokens of a data folder. Any thread may use it, and other processes may change the file meanwhile."""

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked_at = -_LOOK_SECONDS
        self._stamp: Stamp | None = None
        self._known: Mapping[str, _Known] = {}
        self._ever = False
        """Whether there were tokens at any time."""
        self._problem: tuple[type[RestanteError], str] | None = None
        """The problem that kept the file from being read when it was looked at last."""

    @property
    def path(self) -> Path:
        return self._path

    def create(
        self,
        *,
        roles: Collection[Role],
        origins: Collection[str] | None = None,
        recipients: Collection[str] | None = None,
        groups: Collection[str] | None = None,
        note: str = "",
        expires_at: datetime | None = None,
        now: datetime | None = None,
    ) -> str:
        """A new token; its text is given here and never again. None for origins, recipients or groups is all of them."""
        created_at = now or datetime.now(UTC)
        _check_new(roles, origins, recipients, note)
        _check_groups(roles, groups)
        if expires_at is not None and (expires_at.tzinfo is None or expires_at <= created_at):
            raise InvalidRequest(f"expires_at must be a time to come, with its zone, not {expires_at.isoformat()}.")
        with self._changing() as tokens:
            identity = _new_id({token.id for token in tokens})
            secret = f"rst_{identity}_{urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip('=')}"
            token = Token(
                id=identity,
                sha256=_digest(secret),
                roles=tuple(role for role in Role if role in roles),
                origins=None if origins is None else tuple(sorted(set(origins))),
                recipients=None if recipients is None else tuple(sorted(set(recipients))),
                note=note,
                created_at=created_at,
                expires_at=expires_at,
                groups=None if groups is None else tuple(sorted(set(groups))),
            )
            tokens[:] = [*_with_room(tokens, created_at), token]
        return secret

    def revoke(self, identity: str, *, now: datetime | None = None) -> Token:
        """Revoke a token: it is worth nothing here from now on, and within a second in a hub that is running. A second call is no error."""
        self.find(identity)  # Where there is no such token, nothing is changed, and no lock left.
        with self._changing() as tokens:
            token = _found(tokens, identity)
            revoked = msgspec.structs.replace(token, revoked_at=token.revoked_at or now or datetime.now(UTC))
            tokens[tokens.index(token)] = revoked
        return revoked

    def find(self, identity: str) -> Token:
        return _found(self.listed(), identity)

    def listed(self) -> tuple[Token, ...]:
        """All tokens, in the order they were made: the revoked and expired ones too."""
        return tuple(known.token for known in self._current(at_once=True).values())

    def any(self) -> bool:
        """Whether tokens were ever made here, even if none is valid any more, or the file is gone."""
        self._current()
        return self._ever

    def surely_none(self, now: float | None = None) -> bool:
        """Whether no token was ever made here, as of a look within the last second before now."""
        asked_at = self._monotonic() if now is None else now
        return not self._ever and self._problem is None and asked_at - self._looked_at < _LOOK_SECONDS

    def version(self) -> Hashable:
        """Another value when the file has changed; None when it is not there."""
        self._current(at_once=True)
        return self._stamp

    def grant_of(self, bearer: str, now: float) -> Grant | None:
        """The grant of the bearer of a token at a moment (seconds since 1970 UTC); None if the token is worth nothing."""
        shape = _shape.fullmatch(bearer)
        known = self._current().get(shape[1]) if shape is not None else None
        if known is None or not hmac.compare_digest(known.token.sha256, _digest(bearer)):
            return None
        return known.grant if known.token.state(datetime.fromtimestamp(now, UTC)) == "valid" else None

    def _current(self, *, at_once: bool = False) -> Mapping[str, _Known]:
        """The tokens of the file, read again if it was changed; looked at once a second."""
        with self._lock:
            if at_once or self._monotonic() - self._looked_at >= _LOOK_SECONDS:
                self._look()
                self._looked_at = self._monotonic()
            if self._problem is not None:
                kind, message = self._problem
                raise kind(message)
            return self._known

    def _look(self) -> None:
        try:
            stamp = stamp_of(self._path)
            if stamp != self._stamp or self._problem is not None:
                self._known = {token.id: _Known(token, token.grant()) for token in _read(self._path)}
                self._stamp = stamp
            self._ever = self._ever or bool(self._known) or lock_of(self._path).exists()
            self._problem = None
        except RestanteError as error:
            self._problem = type(error), error.message

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens as a list to change: alone among all processes, stored when nothing was raised."""
        with locked(self._path):
            before = _read(self._path)
            tokens = list(before)
            yield tokens
            if tuple(tokens) != before:
                replace(self._path, _encoded(tokens))
        self._current(at_once=True)


def id_of(secret: str) -> str | None:
    """The id in a token's text, which is no secret; None if it is no token."""
    shape = _shape.fullmatch(secret)
    return None if shape is None else shape[1]


def _found(tokens: Collection[Token], identity: str) -> Token:
    for token in tokens:
        if token.id == identity:
            return token
    # A whole token may have been given by mistake: then the error must not show it.
    shown = repr(identity) if len(identity) <= _ID_CHARACTERS else "of that length"
    raise InvalidRequest(f"There is no token with an id {shown}. `restante tokens list` shows the ids.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _new_id(taken: Collection[str]) -> str:
    while (identity := "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARACTERS))) in taken:
        pass
    return identity


def _check_new(
    roles: Collection[Role], origins: Collection[str] | None, recipients: Collection[str] | None, note: str
) -> None:
    if not roles:
        raise InvalidRequest(f"A token needs a role: {', '.join(role.value for role in Role)}.")
    if origins is not None and Role.PUBLISHER not in roles:
        raise InvalidRequest("Origins are for the role publisher: give that role too, or no origins.")
    if recipients is not None and Role.RECIPIENT not in roles:
        raise InvalidRequest("Recipients are for the role recipient: give that role too, or no recipients.")
    _check_names("origin", origins, limits.ORIGIN_CHARACTERS_MAX)
    own = [origin for origin in origins or () if origin in RESERVED_ORIGINS]
    if own:
        raise InvalidRequest(f"The origin {own[0]} is the hub's own: nobody publishes for it. Name another one.")
    _check_names("recipient", recipients, limits.RECIPIENT_CHARACTERS_MAX)
    for name in recipients or ():
        if (problem := name_problem(name)) is not None:
            raise InvalidRequest(f"The name of a recipient {problem}: {name!r}.")
    if len(note) > limits.TOKEN_NOTE_CHARACTERS_MAX:
        raise InvalidRequest(f"A note has at most {limits.TOKEN_NOTE_CHARACTERS_MAX} characters, not {len(note)}.")


def _check_groups(roles: Collection[Role], groups: Collection[str] | None) -> None:
    if groups is None:
        return
    if Role.WORKER not in roles:
        raise InvalidRequest("Groups are for the role worker: give that role too, or no groups.")
    _check_names("group", groups, limits.GROUP_CHARACTERS_MAX)
    for name in groups:
        check_group(name)


def _check_names(what: str, names: Collection[str] | None, characters_max: int) -> None:
    if names is not None and not names:
        raise InvalidRequest(f"Give at least one {what}, or none at all for all of them.")
    for name in names or ():
        if not name.strip() or len(name) > characters_max:
            raise InvalidRequest(f"The name of a {what} has 1 to {characters_max} characters, not blank; not {name!r}.")


def _with_room(tokens: list[Token], now: datetime) -> list[Token]:
    """Room for one more: the oldest that is worth nothing goes first."""
    if len(tokens) < limits.TOKENS_MAX:
        return tokens
    for place, token in enumerate(tokens):
        if token.state(now) != "valid":
            return tokens[:place] + tokens[place + 1 :]
    raise InvalidRequest(f"There are {limits.TOKENS_MAX:,} valid tokens already, the most there may be. Revoke some.")


def _encoded(tokens: Collection[Token]) -> bytes:
    content = msgspec.json.format(msgspec.json.encode(_Kept(_FORMAT, tuple(tokens))), indent=2)
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidRequest(
            f"All tokens together would take more than {_FILE_BYTES_MAX:,} bytes. Name fewer recipients."
        )
    return content


def _read(path: Path) -> tuple[Token, ...]:
    content = content_of(path, bytes_max=_FILE_BYTES_MAX)
    if content is None:
        return ()
    try:
        kept = json_decoder(_Kept).decode(content)
    except msgspec.MsgspecError as error:
        raise DataDamaged(
            f"The tokens in {path.name} cannot be read ({error}). Restore the file from a backup."
        ) from error
    if kept.format != _FORMAT:
        raise DataDamaged(f"The tokens in {path.name} have the format {kept.format}; this version reads {_FORMAT}.")
    return kept.tokens
