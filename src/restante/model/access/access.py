"""Access: the roles of a token, what they allow, and whose a batch, a consignment or a producer group is.

The owner of a thing is the caller that made it: the origins that its token is bound to, or the token itself if it is bound to none.
So two tokens of the same origins are one owner, and a token may be replaced. A thing that an operator made, or anybody on a hub
without tokens, has no owner: operators may use it, and publishers that are bound to no origins. An operator may use everything,
and a reader see it. To everybody else it is not there.

Keys and producer groups are names in the owner's own space: the same name of another owner is something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b

import msgspec


class Role(Enum):
    """The purpose of a token. An operator may do everything."""

    PUBLISHER = "publisher"
    RECIPIENT = "recipient"
    READER = "reader"
    WORKER = "worker"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one caller.

    `origins` bounds the publisher, `recipients` the recipient, `groups` the worker; None is all of them.
    """

    name: str
    roles: frozenset[Role]
    origins: frozenset[str] | None = None
    recipients: frozenset[str] | None = None
    expires_at: float | None = None
    """When the grant ends, in seconds since 1970 UTC; None is never."""
    groups: frozenset[str] | None = None

    def may_publish(self, origin: str) -> bool:
        named = self.origins is None or origin in self.origins
        return self.may_operate() or (Role.PUBLISHER in self.roles and named)

    def publishable(self) -> frozenset[str] | None:
        """The origins that a publisher is bound to; None: it may publish for all of them."""
        return None if self.origins is None or self.may_operate() else self.origins

    def may_collect(self, recipient: str) -> bool:
        """Whether a caller may collect: peek, dequeue, explain and read the history."""
        named = self.recipients is None or recipient in self.recipients
        return self.may_operate() or (Role.RECIPIENT in self.roles and named)

    def may_read_feed(self) -> bool:
        return self.may_operate() or Role.READER in self.roles

    def may_work(self, group: str) -> bool:
        """Be a member of a group, and write its positions."""
        named = self.groups is None or group in self.groups
        return self.may_operate() or (Role.WORKER in self.roles and named)

    def may_see_group(self, group: str) -> bool:
        """How a group stands concerns who may read along, too."""
        return self.may_read_feed() or self.may_work(group)

    def may_operate(self) -> bool:
        """Lists of all recipients and partitions, removal, erasure, maintenance, backup."""
        return Role.OPERATOR in self.roles


NOTHING = Grant("nobody", frozenset())
"""The grant of a caller who has not been let in."""
EVERYTHING = Grant("everyone", frozenset(Role))
"""The grant of every caller of an open hub."""


OWNER_BYTES = 16
NO_OWNER = b""


@lru_cache(1_024)
def owner_of(caller: Grant) -> bytes:
    """The owner that is stored with what a caller makes; the same for the same origins in any order."""
    if caller.may_operate():
        return NO_OWNER
    named = ("token", caller.name) if caller.origins is None else ("origins", *sorted(caller.origins))
    return blake2b(msgspec.msgpack.encode(named), digest_size=OWNER_BYTES).digest()


def may_use(caller: Grant, owner: bytes) -> bool:
    if caller.may_operate():
        return True
    return owner == owner_of(caller) if owner else caller.origins is None


def may_see(caller: Grant, owner: bytes) -> bool:
    """A reader has all mail by the feed, and so what belongs to it."""
    return caller.may_read_feed() or may_use(caller, owner)


@lru_cache(1_024)
def spaces_of(caller: Grant) -> tuple[bytes, ...]:
    """Where a name that a caller uses is looked for: among its own things, then among those that nobody owns."""
    own = owner_of(caller)
    return (own, NO_OWNER) if own and may_use(caller, NO_OWNER) else (own,)
