"""`restante groups`: how groups stand, and what operators do about them."""

from __future__ import annotations

import pytest

from restante.calls.groups import DefineGroup, JoinGroup, ReadGroup, WriteCheckpoint
from restante.model.publishing.message import Message
from tests.cli.places import Place


@pytest.fixture
def filled(place: Place) -> Place:
    """A hub with 40 messages and a group that has read some."""
    with place.opened() as hub:
        hub.producer.send([Message(recipient=f"r{n}", kind="invoice", data=n) for n in range(40)])
        link = hub.link
        link.call(DefineGroup("billing", kinds=("invoice",), actions=("charge",)))
        own = link.call(JoinGroup("billing", "worker-1")).partitions[0]
        link.call(WriteCheckpoint("billing", own.partition, 1, own.generation))
    return place


def positions(place: Place) -> list[int]:
    return [own["position"] for own in place.answer("groups show", "billing")["partitions"]]


def test_groups_are_listed_and_shown(filled: Place) -> None:
    (listed,) = filled.answer("groups list")["groups"]
    assert (listed["group"], listed["lag"], listed["kinds"]) == ("billing", 39, ["invoice"])
    shown = filled.answer("groups show", "billing")
    assert shown["members"][0]["member"] == "worker-1"
    assert sum(own["lag"] for own in shown["partitions"]) == 39
    text = filled.run("groups show", "billing").stdout
    assert "billing: reading, lag 39." in text
    assert "worker-1" in text
    assert "charge" in text
    assert "billing" in filled.run("groups list").stdout


def test_positions_are_reset(filled: Place) -> None:
    assert filled.answer("groups reset", "billing", "--to", "end", "--dry-run")["positions"] == []
    assert sum(positions(filled)) == 1
    moved = filled.answer("groups reset", "billing", "--to", "end", "--yes")["positions"]
    assert sum(own["position"] for own in moved) == 40
    filled.answer("groups reset", "billing", "--to", "2020-01-01T00:00:00Z", "--yes")
    assert sum(positions(filled)) == 0
    filled.answer("groups reset", "billing", "--to", "1", "--partition", "0", "--yes")
    assert positions(filled)[0] == 1
    assert filled.run("groups reset", "billing", "--to", "1", "--yes").exit_code == 2
    assert filled.run("groups reset", "billing", "--to", "yesterday", "--yes").exit_code == 1
    assert filled.run("groups reset", "billing", "--to", "9999", "--partition", "0", "--yes").exit_code == 1


def test_a_group_is_paused_resumed_and_deleted(filled: Place) -> None:
    assert filled.answer("groups pause", "billing") == {"group": "billing", "paused": True}
    assert filled.answer("groups show", "billing")["paused"]
    assert "paused" in filled.run("groups list").stdout
    assert filled.run("groups resume", "billing").stdout == "billing goes on.\n"
    assert filled.run("groups delete", "billing", "--dry-run").exit_code == 0
    assert filled.answer("groups delete", "billing", "--yes")["deleted"]
    assert filled.run("groups list").stdout == "There are no groups.\n"
    assert filled.run("groups show", "billing").exit_code == 1
    with filled.opened() as hub, pytest.raises(Exception, match="There is no group"):
        hub.link.call(ReadGroup("billing"))
