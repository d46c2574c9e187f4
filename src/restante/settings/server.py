"""Settings of a served hub, and of the clients that are connected to it."""

from __future__ import annotations

import re
from typing import Literal

from restante import limits
from restante.settings.rules import FLAG, IDLE_SECONDS, Rule, Section, choice, like, whole
from restante.settings.texts import is_web_address

Access = Literal["auto", "tokens", "open"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

_HOSTS = Rule(
    'a list of host names and IP addresses, without ports, such as ["hub.example.org"]',
    lambda value: all(re.fullmatch(r"[A-Za-z0-9._-]{1,253}|[A-Fa-f0-9:.]{2,45}", host) for host in value),
)
_WEB_ORIGINS = Rule(
    'a list of web origins, scheme, host and port alone, such as ["https://app.example.org"]',
    lambda value: all(is_web_address(origin) and re.fullmatch(r"https?://[^/?]+", origin) for origin in value),
)


class ServerSettings(Section, frozen=True, kw_only=True):
    """The settings of a served hub, and of what protects it. A hub in process does not look at them."""

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
        "port": whole(0, 65_535),
        "access": choice("auto", "tokens", "open"),
        "hosts": _HOSTS,
        "origins": _WEB_ORIGINS,
        "connections_max": whole(1, limits.CONNECTIONS_MAX),
        "publish_bytes_in_flight_max": whole(limits.SEND_BYTES_MAX, limits.PUBLISH_BYTES_IN_FLIGHT_MAX),
        "publishes_waiting_max": whole(1, limits.QUEUE_REQUESTS_MAX),
        "reads_waiting_max": whole(1, limits.QUEUE_REQUESTS_MAX),
        "header_seconds": IDLE_SECONDS,
        "body_idle_seconds": IDLE_SECONDS,
        "answer_idle_seconds": IDLE_SECONDS,
        "keep_alive_seconds": IDLE_SECONDS,
        "drain_seconds": Rule(
            f"a number of seconds, 0 or more and less than {limits.DRAIN_SECONDS_END:g}",
            lambda value: 0 <= value < limits.DRAIN_SECONDS_END,
        ),
        "console": FLAG,
        "log": choice("auto", "json", "text"),
        "log_level": choice("debug", "info", "warning", "error"),
    }


class LiveSettings(Section, frozen=True, kw_only=True):
    """The settings of live mail: how messages are pushed to clients that are connected."""

    queue_messages: int = limits.LIVE_QUEUE_MESSAGES_DEFAULT
    """How many messages may wait for one connection; newer ones are dropped, and read from history."""
    queue_bytes: int = limits.MIB
    """How many bytes may wait for one connection; a single message may be larger."""
    connections_max: int = 16_000
    """How many clients may be connected in all."""
    recipient_connections_max: int = 1_024
    """How many clients of one recipient may be connected."""

    rules = {
        "queue_messages": whole(1, limits.LIVE_QUEUE_MESSAGES_MAX),
        "queue_bytes": whole(limits.KIB, limits.LIVE_QUEUE_BYTES_MAX),
        "connections_max": whole(1, limits.CONNECTIONS_MAX),
        "recipient_connections_max": whole(1, limits.CONNECTIONS_MAX),
    }
