"""Settings of health: the bounds of its measures, and what is not looked at."""

from __future__ import annotations

import msgspec

from restante import limits
from restante.settings.rules import AMOUNT, DAY_SECONDS, Rule, Section, path_of_file

_BOUND = Rule("a table with yellow and red, such as {yellow = 10, red = 50}")


class BoundSettings(Section, frozen=True, kw_only=True):
    """The bounds from which a measure of health is yellow, and red. With `red` below `yellow`, less is worse."""

    yellow: float
    red: float

    rules = {"yellow": AMOUNT, "red": AMOUNT}


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
"""The components of the health tree; each is a leaf, or has leaves as its parts."""
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
