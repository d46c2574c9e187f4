"""Answers of the hub about its backplane."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from restante.errors import Fault
from restante.model.mailboxes.answers import Receipt


class LogProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The position up to which a partition has stored its log, and what is left of the log."""

    partition: int
    position: int | None
    """The last position that is stored."""
    lag: int | None
    """How many positions the log has beyond it; null while the log does not answer."""


class BackplaneStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A backplane, and what went through it since the hub was started."""

    topic: str | None
    """null: the hub has no backplane."""
    failure: str | None
    """Why records are not taken, or not stored, at present."""
    waiting: int
    """Records for which senders wait."""
    lost: int
    """Records that the log did not confirm."""
    records: int
    """Records read from the log."""
    messages: int
    """Messages stored from it."""
    duplicates: int
    skipped: int
    """Records that were stored before."""
    refused: int
    """Records that could not be stored, and are kept."""
    missed: int
    """Records that the log removed before they were stored."""
    partitions: tuple[LogProgress, ...]


class RefusedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be stored."""

    partition: int
    position: int
    refused_at: datetime
    code: str
    reason: str
    messages: int
    """How many messages the record has; 0 if it cannot be read."""
    errors: tuple[Fault, ...]
    """The first messages that are at fault, by their index in the record."""
    bytes: int


class RecordOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of a record, as it travels to another process. Both fields are None while the outcome is unknown."""

    receipt: Receipt | None = None
    problem: dict[str, Any] | None = None


class RefusedPage(msgspec.Struct, frozen=True, kw_only=True):
    records: tuple[RefusedRecord, ...]
    next: str | None
