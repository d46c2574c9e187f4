"""Decisions of an operator, as one frozen value.

Each setting has one rule, which says in words what is allowed. The rules hold however settings are made: in Python they
are checked here; `settings.file` applies the same ones to files and environment variables, to report all problems.
"""

from __future__ import annotations

import math
import re

import msgspec

from restante import limits
from restante.settings.backplane import BackplaneSettings
from restante.settings.cluster import ClusterSettings
from restante.settings.groups import ActionSettings, GroupSettings
from restante.settings.health import HealthSettings
from restante.settings.origins import NAME, OriginGroupSettings, OriginSettings, WebhookSettings, is_name
from restante.settings.rules import DAY_SECONDS, FLAG, SECONDS, Rule, Section, path_of_file, whole
from restante.settings.server import LiveSettings, ServerSettings
from restante.settings.texts import is_address, is_store_url, is_unicode

_HOUR_SECONDS = 3_600.0

_COUNTERS_URL = Rule(
    "an address redis://host:port/number or rediss://…, without user and password (RESTANTE_COUNTERS_PASSWORD)",
    lambda value: value is None or is_address(value, ("redis", "rediss")),
)


def _is_store_address(text: str) -> bool:
    return is_store_url(text) and is_unicode(text) and not re.search(r"://[^@/?]*:[^@/?]*@|[?&]password=", text)


_STORE_URL = Rule(
    "an address postgresql://user@host:port/database, without a password (PGPASSWORD, PGPASSFILE, store_password_file)",
    lambda value: value is None or _is_store_address(value),
)


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
        "partition_count": whole(1, limits.PARTITIONS_MAX),
        "collected_retention_seconds": SECONDS,
        "identity_retention_seconds": Rule(
            f"a number of seconds, at least {_HOUR_SECONDS:,.0f} (an hour)",
            lambda value: value is None or _HOUR_SECONDS <= value < math.inf,
        ),
        "feed_retention_seconds": SECONDS,
        "producer_retention_seconds": Rule(
            f"a number of seconds, at least {DAY_SECONDS:,.0f} (a day)", lambda value: DAY_SECONDS <= value < math.inf
        ),
        "open_batch_retention_seconds": SECONDS,
        "sealed_batch_retention_seconds": SECONDS,
        "data_bytes_max": whole(1, limits.LARGE_DATA_BYTES_MAX),
        "consignment_bytes_max": whole(1, limits.STAGED_BYTES_MAX),
        "staged_bytes_max": whole(1, limits.STAGED_BYTES_MAX),
        "consignment_idle_seconds": SECONDS,
        "consignment_retention_seconds": SECONDS,
        "counters_url": _COUNTERS_URL,
        "store_url": _STORE_URL,
        "store_password_file": path_of_file(),
        "housekeeping_seconds": SECONDS,
        "filing": FLAG,
        "filing_process": FLAG,
        "origins": Rule(f"origins by their names, each {NAME.allowed}", lambda value: all(map(is_name, value))),
        "origin_groups": Rule(f"groups by their names, each {NAME.allowed}", lambda value: all(map(is_name, value))),
        "server": Rule("the settings of the server"),
        "live": Rule("the settings of live delivery"),
        "webhooks": Rule("the settings of webhooks"),
        "groups": Rule("the settings of groups"),
        "actions": Rule("the settings of actions"),
        "outcome_retention_seconds": SECONDS,
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
