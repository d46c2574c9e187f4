"""Decisions of an operator, as one frozen value.

Each setting has one rule, which says in words what is allowed. The rules hold however settings are made: in Python they
are checked here; `settings_file` applies the same ones to files and environment variables, to report all problems.
"""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from restante import limits
from restante.settings_cluster import ClusterSettings
from restante.settings_rules import Rule, Section, like, must_be, path_of_file
from restante.settings_texts import (
    SECRET_PREFIX,
    is_address,
    is_network,
    is_unicode,
    is_web_address,
    secret_bytes,
)

DAY_SECONDS, _HOUR_SECONDS = 86_400.0, 3_600.0

Access = Literal["auto", "tokens", "open"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]
Undeclared = Literal["fail", "refuse", "poison"]


def _whole(least: int, most: int) -> Rule:
    return Rule(f"a whole number from {least:,} to {most:,}", lambda value: least <= value <= most)


def _choice(*values: str) -> Rule:
    return Rule(" or ".join(f'"{value}"' for value in values))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= limits.ORIGIN_CHARACTERS_MAX and not text.isspace() and is_unicode(text)


_SECONDS = Rule("a number of seconds, 0 or more", lambda value: 0 <= value < math.inf)
_IDLE_SECONDS = Rule(
    f"a number of seconds, more than 0 and at most {limits.IDLE_SECONDS_MAX:,}",
    lambda value: 0 < value <= limits.IDLE_SECONDS_MAX,
)
_AMOUNT = Rule("a number, 0 or more", lambda value: 0 <= value < math.inf)
_BOUND = Rule("a table with yellow and red, such as {yellow = 10, red = 50}")
_FLAG = Rule("true or false")
_NAME = Rule(f"a text of 1 to {limits.ORIGIN_CHARACTERS_MAX} characters, not blank", _is_name)
_GROUP = Rule(_NAME.allowed, lambda value: value is None or _is_name(value))
_URL = Rule(
    "an http or https address without user, password and fragment", lambda value: value is None or is_web_address(value)
)
_SECRET = Rule(
    f"{SECRET_PREFIX} and then base64 of {limits.WEBHOOK_SECRET_BYTES_MIN} to {limits.WEBHOOK_SECRET_BYTES_MAX} bytes",
    lambda value: value is None or secret_bytes(value) is not None,
    secret=True,
)
_HOSTS = Rule(
    'a list of host names and IP addresses, without ports, such as ["hub.example.org"]',
    lambda value: all(re.fullmatch(r"[A-Za-z0-9._-]{1,253}|[A-Fa-f0-9:.]{2,45}", host) for host in value),
)
_WEB_ORIGINS = Rule(
    'a list of web origins, scheme, host and port alone, such as ["https://app.example.org"]',
    lambda value: all(is_web_address(origin) and re.fullmatch(r"https?://[^/?]+", origin) for origin in value),
)
_COUNTERS_URL = Rule(
    "an address redis://host:port/number or rediss://…, without user and password (RESTANTE_COUNTERS_PASSWORD)",
    lambda value: value is None or is_address(value, ("redis", "rediss")),
)


def is_store_url(text: str) -> bool:
    """Whether a text is the address of a store that is not a folder."""
    return text.startswith(("postgresql://", "postgres://"))


def _is_store_address(text: str) -> bool:
    return is_store_url(text) and is_unicode(text) and not re.search(r"://[^@/?]*:[^@/?]*@|[?&]password=", text)


_STORE_URL = Rule(
    "an address postgresql://user@host:port/database, without a password (PGPASSWORD, PGPASSFILE, store_password_file)",
    lambda value: value is None or _is_store_address(value),
)
_NETWORKS = Rule(
    'a list of networks as address and length, such as ["10.1.0.0/16", "fd00::/8"]',
    lambda value: all(map(is_network, value)),
)


