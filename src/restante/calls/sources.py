"""Sources: how far each is stored, set back, forgotten."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.model.sources.source_answers import SourcePage, SourceStatus


class ReadSource(Call[SourceStatus], frozen=True):
    """How far a source is stored."""

    source: str


class ListSources(Call[SourcePage], frozen=True, kw_only=True):
    """The sources by name."""

    limit: Count | None = None
    after: str | None = None


class ResetSource(Call[SourceStatus], frozen=True):
    """Let what lies beyond another position be stored, in the partitions that know the source, or in one."""

    source: str
    position: int
    """-1: before all of them."""
    partition: int | None = None


class DeleteSource(Call[None], frozen=True):
    """Forget how far a source is stored."""

    source: str
