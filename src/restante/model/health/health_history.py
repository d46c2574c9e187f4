"""The last hour by minutes: how bad each minute was, and what was the matter."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.model.health.bounds import HealthState, worst
from restante.model.health.tree import HealthNode, HealthTree

MINUTES = 60


class HealthMinute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One minute of the history of health: the worst colour that was seen in it."""

    at: Annotated[datetime, Meta(description="Its beginning.")]
    state: HealthState
    score: Annotated[float, Meta(ge=0, le=1, description="The lowest.")]
    yellow: Annotated[tuple[str, ...], Meta(description="The leaves that were yellow, and never red.")] = ()
    red: Annotated[tuple[str, ...], Meta(description="The leaves that were red.")] = ()


class HealthAnswer(HealthNode, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """The root of the tree; with the last hour, if it was asked for."""

    history: tuple[HealthMinute, ...] | msgspec.UnsetType = msgspec.UNSET


class HealthHistory:
    """The minutes of the last hour, oldest first. A minute without an evaluation is missing."""

    def __init__(self) -> None:
        self._minutes: deque[HealthMinute] = deque(maxlen=MINUTES)

    def minutes(self, now: datetime) -> tuple[HealthMinute, ...]:
        since = now - timedelta(minutes=MINUTES)
        return tuple(minute for minute in self._minutes if minute.at > since)

    def add(self, tree: HealthTree, now: datetime) -> None:
        seen = _minute(tree, now)
        last = self._minutes[-1] if self._minutes else None
        if last is not None and last.at == seen.at:
            self._minutes[-1] = _joined(last, seen)
        else:
            self._minutes.append(seen)


def _minute(tree: HealthTree, now: datetime) -> HealthMinute:
    def named(state: HealthState) -> tuple[str, ...]:
        return tuple(sorted(leaf.name for leaf in tree.leaves if leaf.state is state))

    root = tree.root
    score = 1.0 if root.score is msgspec.UNSET else root.score
    return HealthMinute(
        at=now.replace(second=0, microsecond=0),
        state=root.state,
        score=score,
        yellow=named(HealthState.YELLOW),
        red=named(HealthState.RED),
    )


def _joined(one: HealthMinute, other: HealthMinute) -> HealthMinute:
    red = {*one.red, *other.red}
    yellow = {*one.yellow, *other.yellow} - red
    return HealthMinute(
        at=one.at,
        state=worst([one.state, other.state]),
        score=min(one.score, other.score),
        yellow=tuple(sorted(yellow)),
        red=tuple(sorted(red)),
    )


def answer_of(tree: HealthTree, history: tuple[HealthMinute, ...] | None) -> HealthAnswer:
    """The answer that a caller gets."""
    fields = msgspec.structs.asdict(tree.root)
    return HealthAnswer(**fields, history=msgspec.UNSET if history is None else history)
