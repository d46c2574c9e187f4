"""Removal: messages taken back, held back, purged and erased; and upkeep, which the hub does in time, and now when it is asked to."""

from __future__ import annotations

from datetime import datetime

from restante.calls.call import Call


class Withdraw(Call[None], frozen=True):
    """Take a message back before it is collected."""

    recipient: str
    message_id: str


class SetAside(Call[None], frozen=True):
    """Keep a message from being delivered, until it is released or withdrawn."""

    recipient: str
    message_id: str


class Release(Call[None], frozen=True):
    """Deliver a message after all that was set aside."""

    recipient: str
    message_id: str


class Purge(Call[int], frozen=True):
    """Withdraw what waits or is set aside and fits, or with `all` everything. The answer is how many messages."""

    recipient: str
    origin: str | None = None
    kind: str | None = None
    before: datetime | None = None
    all: bool = False
    dry_run: bool = False


class Erase(Call[int], frozen=True):
    """Erase all messages of a recipient for good, history too. The answer is how many."""

    recipient: str
    dry_run: bool = False


class FileNow(Call[int], frozen=True):
    """File everything that waits to be filed. The answer is how many runs were merged."""


class ExpireNow(Call[int], frozen=True):
    """Settle what has expired. The answer is how many messages."""


class RetainNow(Call[int], frozen=True):
    """Remove what is past its retention. The answer is how many messages left history."""
