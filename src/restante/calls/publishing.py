"""Publishing: messages in, to wherever their recipients live, or to one partition."""

from __future__ import annotations

from restante.calls.call import Call
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, few_or_many


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
