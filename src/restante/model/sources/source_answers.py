"""Answers of the hub about sources."""

from __future__ import annotations

from datetime import datetime

import msgspec


class PartitionPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position up to which a partition has stored a source."""

    partition: int
    position: int | None
    """The last position that is stored. None: before all of them."""
    messages: int
    """How many messages of the source were stored there."""
    stored_at: datetime


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source, and how far each partition that has messages of it has stored it."""

    source: str
    position: int | None
    """The highest of its partitions: nothing beyond it is stored."""
    messages: int
    positions: tuple[PartitionPosition, ...]
    owner: str | None = None
    """Tells sources apart that have the same name; the same for all sources of one owner. None: nobody owns it."""


class SourcePage(msgspec.Struct, frozen=True, kw_only=True):
    sources: tuple[SourceStatus, ...]
    next: str | None
