"""Health without a hub: bounds, the tree, the score, the window, the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.health.bounds import Bound, HealthState, RateWindow, Reading, mean
from restante.model.health.health_history import MINUTES, HealthHistory, answer_of
from restante.model.health.tree import COMPONENTS, FLOWS, HealthLeaf, HealthNode, grow, judge_leaves, score_of
from restante.settings.health import HEALTH_COMPONENTS

NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
BOUNDS = {"level": Bound(yellow=3, red=10), "left": Bound(yellow=10, red=5)}
GREEN, YELLOW, RED = HealthState.GREEN, HealthState.YELLOW, HealthState.RED


def level(value: float) -> Reading:
    return Reading(name="level", value=value, unit="failures", reason="why")


def leaf(component: str, *values: float, part: str | None = None) -> HealthLeaf:
    return HealthLeaf(component=component, readings=tuple(map(level, values)), part=part)


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("level", 2.9, GREEN),
        ("level", 3, YELLOW),
        ("level", 9.9, YELLOW),
        ("level", 10, RED),
        ("left", 10.1, GREEN),
        ("left", 10, YELLOW),
        ("left", 5.1, YELLOW),
        ("left", 5, RED),
    ],
)
def test_to_reach_a_bound_counts_and_less_is_worse_where_red_is_lower(
    name: str, value: float, state: HealthState
) -> None:
    assert BOUNDS[name].judge(value) is state


def test_the_settings_name_the_components_of_the_tree() -> None:
    assert set(HEALTH_COMPONENTS.split()) == set(COMPONENTS)


def test_a_node_is_as_bad_as_its_worst_part_and_a_leaf_counts_once() -> None:
    tree = grow(judge_leaves([leaf("store", 0, 10), leaf("filing", 3)], BOUNDS, frozenset()), {}, NOW)
    assert tree.root.state is RED
    assert tree.root.score == pytest.approx(0.25)  # the store stands in four flows
    states = {flow.name: flow.state for flow in tree.root.parts}
    assert states == {"publish": RED, "collect": RED, "act": RED, "analyse": RED}
    publish = {part.name: part for part in tree.root.parts[0].parts}
    assert (publish["filing"].state, publish["doors"].state) == (YELLOW, GREEN)
    assert (publish["filing"].measured, publish["doors"].measured) == (True, False)


def test_reasons_are_told_of_what_is_not_green() -> None:
    measures = judge_leaves([leaf("store", 0, 10)], BOUNDS, frozenset())[0].measures
    assert [measure.reason for measure in measures] == [msgspec.UNSET, "why"]


def test_parts_stand_below_their_component() -> None:
    leaves = judge_leaves([leaf("groups", 0, part="billing"), leaf("groups", 3, part="mail")], BOUNDS, frozenset())
    act = next(flow for flow in grow(leaves, {}, NOW).root.parts if flow.name == "act")
    groups = next(part for part in act.parts if part.name == "groups")
    assert [(part.name, part.state) for part in groups.parts] == [("groups/billing", GREEN), ("groups/mail", YELLOW)]
    assert (groups.state, groups.measured, score_of(leaves)) == (YELLOW, msgspec.UNSET, 0.75)


@pytest.mark.parametrize("name", ["store", "level", "groups/mail", "groups"])
def test_what_is_disabled_is_not_judged(name: str) -> None:
    leaves = [leaf("store", 10), leaf("groups", 10, part="mail")]
    reds = {own.name for own in judge_leaves(leaves, BOUNDS, frozenset({name})) if own.state is RED}
    expected = {"store": {"groups/mail"}, "level": set(), "groups/mail": {"store"}, "groups": {"store"}}
    assert reds == expected[name]


def test_a_state_has_the_moment_when_it_was_taken() -> None:
    later, latest = NOW + timedelta(seconds=10), NOW + timedelta(seconds=20)
    first = grow(judge_leaves([leaf("store", 0)], BOUNDS, frozenset()), {}, NOW)
    second = grow(judge_leaves([leaf("store", 10)], BOUNDS, frozenset()), first.since, later)
    third = grow(judge_leaves([leaf("store", 11)], BOUNDS, frozenset()), second.since, latest)
    assert [tree.root.since for tree in (first, second, third)] == [NOW, later, later]
    jobs = [part for flow in third.root.parts for part in flow.parts if part.name == "jobs"]
    assert jobs[0].since == NOW


VALUES = st.lists(st.floats(0, 20), max_size=3)


@given(st.dictionaries(st.sampled_from(COMPONENTS), VALUES))
def test_the_tree_of_any_leaves(values: dict[str, list[float]]) -> None:
    leaves = judge_leaves([leaf(name, *own) for name, own in values.items()], BOUNDS, frozenset())
    tree = grow(leaves, {}, NOW)
    worst = max((own.state.severity for own in leaves), default=0)
    assert tree.root.state.severity == worst
    yellow, red = (sum(own.state is state for own in leaves) for state in (YELLOW, RED))
    assert tree.root.score == max(0.0, 1 - 0.25 * yellow - 0.5 * red)
    assert {own.name for own in leaves} == set(COMPONENTS)
    assert [flow.name for flow in tree.root.parts] == list(FLOWS)
    check_worst(tree.root)


def check_worst(node: HealthNode) -> None:
    own = [measure.state.severity for measure in node.measures]
    assert node.state.severity == max([*own, *(part.state.severity for part in node.parts)], default=0)
    for part in node.parts:
        check_worst(part)


def test_a_window_tells_what_came_within_a_minute() -> None:
    window = RateWindow()
    added = [window.added(10.0 * step, (float(step), 2.0 * step)) for step in range(12)]
    assert [added[0], added[6], added[11]] == [(0, 0), (6, 12), (6, 12)]
    assert [mean(12, 6), mean(0, 0)] == [2, None]


def test_a_window_never_tells_less_than_nothing() -> None:
    window = RateWindow()
    window.added(0, (5.0,))
    assert window.added(1, (3.0,)) == (0,)


def test_history_keeps_the_worst_of_each_minute_of_an_hour() -> None:
    history = HealthHistory()
    for seconds, value in ((0, 0), (10, 10), (20, 3), (60, 0)):
        tree = grow(judge_leaves([leaf("store", value)], BOUNDS, frozenset()), {}, NOW)
        history.add(tree, NOW + timedelta(seconds=seconds))
    first, second = history.minutes(NOW + timedelta(minutes=2))
    assert (first.at, first.state, first.score, first.yellow, first.red) == (
        NOW.replace(second=0),
        RED,
        0.5,
        (),
        ("store",),
    )
    assert (second.state, second.score, second.red) == (GREEN, 1.0, ())
    assert history.minutes(NOW + timedelta(hours=2)) == ()
    well = grow(judge_leaves([], BOUNDS, frozenset()), {}, NOW)
    for minute in range(100):
        history.add(well, NOW + timedelta(minutes=minute))
    assert len(history.minutes(NOW + timedelta(minutes=99))) == MINUTES


def test_an_answer_has_the_history_only_if_it_is_asked_for() -> None:
    tree = grow(judge_leaves([], BOUNDS, frozenset()), {}, NOW)
    plain, whole = (msgspec.json.decode(msgspec.json.encode(answer_of(tree, each))) for each in (None, ()))
    assert "history" not in plain
    assert (whole["history"], whole["score"], whole["name"]) == ([], 1.0, "system")
