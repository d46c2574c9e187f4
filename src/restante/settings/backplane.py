"""Settings of the backplane: the topic, and how long it may take."""

from __future__ import annotations

from restante import limits
from restante.settings.rules import IDLE_SECONDS, Rule, Section, like, whole


class BackplaneSettings(Section, frozen=True, kw_only=True):
    """The topic of Kafka through which publishes go to the owners of their partitions. Without a topic there is none."""

    topic: str | None = None
    """A topic with as many partitions as the hub has."""
    brokers: str = "127.0.0.1:9092"
    """Where to find Kafka: host:port, or several with commas."""
    kafka: dict[str, str] = {}
    """Further settings of the Kafka client, such as those of SASL and TLS; `env:NAME` takes a value from the environment."""
    record_bytes_max: int = limits.BACKPLANE_RECORD_BYTES_DEFAULT
    """How many bytes a record of the topic may have: no more than the topic's `max.message.bytes`."""
    delivery_seconds: float = 10.0
    """How long Kafka may take for a record, with all repetitions; then its publish fails."""
    stored_seconds: float = 20.0
    """How long a publish waits until its messages are stored."""

    rules = {
        "topic": like(
            "the name of a topic: letters, digits, dots, dashes and underscores, at most 249", r"[A-Za-z0-9._-]{1,249}"
        ),
        "brokers": like(
            'host:port, or several with commas, such as "kafka-1:9092,kafka-2:9092"',
            r"[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*",
        ),
        "kafka": Rule("names and values of Kafka's client, both texts", secret=True),
        "record_bytes_max": whole(limits.BACKPLANE_RECORD_BYTES_MIN, limits.BACKPLANE_RECORD_BYTES_MAX),
        "delivery_seconds": IDLE_SECONDS,
        "stored_seconds": IDLE_SECONDS,
    }

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.rules if name != "kafka"}
        return f"BackplaneSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
