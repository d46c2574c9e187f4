"""Who may do what: the roles of a token, and what they allow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a token is for. An operator may do everything."""

    PUBLISHER = "publisher"
    RECIPIENT = "recipient"
    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Grant:
    """What one caller may do. `origins` bounds the publisher, `recipients` the recipient; None is all of them."""

    name: str
    roles: frozenset[Role]
    origins: frozenset[str] | None = None
    recipients: frozenset[str] | None = None
    expires_at: float | None = None
    """When it ends, in seconds since 1970 UTC; None is never."""

    def may_publish(self, origin: str) -> bool:
        named = self.origins is None or origin in self.origins
        return self.may_operate() or (Role.PUBLISHER in self.roles and named)

    def publishable(self) -> frozenset[str] | None:
        """The origins that a publisher is bound to; None: it may publish for all of them."""
        return None if self.origins is None or self.may_operate() else self.origins

    def may_collect(self, recipient: str) -> bool:
        """Peek and dequeue, and see what there is and was."""
        named = self.recipients is None or recipient in self.recipients
        return self.may_operate() or (Role.RECIPIENT in self.roles and named)

    def may_read_feed(self) -> bool:
        return self.may_operate() or Role.READER in self.roles

    def may_operate(self) -> bool:
        """Lists of all recipients and partitions, removal, erasure, maintenance, backup."""
        return Role.OPERATOR in self.roles


NOTHING = Grant("nobody", frozenset())
"""The grant of a caller who has not been let in."""
EVERYTHING = Grant("everyone", frozenset(Role))
"""The grant of every caller of an open hub."""
