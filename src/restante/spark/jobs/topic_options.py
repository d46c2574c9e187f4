"""The options of jobs that read a topic of Kafka. Each job says itself what the records are."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from restante.backplanes.kafka_library import option_pairs
from restante.spark.source.topic_frames import TopicSource

Brokers = Annotated[str, msgspec.Meta(description="Where Kafka's brokers are.")]
KafkaSettings = Annotated[
    list[str],
    msgspec.Meta(
        description="Settings of the Kafka client, each as name=value; env:NAME is taken from the environment."
    ),
]


class TopicOptions(Protocol):
    """The options of a job that say which topic it reads."""

    @property
    def topic(self) -> str: ...
    @property
    def brokers(self) -> str: ...
    @property
    def kafka(self) -> list[str]: ...


def topic_source(options: TopicOptions) -> TopicSource:
    """The topic that a job is to read."""
    return TopicSource(topic=options.topic, brokers=options.brokers, kafka=option_pairs(tuple(options.kafka)))
