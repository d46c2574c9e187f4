"""How far bridges are: what the hub has stored of topics, beside where the topics end."""

from __future__ import annotations

from typing import Any

import msgspec

from restante.backplanes.kafka_library import (
    kafka_client,
    kafka_library,
    kafka_settings,
    partition_reach,
    topic_partitions,
    unavailable,
)
from restante.client.surface.surface import Hub
from restante.errors import SourceUnknown

_WAIT_SECONDS = 15.0


class TopicLag(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of the hub and of the bridge in a topic partition."""

    source: str
    position: int | None
    """The last offset that the hub has stored."""
    committed: int | None
    """The offset at which the bridge begins again."""
    end: int
    lag: int
    """Records after the committed offset; of one that is not committed, all."""
    messages: int


def topic_lags(
    hub: Hub, topic: str, *, brokers: str, group: str, prefix: str = "", kafka: dict[str, str] | None = None
) -> list[TopicLag]:
    """Each partition of a topic."""
    library: Any = kafka_library()
    settings = {**kafka_settings(brokers, kafka or {}), "group.id": group, "enable.auto.commit": False}
    consumer = kafka_client(library.Consumer, settings)
    try:
        places = [library.TopicPartition(topic, number) for number in topic_partitions(consumer, topic)]
        committed = consumer.committed(places, timeout=_WAIT_SECONDS)
        ends = [partition_reach(consumer, place, _WAIT_SECONDS) for place in places]
    except library.KafkaException as error:
        raise unavailable(error) from error
    finally:
        consumer.close()
    return [
        _lag(hub, f"{prefix}{topic}/{own.partition}", own.offset, *bounds)
        for own, bounds in zip(committed, ends, strict=True)
    ]


def _lag(hub: Hub, source: str, committed: int, begin: int, end: int) -> TopicLag:
    try:
        status = hub.sources.get(source)
        position, messages = status.position, status.messages
    except SourceUnknown:
        position, messages = None, 0
    known = committed if committed >= 0 else None
    return TopicLag(
        source=source,
        position=position,
        committed=known,
        end=end,
        lag=max(end - max(begin, 0 if known is None else known), 0),
        messages=messages,
    )
