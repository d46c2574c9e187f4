"""The short way of a member that keeps up: what it is handed from memory is what the feed has, and nothing is missed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante import limits
from restante.calls.actions import RepeatPoison
from restante.calls.groups import ReadNext, ResetPosition, SendHeartbeat
from restante.calls.publishing import Publish
from restante.calls.removal import Erase, SetAside, Withdraw
from restante.errors import GenerationStale, PositionAhead
from restante.hub.action_rows.action_memory import ActionMemory
from restante.hub.action_rows.recent_actions import RecentAction, RecentActions
from restante.hub.groups.members import heartbeat
from restante.model.access.access import EVERYTHING
from restante.model.actions.wanted_action import WantedAction
from restante.model.groups.group import GROUPS_HOME, Start
from restante.model.groups.group_answers import FewPage, NextAnswer, ReadAfter, Running
from restante.model.mailboxes.answers import moment
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partition_of
from restante.model.work.results import OutcomeState
from restante.wire.outgoing.outgoing_groups import next_json
from restante.work.action_pages import action_page, few_page
from tests.actions.action_world import GROUP, ActionWorld, SeveralActionWorld, inside, outcome
from tests.groups.group_world import LEASE


def question(world: ActionWorld, **given: Any) -> ReadNext:
    after = tuple(ReadAfter(**msgspec.structs.asdict(own)) for own in world.owned.values())
    return ReadNext(GROUP, world.member_id, **{"after": after, "few": True, **given})


def few(world: ActionWorld, **given: Any) -> tuple[FewPage, ...]:
    """The pages, which are those of the short way."""
    answer = world.hub.call(question(world, **given))
    assert not answer.pages, "the feed was read"
    return answer.few


def ids(world: ActionWorld) -> list[str]:
    return [row.id for page in few(world) for row in page.changes]


def is_read(world: ActionWorld) -> bool:
    """Whether the feed has to be read."""
    return bool(world.hub.call(question(world)).pages)


def as_json(answer: NextAnswer) -> Any:
    return [page["changes"] for page in json.loads(b"".join(next_json(answer)))["pages"] if page["changes"]]


def test_what_memory_hands_out_is_what_the_feed_has(world: ActionWorld) -> None:
    late = moment(world.clock()) + timedelta(days=1)
    world.send(id="a", data=b'{"n": 1, "text": "\\u00e4"}')
    world.send("drop", "other")
    for message in (
        Message(recipient="item", kind="action", properties={"action": "add", "HEALTHCHECK": "x"}, text="hällo"),
        Message(recipient="item", kind="action", data=b"\xff\x00", bundleable=False, expires_at=late),
        Message(recipient="thing", kind="action", data=b"[1]", media_type="application/vnd.x+json", weight=7),
        Message(recipient="thing", kind="action", data=b"\xff", media_type="text/csv", origin="shop"),
        Message(recipient="thing", kind="mail", data=1),
    ):
        world.hub.call(Publish.of([message]))
    short, long = world.hub.call(question(world)), world.hub.call(question(world, few=False))
    assert short.few
    assert not short.pages
    rows = json.loads(msgspec.json.encode([page.changes for page in short.few if page.changes]))
    assert _same_times(rows) == _same_times(as_json(long))
    now = 1.0
    assert [few_page(page, now) for page in short.few] == [action_page(page, now) for page in long.pages]


def _same_times(rows: Any) -> Any:
    return json.loads(json.dumps(rows).replace(".000000Z", "Z"))


def test_what_was_settled_any_way_is_handed_out_no_more(world: ActionWorld) -> None:
    names = ("done", "poison", "withdrawn", "aside", "erased", "left")
    for name in names:
        world.send(id=name, concerns=name)
    assert sorted(ids(world)) == sorted(names)
    rows = {row.id: (page.partition, row.sequence_number) for page in few(world) for row in page.changes}
    for name, state in (("done", OutcomeState.DONE), ("poison", OutcomeState.POISONED)):
        partition, number = rows[name]
        world.report({"partition": partition, "sequence_number": number}, state)
    world.hub.call(Withdraw("withdrawn", "withdrawn"))
    world.hub.call(SetAside("aside", "aside"))
    world.hub.call(Erase("erased"))
    assert ids(world) == ["left"]
    assert [row["text_id"] for row in world.handed()] == ["left"]


def test_what_memory_does_not_have_is_read(world: ActionWorld) -> None:
    world.send(id="a")
    (page,) = [page for page in few(world) if page.changes]
    world.report_all(page.partition, *[outcome(row.sequence_number, OutcomeState.POISONED) for row in page.changes])
    world.hub.call(RepeatPoison(GROUP, "a"))
    assert is_read(world), "it lives on under a number of which memory has not the message"
    assert [row["text_id"] for row in world.handed()] == ["a"]
    for _ in range(2):
        world.hub.call(ResetPosition(GROUP, page.partition, Start.END))
        world.enter("worker")
    world.send(id="b")
    assert ids(world) == ["b"]
    world.send(id="large", data=b'"' + b"x" * limits.RECENT_ACTION_BYTES_MAX + b'"')
    assert is_read(world)


def test_many_at_once_and_those_from_before_the_hub_was_opened_are_read() -> None:
    world = ActionWorld()
    many = [WantedAction(action="add", concerns=f"t{number}") for number in range(limits.FEW_MESSAGES_MAX + 1)]
    world.send_all(*many)
    assert is_read(world)
    world.open_again()
    world.enter("worker")
    assert is_read(world)
    world.hub.close()


@inside
def test_more_than_few_are_read_and_nothing_is_skipped(world: ActionWorld) -> None:
    for number in range(limits.FEW_ACTIONS_MAX + 1):
        world.send(concerns=f"t{number}")
    assert is_read(world)
    assert len(world.handed()) == limits.FEW_ACTIONS_MAX + 1
    world.send(concerns="t")
    assert is_read(world)


def test_the_actions_of_others_are_left_out_and_make_no_lag(world: ActionWorld) -> None:
    world.define("bank", actions=("charge",))
    world.send("charge", id="theirs")
    assert ids(world) == []
    assert world.status(GROUP).lag == 0
    world.define("picky", actions=("pick",), origins=("shop",))
    world.send("pick", id="x")
    world.send("pick", id="y", origin="shop")
    joined = world.join("p", "picky")
    after = tuple(ReadAfter(**msgspec.structs.asdict(own)) for own in joined.partitions)
    answer = world.hub.call(ReadNext("picky", joined.member_id, after, few=True))
    assert [row.id for page in answer.few for row in page.changes] == ["y"]


def test_the_short_way_keeps_every_fence(world: ActionWorld) -> None:
    world.send(id="a")
    stale = question(world)
    world.enter("worker")
    with pytest.raises(Exception, match="no member"):
        world.hub.call(stale)
    with pytest.raises(GenerationStale):
        world.hub.call(msgspec.structs.replace(stale, member_id=world.member_id))
    ahead = [msgspec.structs.replace(each, position=99) for each in question(world).after]
    with pytest.raises(PositionAhead):
        world.hub.call(msgspec.structs.replace(question(world), after=tuple(ahead)))


def test_what_is_handed_out_and_kills_at_once_counts_as_died_of(world: ActionWorld) -> None:
    for death in (1, 2, 3):
        if death == 1:
            world.send(id="killer")
        assert few(world, running=())
        if death == 2:
            world.beat(world.member_id, GROUP)  # It was sent before the answer came, and knows nothing of the action.
        world.advance(LEASE)
        world.end()
        world.enter("worker")
        assert world.look("killer").deaths == death
    assert [own.id for own in world.poison()] == ["killer"]


def test_what_a_member_says_with_its_next_question_counts_instead(world: ActionWorld) -> None:
    world.send(id="a")
    world.send(id="b", concerns="other")
    pages = few(world, running=())
    rows = {row.id: (page.partition, row.sequence_number) for page in pages for row in page.changes}
    partition, number = rows["b"]
    running = (Running(partition=partition, sequence_number=number),)
    world.hub.call(_read_on(world, pages, running))
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running))
    world.enter("worker")
    assert (world.look("a").deaths, world.look("b").deaths) == (0, 1)


def test_what_a_member_said_later_counts_whichever_arrives_first(world: ActionWorld) -> None:
    """A question that was made before the killer began arrives after the heartbeat that names it."""
    for own_id in ("killer", "innocent"):
        world.send(id=own_id, concerns=own_id)
    rows = {row.id: (page.partition, row.sequence_number) for page in few(world) for row in page.changes}
    killer, innocent = (
        (Running(partition=rows[own_id][0], sequence_number=rows[own_id][1]),) for own_id in ("killer", "innocent")
    )
    world.hub.call(SendHeartbeat(GROUP, world.member_id, killer, 2))
    world.hub.call(question(world, after=(), running=innocent, revision=1))
    world.enter("worker")
    assert (world.look("killer").deaths, world.look("innocent").deaths) == (1, 0)
    world.hub.call(question(world, after=(), running=killer, revision=1))
    world.hub.call(SendHeartbeat(GROUP, world.member_id, innocent, 3))
    world.hub.call(question(world, after=(), running=killer, revision=2))
    world.hub.call(SendHeartbeat(GROUP, world.member_id, killer, 2))
    world.enter("worker")
    assert (world.look("killer").deaths, world.look("innocent").deaths) == (1, 1), "a new member numbers from the start"
    world.hub.call(question(world, after=(), running=innocent, revision=5))
    world.hub.call(SendHeartbeat(GROUP, world.member_id, killer))
    world.enter("worker")
    assert (world.look("killer").deaths, world.look("innocent").deaths) == (2, 1), (
        "what has no number counts as it comes"
    )


def test_what_a_member_said_later_counts_though_its_shard_heard_only_what_was_said_before(tmp_path: Path) -> None:
    """The home of groups answers a heartbeat that a slow shard does not hear of; an older question arrives there later."""
    world = SeveralActionWorld(tmp_path)
    names = [name for name in map(str, range(100)) if partition_of(name, 4) == 3][:2]
    for name in names:
        world.send(id=name, concerns=name)
    (page,) = [page for page in few(world) if page.partition == 3]
    killer, innocent = ((Running(partition=3, sequence_number=row.sequence_number),) for row in page.changes)
    heartbeat(world.core_of(GROUPS_HOME), SendHeartbeat(GROUP, world.member_id, killer, 2), EVERYTHING)
    world.advance(1)
    after = (ReadAfter(partition=3, generation=page.generation, position=page.next),)
    world.hub.call(question(world, after=after, running=innocent, revision=1))
    world.advance(LEASE)
    world.end()
    assert [world.look(name).deaths for name in names] == [1, 0]
    world.hub.close()


def test_what_workers_died_of_is_not_presumed_of_a_member_that_names_it_first(world: ActionWorld) -> None:
    world.send(id="a")
    few(world, running=(), revision=1)
    world.enter("worker")
    assert world.look("a").deaths == 1, "the first death can only be presumed"
    assert few(world, running=(), revision=1)
    world.enter("worker")
    assert world.look("a").deaths == 1
    (page,) = [page for page in few(world, running=(), revision=1) if page.changes]
    running = (Running(partition=page.partition, sequence_number=page.changes[0].sequence_number),)
    world.hub.call(SendHeartbeat(GROUP, world.member_id, running, 2))
    world.enter("worker")
    assert world.look("a").deaths == 2


def _read_on(world: ActionWorld, pages: tuple[FewPage, ...], running: tuple[Running, ...]) -> ReadNext:
    after = tuple(ReadAfter(partition=own.partition, generation=own.generation, position=own.next) for own in pages)
    return ReadNext(GROUP, world.member_id, after, few=True, running=running)


def letter(size: int = 10) -> Letter:
    made = letter_of(Message(recipient="r", kind="action", data=b"x" * size), claim_check_origins=None)
    assert made is not None
    return made


def recent(number: int, size: int = 10) -> RecentAction:
    return RecentAction(number, 7, bytes(16), letter(size), "add", 0)


def numbers(own: RecentActions, after: int, upto: int) -> list[int] | None:
    found = own.between(0, after, upto)
    return None if found is None else [action.number for action in found]


def test_memory_has_all_from_a_number_on_or_says_that_it_has_not() -> None:
    own = RecentActions()
    assert numbers(own, 0, 9) is None
    own.open({0: 3})
    for number in (4, 6, 7):
        own.add(0, recent(number))
    assert numbers(own, 3, 9) == [4, 6, 7]
    assert numbers(own, 4, 6) == [6]
    assert numbers(own, 2, 9) is None
    own.drop(0, (6, 99))
    assert numbers(own, 3, 9) == [4, 7]
    own.forget(0, 4)
    assert numbers(own, 3, 9) is None
    assert numbers(own, 4, 9) == [7]


def test_memory_of_recent_actions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECENT_ACTIONS_MAX", 3)
    own = RecentActions()
    own.open({0: 0})
    for number in range(1, 6):
        own.add(0, recent(number))
    assert numbers(own, 2, 9) == [3, 4, 5]
    assert numbers(own, 1, 9) is None
    monkeypatch.setattr(limits, "RECENT_ACTIONS_BYTES_MAX", 100)
    own.add(0, recent(6, 200))
    assert numbers(own, 5, 9) is None
    assert numbers(own, 6, 9) == []
    own.add(0, recent(7, 50))
    assert numbers(own, 6, 9) == [7]


@inside
def test_the_memory_of_a_hub_forgets_what_has_ended(world: ActionWorld) -> None:
    for number in range(5):
        world.send(id=f"n{number}", concerns=f"t{number}")
    for row in world.handed():
        world.report(row)
    assert world.hub.core.memory(ActionMemory).recent._size == 0
