"""A node is silent when its beat was the same for a whole lease, by the clock of who looks."""

from __future__ import annotations

from restante.cluster.nodes.node_about import SilentNodes
from restante.ports.membership import NodeRow


def row(beat: int, session: str = "s") -> NodeRow:
    return NodeRow(session, "node", beat, 3_000, b"")


def test_a_node_is_silent_after_its_lease_and_not_before() -> None:
    silent = SilentNodes()
    assert silent.among([row(1)], 100.0) == []
    assert silent.among([row(1)], 102.9) == []
    assert silent.among([row(2)], 102.95) == []
    assert silent.among([row(2)], 105.9) == []
    assert silent.among([row(2)], 105.95) == [row(2)]


def test_each_session_is_heard_by_itself() -> None:
    silent = SilentNodes()
    silent.among([row(1, "a")], 100.0)
    assert silent.among([row(1, "a"), row(1, "b")], 103.0) == [row(1, "a")]
    assert silent.among([row(1, "b")], 105.9) == []
    assert silent.among([row(1, "a"), row(1, "b")], 106.0) == [row(1, "b")], "who went and came is heard anew"
