"""A frame as one consignment: written by the sink in the order of a column, and what the hub says of it then."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from restante.client.surface.connect import connect
from restante.model.consignments.consignment_answers import ConsignmentState
from restante.spark.jobs.work import Work
from restante.spark.running.frames import ordered
from restante.spark.source.options import writing_of


@dataclass(frozen=True, kw_only=True)
class SentFrame:
    """A consignment that was delivered, now or before."""

    key: str
    consignment: str | None
    """The id of the consignment; None: there was nothing to send."""
    batch: str | None
    messages: int
    """How many messages are new. Duplicates of what the hub had are not among them."""
    duplicates: int


def send(work: Work, frame: DataFrame, *, key: str, order_by: str, batch: bool = False) -> SentFrame:
    """Deliver all rows at one moment. Each recipient gets its own in the order of `order_by`, which is not sent.

    Again, with the same key, nothing happens, and the answer is that of the first time.
    """
    writer = ordered(frame, order_by).write.format("restante").options(**work.hub)
    writer.option("key", key).option("orderBy", order_by).option("batch", str(batch).lower()).mode("append").save()
    return sent(work, key=key)


def sent(work: Work, *, key: str) -> SentFrame:
    """The answer of the hub about the consignment of this key."""
    place = writing_of(work.hub).place
    with connect(place.url, token=place.token) as hub:
        for found in hub.consignments(state=ConsignmentState.COMMITTED, key=key):
            assert found.receipt is not None, "it was committed"
            return SentFrame(
                key=key,
                consignment=found.id,
                batch=found.batch,
                messages=found.receipt.accepted,
                duplicates=found.receipt.duplicates,
            )
    return SentFrame(key=key, consignment=None, batch=None, messages=0, duplicates=0)
