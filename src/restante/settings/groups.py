"""Settings of groups, and of the actions that they do."""

from __future__ import annotations

import math
from typing import Literal

from restante import limits
from restante.settings.rules import DAY_SECONDS, SECONDS, Rule, Section, choice

Undeclared = Literal["fail", "refuse", "poison"]


class GroupSettings(Section, frozen=True, kw_only=True):
    """The settings of groups: how readers share the feed."""

    heartbeat_seconds: float = 3.0
    """How often a member says that it is there; a member that misses three loses its partitions."""
    handover_seconds: float = 30.0
    """How long a member may keep a partition after the hub has told it to give the partition up."""
    hold_seconds: float = 30 * DAY_SECONDS
    """How long the feed stays, at most, for a group with actions that has not read it."""

    rules = {
        "heartbeat_seconds": Rule(
            f"a number of seconds, from {limits.HEARTBEAT_SECONDS_MIN:g} to {limits.HEARTBEAT_SECONDS_MAX:g}",
            lambda value: limits.HEARTBEAT_SECONDS_MIN <= value <= limits.HEARTBEAT_SECONDS_MAX,
        ),
        "handover_seconds": SECONDS,
        "hold_seconds": SECONDS,
    }


class ActionSettings(Section, frozen=True, kw_only=True):
    """The settings of actions: how they are accepted, and how long they wait."""

    undeclared: Undeclared = "fail"
    """The choice for an action whose name no group has declared: it fails when a group comes to it, is refused at once, or becomes poison."""
    expires_seconds: float = 7 * DAY_SECONDS
    """How long an action waits that does not say it itself; at most `groups.hold_seconds`."""

    rules = {
        "undeclared": choice("fail", "refuse", "poison"),
        "expires_seconds": Rule("a number of seconds, more than 0", lambda value: 0 < value < math.inf),
    }
