"""Producers that number what they publish."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.model.mailboxes.answers import ProducerPage, ProducerState


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
