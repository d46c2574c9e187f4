"""Producers that number what they publish, and sources: how far each is stored, set back, forgotten."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from restante.calls.call import Call, Count
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.mailboxes.answers import ProducerPage, ProducerState
from restante.model.sources.source_answers import SourcePage, SourceStatus


class OpenLink(Call[ProducerState], frozen=True):
    """Take a producer group up, or a new one. Lower owner levels of it are fenced off at once."""

    partition: int
    producer_group: Annotated[int, Meta(ge=0, le=PRODUCER_GROUP_MAX)] | None = None
    """A new one if left out."""
    owner_level: Annotated[int, Meta(ge=0, le=OWNER_LEVEL_MAX)] | None = None
    """The owner level; that of the group if left out."""
    last_published_sequence_number: Annotated[int, Meta(ge=0, le=PUBLISHED_SEQUENCE_MAX)] | None = None


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
    """Read how far a source is stored."""

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
