"""The rules of settings hold however settings are made."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import errors, limits
from restante.settings import (
    ActionSettings,
    BackplaneSettings,
    GroupSettings,
    HealthBounds,
    HealthSettings,
    LiveSettings,
    OriginGroupSettings,
    OriginSettings,
    ServerSettings,
    Settings,
    WebhookSettings,
)
from restante.settings.cluster import ClusterSettings
from restante.settings.rules import Section

WRONG: list[tuple[type[Section], str, Any]] = [
    (Settings, "partition_count", 0),
    (Settings, "partition_count", limits.PARTITIONS_MAX + 1),
    (Settings, "partition_count", True),
    (Settings, "partition_count", "16"),
    (Settings, "collected_retention_seconds", -1),
    (Settings, "collected_retention_seconds", math.nan),
    (Settings, "feed_retention_seconds", math.inf),
    (Settings, "identity_retention_seconds", 3_599.9),
    (Settings, "identity_retention_seconds", math.inf),
    (Settings, "producer_retention_seconds", 86_399.9),
    (Settings, "producer_retention_seconds", math.inf),
    (Settings, "open_batch_retention_seconds", -1),
    (Settings, "open_batch_retention_seconds", math.inf),
    (Settings, "sealed_batch_retention_seconds", "7d"),
    (Settings, "sealed_batch_retention_seconds", math.nan),
    (Settings, "data_bytes_max", 0),
    (Settings, "data_bytes_max", limits.LARGE_DATA_BYTES_MAX + 1),
    (Settings, "consignment_bytes_max", 0),
    (Settings, "consignment_bytes_max", True),
    (Settings, "consignment_bytes_max", limits.STAGED_BYTES_MAX + 1),
    (Settings, "staged_bytes_max", -1),
    (Settings, "staged_bytes_max", "64 GiB"),
    (Settings, "consignment_idle_seconds", -1),
    (Settings, "consignment_idle_seconds", math.inf),
    (Settings, "consignment_retention_seconds", "30d"),
    (Settings, "consignment_retention_seconds", math.nan),
    (Settings, "counters_url", "http://counters.example:6379/0"),
    (Settings, "counters_url", "redis://"),
    (Settings, "counters_url", "redis://counters.example:99999/0"),
    (Settings, "counters_url", ""),
    (Settings, "housekeeping_seconds", None),
    (Settings, "housekeeping_seconds", 1 << 5_000),
    (Settings, "filing", 1),
    (Settings, "filing_process", 1),
    (Settings, "origins", {"": OriginSettings()}),
    (Settings, "origins", {"x" * 65: OriginSettings()}),
    (Settings, "origins", {"billing": 3}),
    (Settings, "origin_groups", {" ": OriginGroupSettings()}),
    (Settings, "server", 3),
    (Settings, "live", 3),
    (Settings, "webhooks", ["127.0.0.0/8"]),
    (Settings, "actions", "fail"),
    (Settings, "outcome_retention_seconds", -1),
    (Settings, "store_url", "mysql://host/db"),
    (Settings, "store_password_file", " "),
    (ActionSettings, "undeclared", "ignore"),
    (ActionSettings, "expires_seconds", 0),
    (Settings, "groups", 3),
    (OriginSettings, "group", ""),
    (OriginSettings, "group", "\t"),
    (OriginSettings, "group", "x" * 65),
    (OriginSettings, "group", "\ud800"),
    (OriginSettings, "content_url", "ftp://files.example/content"),
    (OriginSettings, "content_url", "files.example/content"),
    (OriginSettings, "content_url", "http://"),
    (OriginSettings, "content_url", "http://a b"),
    (OriginSettings, "content_url", "http://a:99999/"),
    (OriginSettings, "content_url", "http://a/#part"),
    (OriginSettings, "dequeued_url", "file:///etc/passwd"),
    (OriginSettings, "dequeued_url", "http://[::1"),
    (OriginSettings, "secret", "open sesame"),
    (OriginSettings, "secret", "whsec_c2hvcnQ="),
    (OriginGroupSettings, "strict_order", "yes"),
    (OriginGroupSettings, "live_collect", 1),
    (LiveSettings, "queue_messages", 0),
    (LiveSettings, "queue_messages", limits.LIVE_QUEUE_MESSAGES_MAX + 1),
    (LiveSettings, "queue_bytes", limits.KIB - 1),
    (LiveSettings, "queue_bytes", limits.LIVE_QUEUE_BYTES_MAX + 1),
    (LiveSettings, "connections_max", 0),
    (LiveSettings, "connections_max", limits.CONNECTIONS_MAX + 1),
    (LiveSettings, "recipient_connections_max", True),
    (LiveSettings, "recipient_connections_max", limits.CONNECTIONS_MAX + 1),
    (ServerSettings, "host", ""),
    (ServerSettings, "host", "http://localhost"),
    (ServerSettings, "port", -1),
    (ServerSettings, "port", 65_536),
    (ServerSettings, "access", "closed"),
    (ServerSettings, "hosts", "hub.example.org"),
    (ServerSettings, "hosts", ["hub.example.org:8470"]),
    (ServerSettings, "hosts", ["https://hub.example.org"]),
    (ServerSettings, "hosts", ["*"]),
    (ServerSettings, "origins", "https://app.example.org"),
    (ServerSettings, "origins", ["app.example.org"]),
    (ServerSettings, "origins", ["https://app.example.org/"]),
    (ServerSettings, "origins", ["https://app.example.org?a=b"]),
    (ServerSettings, "origins", ["null"]),
    (ServerSettings, "origins", ["*"]),
    (ServerSettings, "connections_max", 0),
    (ServerSettings, "publish_bytes_in_flight_max", limits.SEND_BYTES_MAX - 1),
    (ServerSettings, "publishes_waiting_max", limits.QUEUE_REQUESTS_MAX + 1),
    (ServerSettings, "reads_waiting_max", 0),
    (ServerSettings, "header_seconds", 0),
    (ServerSettings, "body_idle_seconds", limits.IDLE_SECONDS_MAX + 1),
    (ServerSettings, "answer_idle_seconds", -5),
    (ServerSettings, "keep_alive_seconds", math.nan),
    (ServerSettings, "drain_seconds", limits.DRAIN_SECONDS_END),
    (ServerSettings, "console", "yes"),
    (ServerSettings, "log", "xml"),
    (ServerSettings, "log_level", "loud"),
    (GroupSettings, "heartbeat_seconds", 0),
    (GroupSettings, "heartbeat_seconds", 3_601),
    (GroupSettings, "handover_seconds", -1),
    (GroupSettings, "hold_seconds", -1),
    (Settings, "backplane", 1),
    (Settings, "cluster", 1),
    (ClusterSettings, "node", "a b"),
    (ClusterSettings, "listen", "8472"),
    (ClusterSettings, "advertise", "a b"),
    (ClusterSettings, "secret_file", " "),
    (ClusterSettings, "certificate_file", " "),
    (ClusterSettings, "key_file", " "),
    (ClusterSettings, "authority_file", " "),
    (BackplaneSettings, "topic", "with spaces"),
    (BackplaneSettings, "brokers", "no-port"),
    (BackplaneSettings, "kafka", {"a": 1}),
    (BackplaneSettings, "record_bytes_max", 10),
    (BackplaneSettings, "delivery_seconds", 0),
    (BackplaneSettings, "stored_seconds", 0),
    (WebhookSettings, "allowed_networks", "127.0.0.0/8"),
    (WebhookSettings, "allowed_networks", ["localhost"]),
    (WebhookSettings, "allowed_networks", ["10.1.2.3/8"]),
    (Settings, "health", 1),
    (HealthSettings, "bounds", "low"),
    (HealthSettings, "disabled", ["everything"]),
    (HealthSettings, "switch_file", ""),
    *((HealthBounds, name, {"yellow": "much", "red": 2}) for name in HealthBounds.rules),
]


@pytest.mark.parametrize(("section", "name", "value"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_value_is_refused_with_what_is_allowed(section: type[Section], name: str, value: Any) -> None:
    with pytest.raises(errors.InvalidSettings, match=rf"^{name}: must be ") as caught:
        section(**{name: value})
    assert section.rules[name].allowed in caught.value.message
    assert len(caught.value.message) < 400


def test_every_setting_has_a_rule_and_a_wrong_value_above() -> None:
    sections = (
        Settings,
        OriginSettings,
        OriginGroupSettings,
        ServerSettings,
        LiveSettings,
        BackplaneSettings,
        WebhookSettings,
        GroupSettings,
        ActionSettings,
        HealthSettings,
        HealthBounds,
    )
    for section in sections:
        names = [field.name for field in msgspec.structs.fields(section)]
        assert list(section.rules) == names
        assert {name for owner, name, _ in WRONG if owner is section} == set(names)


def test_all_problems_of_a_section_are_told() -> None:
    with pytest.raises(errors.InvalidSettings) as caught:
        ServerSettings(port=-1, log_level="loud")  # type: ignore[arg-type]
    assert caught.value.details["problems"] == [
        "port: must be a whole number from 0 to 65,535, not -1",
        'log_level: must be "debug" or "info" or "warning" or "error", not \'loud\'',
    ]


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(errors.InvalidSettings) as caught:
        OriginSettings(content_url="https://me:hunter2@files.example/")
    assert "hunter2" not in caught.value.message


def test_the_secret_of_an_origin_is_not_repeated_right_or_wrong() -> None:
    with pytest.raises(errors.InvalidSettings, match="secret: must be whsec_ and then base64") as caught:
        OriginSettings(secret="whsec_hunter2")
    assert "hunter2" not in caught.value.message
    right = "whsec_" + "aHVudGVy" * 4
    assert right not in repr(Settings(origins={"charges": OriginSettings(secret=right, group="money")}))
    assert "group='money'" in repr(OriginSettings(group="money"))


def test_a_password_of_the_counters_is_refused_and_not_repeated() -> None:
    with pytest.raises(errors.InvalidSettings, match="RESTANTE_COUNTERS_PASSWORD") as caught:
        Settings(counters_url="redis://:hunter2@counters.example:6379/0")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("url", ["redis://localhost", "redis://localhost:6379/3", "rediss://[::1]:6379/0"])
def test_redis_addresses_are_right_for_counters(url: str) -> None:
    assert Settings(counters_url=url).counters_url == url


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/x?y=z", "https://files.example", "http://[::1]:80/", "HTTP://A/"]
)
def test_http_and_https_addresses_are_right(url: str) -> None:
    assert OriginSettings(content_url=url, dequeued_url=url).content_url == url


@given(st.floats(), st.integers())
def test_seconds_are_either_refused_or_finite_and_not_negative(seconds: float, count: int) -> None:
    try:
        settings = Settings(collected_retention_seconds=seconds, partition_count=count)
    except errors.InvalidSettings:
        assert not 0 <= seconds < math.inf or not 1 <= count <= limits.PARTITIONS_MAX
    else:
        assert 0 <= settings.collected_retention_seconds < math.inf
        assert 1 <= settings.partition_count <= limits.PARTITIONS_MAX


def test_a_group_that_no_origin_is_in_is_fine() -> None:
    settings = Settings(origin_groups={"idle": OriginGroupSettings(strict_order=True)})
    assert settings.strict_order("idle")
    assert settings.group_of("billing") == "billing"
