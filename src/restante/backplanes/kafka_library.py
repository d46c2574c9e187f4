"""The library `confluent-kafka`, which comes with the extra `restante[kafka]`, and what its configuration is made of."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from types import ModuleType
from typing import Any

from restante.errors import ExtraMissing, InvalidRequest, InvalidSettings, Unavailable
from restante.model.back_off import back_off

DEFAULT_BROKERS = "127.0.0.1:9092"
_OURS = {
    "acks",
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "isolation.level",
    "transactional.id",
}
"""Settings that make bridges and backplanes exactly once, which are not to be set otherwise."""
_FROM_ENVIRONMENT = "env:"
_ANSWER_SECONDS = 15.0
_log = logging.getLogger("restante.kafka")


def kafka_library() -> ModuleType:
    """`confluent_kafka`, or the error that says how to get it."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtraMissing(f"Kafka needs confluent-kafka ({error}): pip install 'restante[kafka]'.") from error
    return confluent_kafka


def kafka_settings(brokers: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of every client: where the brokers are, and what the user adds (SASL, TLS, sizes)."""
    for name in given:
        if name in _OURS:
            raise InvalidRequest(f"The Kafka setting {name} is the hub's own: leave it out.", parameter=name)
    found = {name: _value(name, value) for name, value in given.items()}
    return {"bootstrap.servers": brokers, "logger": _log, **found}


def kafka_client(kind: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - untyped library
    """A client of the library, or the error that says which setting it does not take."""
    try:
        return kind(dict(settings))
    except kafka_library().KafkaException as error:
        raise InvalidSettings(f"Kafka's client does not take a setting: {error.args[0].str()}. Correct it.") from error


def _value(name: str, value: str) -> str:
    """A value, or that of the variable of the environment that it names: passwords do not belong on a command line."""
    if not value.startswith(_FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(_FROM_ENVIRONMENT)
    found = os.environ.get(variable)
    if found is None:
        raise InvalidRequest(f"The Kafka setting {name} is to come from {variable}, which is not set.", parameter=name)
    return found


def option_pairs(options: tuple[str, ...]) -> dict[str, str]:
    """`name=value` as they are given on the command line."""
    found: dict[str, str] = {}
    for option in options:
        name, sign, value = option.partition("=")
        if not sign or not name.strip():
            raise InvalidRequest(f"A Kafka setting is name=value, not {option!r}.", parameter="kafka")
        found[name.strip()] = value
    return found


def topic_partitions(client: Any, topic: str) -> tuple[int, ...]:  # noqa: ANN401 - untyped library
    """The partitions of a topic; `Unavailable` if the brokers do not answer, `InvalidRequest` if there is no such topic."""
    library = kafka_library()
    try:
        found = client.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    except library.KafkaException as error:
        raise unavailable(error) from error
    if found.error is not None:
        raise InvalidRequest(f"Kafka has no topic {topic!r}: {found.error.str()}. Create it.", topic=topic)
    return tuple(sorted(found.partitions))


def partition_reach(consumer: Any, place: Any, seconds: float = _ANSWER_SECONDS) -> tuple[int, int]:  # noqa: ANN401 - untyped library
    """The first offset of a topic partition and the one after its last. A partition that has no leader yet is asked again."""
    library: Any = kafka_library()
    leaderless = library.KafkaError.LEADER_NOT_AVAILABLE, library.KafkaError.NOT_LEADER_FOR_PARTITION
    deadline = time.monotonic() + seconds
    for attempt in count(1):
        try:
            first, end = consumer.get_watermark_offsets(place, timeout=seconds)
        except library.KafkaException as error:
            pause = back_off(attempt, first=0.1, longest=1)
            if error.args[0].code() not in leaderless or time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
        else:
            return first, end
    raise AssertionError("the last attempt returns or raises")


def unavailable(error: Exception) -> Unavailable:
    reason = error.args[0] if error.args else error
    text = reason.str() if hasattr(reason, "str") else str(reason)
    return Unavailable(f"Kafka does not answer as it should: {text}. Are the brokers there, and the settings right?")
