"""Publishing: messages in, to wherever their recipients live, or to one partition; producers that number them, and sources."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import ProducerPage, ProducerState, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, few_or_many
from restante.model.sources.source_answers import SourcePage, SourceStatus


class Publish(Call[Receipt], frozen=True):
    """Store messages, all of them or none. Those newly stored become items of the batch, if one is named."""

    sent: Few | Many | EncodedPublish
    partition: int | None = None
    """The partition of all messages; None: each goes to wherever its recipient lives."""
    producer: ProducerNumbers | None = None
    """The producer's own numbers, which count in the partition."""
    batch: str | None = None
    source: str | None = None
    """Where the messages come from: those at positions that are stored are skipped."""
    accept: Accept | None = None
    """Whether to answer when they are stored, which is the default, or when the backplane has them."""

    @classmethod
    def of(
        cls,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
        source: str | None = None,
        accept: Accept | None = None,
    ) -> Publish:
        """The call that publishes a message, a sequence of messages, or anything with Arrow columns."""
        return cls(few_or_many(sent), partition, producer, batch, source, accept)


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
