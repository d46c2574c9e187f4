"""Producers that number what they publish, and sources: how far each is stored, set back, forgotten."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.model.mailboxes.answers import ProducerPage, ProducerState
from restante.model.sources.source_answers import SourcePage, SourceStatus


class OpenLink(Call[ProducerState], frozen=True):
    """Take a producer group up, or a new one. Lower owner levels of it are fenced off at once."""

    partition: int
    producer_group: int | None = None
    owner_level: int | None = None
    last_published_sequence_number: int | None = None


class ReadProducer(Call[ProducerState], frozen=True):
    """Read what the hub knows of a producer group."""

    partition: int
    producer_group: int


class ListProducers(Call[ProducerPage], frozen=True):
    """The producer groups of a partition."""

    partition: int
    limit: Count | None = None
    after: str | None = None


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
