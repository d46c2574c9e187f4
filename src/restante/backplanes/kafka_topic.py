"""Whether the topic of a backplane fits the hub, and from where to where it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from restante.backplanes.kafka_library import kafka_client, kafka_library, unavailable
from restante.errors import InvalidSettings, Unavailable
from restante.ports.backplane import LogEnds
from restante.settings import BackplaneSettings

_SECONDS = 10.0


def check_topic(settings: BackplaneSettings, common: Mapping[str, Any], partition_count: int) -> None:
    """`InvalidSettings`, with what to do, unless the topic has as many partitions as the hub and takes its records."""
    library, admin, topic = kafka_library(), _admin(common), str(settings.topic)
    try:
        found = admin.list_topics(topic, timeout=_SECONDS).topics[topic]
    except library.KafkaException as error:
        raise unavailable(error) from error
    command = f"kafka-topics.sh --bootstrap-server {settings.brokers} --topic {topic} --partitions {partition_count}"
    if found.error is not None and found.error.code() == library.KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise _unfit(f"Kafka has no topic {topic!r}. Make it: {command} --create")
    if found.error is not None:
        raise Unavailable(f"Kafka does not show the topic {topic!r}: {found.error.str()}.")
    there = len(found.partitions)
    if there < partition_count:
        raise _unfit(
            f"The topic {topic!r} has {there} partitions, and the hub {partition_count}. Add some: {command} --alter"
        )
    if there > partition_count:
        raise _unfit(
            f"The topic {topic!r} has {there} partitions, and the hub {partition_count}; a topic cannot lose any. Make "
            "another one, and name it in backplane.topic"
        )
    _check_size(admin, topic, settings.record_bytes_max)


def _unfit(text: str) -> InvalidSettings:
    return InvalidSettings(f"backplane.topic: {text}.")


def _check_size(admin: Any, topic: str, bytes_max: int) -> None:  # noqa: ANN401 - of an untyped library
    """Whether the topic takes records of that size; nothing is said where nobody may ask."""
    library = _admin_library()
    resource = library.ConfigResource(library.ConfigResource.Type.TOPIC, topic)
    try:
        found = admin.describe_configs([resource])[resource].result(_SECONDS)
    except Exception:  # noqa: BLE001 - the right to read settings is one that a hub need not have
        return
    allowed = int(found["max.message.bytes"].value)
    if allowed < bytes_max:
        raise InvalidSettings(
            f"backplane.record_bytes_max: the topic {topic!r} takes records of up to {allowed} bytes "
            f"(max.message.bytes), not {bytes_max}. Raise the one, or lower the other."
        )


def topic_ends(common: Mapping[str, Any], topic: str, partitions: Sequence[int]) -> dict[int, LogEnds]:
    """The first and the next offset of each topic partition."""
    library, spec, admin = kafka_library(), _admin_library().OffsetSpec, _admin(common)
    places = [library.TopicPartition(topic, number) for number in partitions]
    try:
        first = admin.list_offsets(dict.fromkeys(places, spec.earliest()), request_timeout=_SECONDS)
        last = admin.list_offsets(dict.fromkeys(places, spec.latest()), request_timeout=_SECONDS)
        return {
            place.partition: LogEnds(first[place].result(_SECONDS).offset, last[place].result(_SECONDS).offset)
            for place in places
        }
    except (library.KafkaException, TimeoutError) as error:
        raise unavailable(error) from error


def _admin(common: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of an untyped library
    return kafka_client(_admin_library().AdminClient, common)


def _admin_library() -> Any:  # noqa: ANN401 - of an untyped library
    kafka_library()
    return import_module("confluent_kafka.admin")
