"""Access: the roles of a token, and what they allow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
    """When it ends, in seconds since 1970 UTC; None is never."""
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