class OriginSettings(Section, frozen=True, kw_only=True):
    """One origin."""

    group: str | None = None
    """The origin group it belongs to; alone by default."""
    content_url: str | None = None
    """Where a served hub asks for the content of claim-check messages."""
    dequeued_url: str | None = None
    """Where a served hub tells which bundles were dequeued."""

    secret: str | None = None
    """The secret that signs the calls to both; by default the one that `restante origins secret` shows."""

    rules = {"group": _GROUP, "content_url": _URL, "dequeued_url": _URL, "secret": _SECRET}

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.rules if name != "secret"}
        return f"OriginSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class OriginGroupSettings(Section, frozen=True, kw_only=True):
    """One origin group."""

    strict_order: bool = False
    """A bundle ends before the first waiting message of another cabinet of the group."""
    live_collect: bool = False
    """Whether clients that are connected may collect by saying up to which number they have got everything."""

    rules = {"strict_order": _FLAG, "live_collect": _FLAG}


class LiveSettings(Section, frozen=True, kw_only=True):
    """How messages are pushed to those who are connected."""

    queue_messages: int = limits.LIVE_QUEUE_MESSAGES_DEFAULT
    """How many messages may wait for one connection; what is newer is dropped, and read from history."""
    queue_bytes: int = limits.MIB
    """How many bytes may wait for one connection; a single message may be larger."""
    connections_max: int = 16_000
    """How many clients may be connected in all."""
    recipient_connections_max: int = 1_024
    """How many clients of one recipient may be connected."""

    rules = {
        "queue_messages": _whole(1, limits.LIVE_QUEUE_MESSAGES_MAX),
        "queue_bytes": _whole(limits.KIB, limits.LIVE_QUEUE_BYTES_MAX),
        "connections_max": _whole(1, limits.CONNECTIONS_MAX),
        "recipient_connections_max": _whole(1, limits.CONNECTIONS_MAX),
    }


class ServerSettings(Section, frozen=True, kw_only=True):
    """How a hub is served, and what protects it. A hub in process does not look at it."""

    host: str = "127.0.0.1"
    port: int = 8470
    access: Access = "auto"
    """`auto`: tokens are asked for if there are any; otherwise open, and then only on loopback addresses."""
    hosts: tuple[str, ...] = ()
    """Further names under which a hub that asks for no token may be called, by `Host`."""
    origins: tuple[str, ...] = ()
    """Sites whose web pages may use the hub, by `Origin`."""
    connections_max: int = 20_000
    publish_bytes_in_flight_max: int = 256 * limits.MIB
    publishes_waiting_max: int = 16_384
    reads_waiting_max: int = 1_024
    header_seconds: float = 10.0
    body_idle_seconds: float = 20.0
    answer_idle_seconds: float = 20.0
    keep_alive_seconds: float = 75.0
    drain_seconds: float = 8.0
    console: bool = True
    """Whether the console is served at `/console`."""
    log: LogFormat = "auto"
    log_level: LogLevel = "info"

    rules = {
        "host": like("an IP address or a host name", r"[A-Za-z0-9._:%-]{1,255}"),
        "port": _whole(0, 65_535),
        "access": _choice("auto", "tokens", "open"),
        "hosts": _HOSTS,
        "origins": _WEB_ORIGINS,
        "connections_max": _whole(1, limits.CONNECTIONS_MAX),
        "publish_bytes_in_flight_max": _whole(limits.SEND_BYTES_MAX, limits.PUBLISH_BYTES_IN_FLIGHT_MAX),
        "publishes_waiting_max": _whole(1, limits.QUEUE_REQUESTS_MAX),
        "reads_waiting_max": _whole(1, limits.QUEUE_REQUESTS_MAX),
        "header_seconds": _IDLE_SECONDS,
        "body_idle_seconds": _IDLE_SECONDS,
        "answer_idle_seconds": _IDLE_SECONDS,
        "keep_alive_seconds": _IDLE_SECONDS,
        "drain_seconds": Rule(
            f"a number of seconds, 0 or more and less than {limits.DRAIN_SECONDS_END:g}",
            lambda value: 0 <= value < limits.DRAIN_SECONDS_END,
        ),
        "console": _FLAG,
        "log": _choice("auto", "json", "text"),
        "log_level": _choice("debug", "info", "warning", "error"),
    }


