"""The label of a parcel, beside its messages: where it goes, by what numbers, for which batch, from which source, and when it is answered."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from restante.errors import InvalidRequest
from restante.model.backplane.accept import Accept
from restante.model.producers.producer import ProducerNumbers, check_numbers
from restante.model.sources.source import check_source
from restante.server.requests.publish_headers import check_batch_id
from restante.wire.frames import FrameHeader


class Label(NamedTuple):
    """None: to any partition, without numbers, for no batch, from nowhere in particular."""

    partition: int | None = None
    producer: ProducerNumbers | None = None
    batch: str | None = None
    source: str | None = None
    accept: Accept | None = None


def label_of(header: FrameHeader) -> Label:
    """The label of a frame of the pipelined link."""
    partition = None if header.partition is UNSET else header.partition
    batch = None if header.batch is UNSET else check_batch_id(header.batch, field="batch")
    source = None if header.source is UNSET else check_source(header.source)
    accept = None if header.accept is UNSET else header.accept
    if header.producer is UNSET:
        return Label(partition, None, batch, source, accept)
    check_numbers(header.producer)
    if partition is None:
        raise InvalidRequest(
            "producer numbers the messages of one partition: name the partition too.", field="partition"
        )
    return Label(partition, header.producer, batch, source, accept)