class WebhookSettings(Section, frozen=True, kw_only=True):
    """Whom the hub may call when a batch is complete: publishers name the addresses."""

    allowed_networks: tuple[str, ...] = ()
    """Networks that may be called beside public addresses: loopback, private and link-local ones are not otherwise."""

    rules = {"allowed_networks": _NETWORKS}


class GroupSettings(Section, frozen=True, kw_only=True):
    """How readers share the feed in groups."""

    heartbeat_seconds: float = 3.0
    """How often a member says that it is there; who misses three loses its partitions."""
    handover_seconds: float = 30.0
    """How long a member may keep a partition that it was told to give up."""
    hold_seconds: float = 30 * DAY_SECONDS
    """How long the feed stays, at most, for a group with actions that has not read it."""

    rules = {
        "heartbeat_seconds": Rule(
            f"a number of seconds, from {limits.HEARTBEAT_SECONDS_MIN:g} to {limits.HEARTBEAT_SECONDS_MAX:g}",
            lambda value: limits.HEARTBEAT_SECONDS_MIN <= value <= limits.HEARTBEAT_SECONDS_MAX,
        ),
        "handover_seconds": _SECONDS,
        "hold_seconds": _SECONDS,
    }


class ActionSettings(Section, frozen=True, kw_only=True):
    """How actions are taken, and how long what became of them is told."""

    undeclared: Undeclared = "fail"
    """The choice for an action whose name no group has declared: it fails when a group comes to it, is refused at once, or becomes poison."""
    expires_seconds: float = 7 * DAY_SECONDS
    """How long an action waits that does not say it itself; at most `groups.hold_seconds`."""

    rules = {
        "undeclared": _choice("fail", "refuse", "poison"),
        "expires_seconds": Rule("a number of seconds, more than 0", lambda value: 0 < value < math.inf),
    }


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
        "record_bytes_max": _whole(limits.BACKPLANE_RECORD_BYTES_MIN, limits.BACKPLANE_RECORD_BYTES_MAX),
        "delivery_seconds": _IDLE_SECONDS,
        "stored_seconds": _IDLE_SECONDS,
    }

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.rules if name != "kafka"}
        return f"BackplaneSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class BoundSettings(Section, frozen=True, kw_only=True):
    """From where on a measure of health is yellow, and red. With `red` below `yellow`, less is worse."""

    yellow: float
    red: float

    rules = {"yellow": _AMOUNT, "red": _AMOUNT}


def _bound(yellow: float, red: float) -> BoundSettings:
    """A default."""
    value: BoundSettings = msgspec.field(default_factory=lambda: BoundSettings(yellow=yellow, red=red))
    return value


class HealthBounds(Section, frozen=True, kw_only=True):
    """The bounds of the measures of health; to reach one counts."""

    time_in_queue: BoundSettings = _bound(200, 1_000)
    """Milliseconds from the acceptance of an action until it is begun, on average."""
    failures: BoundSettings = _bound(3, 10)
    """The failures within a minute: commits, calls to origins, notices of batches, actions."""
    time_to_do: BoundSettings = _bound(100, 200)
    """Milliseconds that an action takes, on average."""
    api_failures: BoundSettings = _bound(10, 50)
    """Requests within a minute that the hub answered with 500 or above."""
    api_latency: BoundSettings = _bound(150, 500)
    """Milliseconds that a request takes, on average; those that wait for something do not count."""
    backlog: BoundSettings = _bound(3, 10)
    """Actions that wait for a minute or longer."""
    store_commit: BoundSettings = _bound(20, 40)
    """Milliseconds that the store takes for a commit, on average."""
    oldest_unread: BoundSettings = _bound(30, 300)
    """Seconds for which the oldest change waits that a group has not read."""
    feed_held: BoundSettings = _bound(1, DAY_SECONDS)
    """Seconds for which the feed stays beyond its retention, for a group with actions that has not read it."""
    poisoned: BoundSettings = _bound(1, 10)
    """Actions that became poison within a minute."""
    disk_left: BoundSettings = _bound(10, 5)
    """Percent of the data folder's disk that are free."""
    unfiled_runs: BoundSettings = _bound(limits.UNFILED_RUNS_MAX // 2, limits.UNFILED_RUNS_MAX + 1)
    """Runs of one partition that wait to be filed."""

    rules = {
        "time_in_queue": _BOUND,
        "failures": _BOUND,
        "time_to_do": _BOUND,
        "api_failures": _BOUND,
        "api_latency": _BOUND,
        "backlog": _BOUND,
        "store_commit": _BOUND,
        "oldest_unread": _BOUND,
        "feed_held": _BOUND,
        "poisoned": _BOUND,
        "disk_left": _BOUND,
        "unfiled_runs": _BOUND,
    }


HEALTH_COMPONENTS = "store committer filing doors webhooks nodes origins housekeeping groups jobs"
"""The components whose health is told; each is a leaf, or has leaves as its parts."""
HEALTH_CHECKS = ("disk", "filing", "switch_file", "deep_write")
"""The checks of `/healthz` that can be disabled."""


def _is_health_name(text: str) -> bool:
    """A component, a part of one after a slash, a check, or a measure."""
    return text.partition("/")[0] in {*HEALTH_COMPONENTS.split(), *HEALTH_CHECKS, *HealthBounds.rules}


class HealthSettings(Section, frozen=True, kw_only=True):
    """When something counts as unwell, and what is not looked at."""

    bounds: HealthBounds = msgspec.field(default_factory=HealthBounds)
    disabled: tuple[str, ...] = ()
    """Components, checks and measures that are not looked at."""
    switch_file: str | None = None
    """While this file is missing, `/healthz` fails: so a node is taken out of the rotation."""

    rules = {
        "bounds": Rule("the bounds of the measures"),
        "disabled": Rule(
            f"a list of names out of {', '.join(dict.fromkeys((*HEALTH_COMPONENTS.split(), *HEALTH_CHECKS)))} and the measures",
            lambda value: all(map(_is_health_name, value)),
        ),
        "switch_file": path_of_file(),
    }


class Settings(Section, frozen=True, kw_only=True):
    """All settings of a hub."""

    partition_count: int = limits.PARTITIONS_DEFAULT
    """Fixed when the data folder is created."""
    collected_retention_seconds: float = 30 * DAY_SECONDS
    """How long collected messages stay as history."""
    identity_retention_seconds: float | None = None
    """How long a repeated id is recognised; as long as the message is kept by default."""
    feed_retention_seconds: float = 7 * DAY_SECONDS
    """How far back the feed reaches; never more than the history."""
    producer_retention_seconds: float = 30 * DAY_SECONDS
    """How long the state of a producer stays that nobody uses; at least a day."""
    open_batch_retention_seconds: float = 2 * 3_600.0
    """How long an open batch stays that nobody adds to or acknowledges."""
    sealed_batch_retention_seconds: float = 7 * DAY_SECONDS
    """How long a sealed or complete batch stays after it was last used."""
    data_bytes_max: int = limits.DATA_BYTES_MAX
    """How many bytes the data of one message may have; at most 16 MiB. Larger content goes by claim check."""
    consignment_bytes_max: int = 16 * 1024 * limits.MIB
    """How many bytes one consignment may stage."""
    staged_bytes_max: int = 64 * 1024 * limits.MIB
    """How many bytes all open consignments may stage."""
    consignment_idle_seconds: float = DAY_SECONDS
    """How long an open consignment stays that nobody stages into; then it is discarded."""
    consignment_retention_seconds: float = 30 * DAY_SECONDS
    """How long a committed consignment's key and answer are kept."""
    counters_url: str | None = None
    """Where estimated batches are counted (redis:// or rediss://); in the memory of the hub by default."""
    store_url: str | None = None
    """The database in which a served hub keeps its data (postgresql://); in the data folder by default."""
    store_password_file: str | None = None
    """A file that holds the password for the database, and nothing else."""
    housekeeping_seconds: float = 30.0
    """How often expiry and retention are looked after in the background; 0 leaves it to explicit calls."""
    filing: bool = True
    """Whether mailbags are filed in the background; otherwise only by explicit calls."""
    filing_process: bool = True
    """Whether a served hub has a process of its own for what filing computes."""
    origins: dict[str, OriginSettings] = {}
    origin_groups: dict[str, OriginGroupSettings] = {}
    server: ServerSettings = msgspec.field(default_factory=ServerSettings)
    live: LiveSettings = msgspec.field(default_factory=LiveSettings)
    webhooks: WebhookSettings = msgspec.field(default_factory=WebhookSettings)
    groups: GroupSettings = msgspec.field(default_factory=GroupSettings)
    actions: ActionSettings = msgspec.field(default_factory=ActionSettings)
    outcome_retention_seconds: float = DAY_SECONDS
    """How long the result of an action, and the text of its problem, are kept."""
    health: HealthSettings = msgspec.field(default_factory=HealthSettings)
    backplane: BackplaneSettings = msgspec.field(default_factory=BackplaneSettings)
    cluster: ClusterSettings = msgspec.field(default_factory=ClusterSettings)

    rules = {
        "partition_count": _whole(1, limits.PARTITIONS_MAX),
        "collected_retention_seconds": _SECONDS,
        "identity_retention_seconds": Rule(
            f"a number of seconds, at least {_HOUR_SECONDS:,.0f} (an hour)",
            lambda value: value is None or _HOUR_SECONDS <= value < math.inf,
        ),
        "feed_retention_seconds": _SECONDS,
        "producer_retention_seconds": Rule(
            f"a number of seconds, at least {DAY_SECONDS:,.0f} (a day)", lambda value: DAY_SECONDS <= value < math.inf
        ),
        "open_batch_retention_seconds": _SECONDS,
        "sealed_batch_retention_seconds": _SECONDS,
        "data_bytes_max": _whole(1, limits.LARGE_DATA_BYTES_MAX),
        "consignment_bytes_max": _whole(1, limits.STAGED_BYTES_MAX),
        "staged_bytes_max": _whole(1, limits.STAGED_BYTES_MAX),
        "consignment_idle_seconds": _SECONDS,
        "consignment_retention_seconds": _SECONDS,
        "counters_url": _COUNTERS_URL,
        "store_url": _STORE_URL,
        "store_password_file": path_of_file(),
        "housekeeping_seconds": _SECONDS,
        "filing": _FLAG,
        "filing_process": _FLAG,
        "origins": Rule(f"origins by their names, each {_NAME.allowed}", lambda value: all(map(_is_name, value))),
        "origin_groups": Rule(f"groups by their names, each {_NAME.allowed}", lambda value: all(map(_is_name, value))),
        "server": Rule("the settings of the server"),
        "live": Rule("the settings of live delivery"),
        "webhooks": Rule("the settings of webhooks"),
        "groups": Rule("the settings of groups"),
        "actions": Rule("the settings of actions"),
        "outcome_retention_seconds": _SECONDS,
        "health": Rule("the settings of health"),
        "backplane": Rule("the settings of the backplane"),
        "cluster": Rule("the settings of a node"),
    }

    @property
    def feed_reach_seconds(self) -> float:
        """How far back the feed really reaches: what history has let go, it cannot tell."""
        return min(self.feed_retention_seconds, self.collected_retention_seconds)

    def group_of(self, origin: str) -> str:
        """The origin group of an origin: its own name unless configured."""
        known = self.origins.get(origin)
        return known.group if known is not None and known.group is not None else origin

    def strict_order(self, group: str) -> bool:
        known = self.origin_groups.get(group)
        return known is not None and known.strict_order

    def live_collect(self, group: str) -> bool:
        known = self.origin_groups.get(group)
        return known is not None and known.live_collect


def problem_with_name(name: str) -> str | None:
    """The problem with the name of an origin or an origin group."""
    return None if _is_name(name) else f"the name {must_be(_NAME, name)}"
