"""Whatever happens to actions, in any order: the hub says of each what a plain model says, and hands out what waits."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from restante.calls.actions import GiveUpPoison, RepeatPoison
from restante.calls.mailboxes import FindMessage, ListPartitions
from restante.calls.removal import Erase, ExpireNow, FileNow, Release, SetAside, Withdraw
from restante.hub.doctor.doctor import examine
from restante.model.publishing.message import State
from restante.model.work.results import OutcomeState
from tests.actions.action_world import GROUP, ActionWorld
from tests.profiles import by_profile

THINGS = ("one", "two", "three")
NAMES = ("add", "count")
"""The second is another group's, so things of both end out of turn."""
STATES = (OutcomeState.DONE, OutcomeState.FAILED, OutcomeState.EXPIRED, OutcomeState.POISONED)
MESSAGE_STATES = {
    "accepted": State.WAITING,
    "done": State.COLLECTED,
    "expired": State.EXPIRED,
    "poisoned": State.SET_ASIDE,
    "failed": State.COLLECTED,
    "withdrawn": State.WITHDRAWN,
    "aside": State.SET_ASIDE,
}


@dataclass
class Modelled:
    """An action as the model knows it."""

    thing: str
    name: str
    state: str = "accepted"
    code: str | None = None
    order: int = 0

    @property
    def shown(self) -> str:
        return {"withdrawn": "failed", "aside": "accepted"}.get(self.state, self.state)


class ActionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ActionWorld()
        self.world.define("counting", actions=("count",))
        self.counting = self.world.join("c", "counting")
        self.actions: dict[str, Modelled] = {}
        self.count = 0

    def teardown(self) -> None:
        assert examine(self.world.hub.core.store).sound
        self.world.hub.close()

    def pick(self, choice: int, *states: str) -> str | None:
        found = sorted(name for name, own in self.actions.items() if own.state in states)
        return found[choice % len(found)] if found else None

    @rule(thing=strategies.sampled_from(THINGS), name=strategies.sampled_from(NAMES))
    def send(self, thing: str, name: str) -> None:
        self.count += 1
        own = f"a{self.count}"
        self.world.send(name, thing, id=own, expires_in=1_000)
        self.actions[own] = Modelled(thing, name, order=self.count)

    @rule(choice=strategies.integers(0, 50), state=strategies.sampled_from(STATES))
    def report(self, choice: int, state: OutcomeState) -> None:
        own = self.pick(choice, "accepted")
        if own is None:
            return
        group = GROUP if self.actions[own].name == "add" else "counting"
        row = next(row for row in self.rows(group) if row["text_id"] == own)
        held = self.world.owned if group == GROUP else {own.partition: own for own in self.counting.partitions}
        before, self.world.owned = self.world.owned, held
        try:
            assert self.world.report(row, state, group=group).taken == 1
            assert self.world.report(row, OutcomeState.FAILED, group=group).taken == 0
        finally:
            self.world.owned = before
        self.actions[own].state = state.value
        self.actions[own].code = "broken" if state in (OutcomeState.FAILED, OutcomeState.POISONED) else None

    def rows(self, group: str) -> list[dict[str, object]]:
        if group == GROUP:
            return self.world.handed()
        pages = self.world.next(self.counting.member_id, self.counting.partitions, group)
        return [{**row, "partition": page.partition} for page in pages for row in page.table.to_pylist()]

    @rule(choice=strategies.integers(0, 50))
    def withdraw(self, choice: int) -> None:
        own = self.pick(choice, "accepted", "aside", "poisoned")
        if own is not None:
            action = self.actions[own]
            self.world.hub.call(Withdraw(action.thing, own))
            action.code = "given_up" if action.state == "poisoned" else "action_withdrawn"
            action.state = "withdrawn"

    @rule(choice=strategies.integers(0, 50))
    def set_aside(self, choice: int) -> None:
        own = self.pick(choice, "accepted")
        if own is not None:
            self.world.hub.call(SetAside(self.actions[own].thing, own))
            self.actions[own].state = "aside"

    @rule(choice=strategies.integers(0, 50))
    def release(self, choice: int) -> None:
        own = self.pick(choice, "aside")
        if own is not None:
            self.world.hub.call(Release(self.actions[own].thing, own))
            self.back(own)

    @rule(choice=strategies.integers(0, 50), again=strategies.booleans())
    def decide(self, choice: int, again: bool) -> None:
        own = self.pick(choice, "poisoned")
        if own is None:
            return
        group = GROUP if self.actions[own].name == "add" else "counting"
        if again:
            self.world.hub.call(RepeatPoison(group, own))
            self.back(own)
        else:
            self.world.hub.call(GiveUpPoison(group, own))
            self.actions[own].state, self.actions[own].code = "withdrawn", "given_up"

    def back(self, own: str) -> None:
        self.count += 1
        self.actions[own].state, self.actions[own].code, self.actions[own].order = "accepted", None, self.count

    @rule()
    def file(self) -> None:
        self.world.hub.call(FileNow())

    @precondition(lambda self: self.count > 3)
    @rule(thing=strategies.sampled_from(THINGS))
    def erase(self, thing: str) -> None:
        self.world.hub.call(Erase(thing))
        self.actions = {name: own for name, own in self.actions.items() if own.thing != thing}

    @precondition(lambda self: self.count > 5)
    @rule()
    def expire(self) -> None:
        """All that waits has expired; what was sent before is over."""
        self.world.clock.advance(1_001)
        self.world.hub.call(ExpireNow())
        for own in self.actions.values():
            if own.state == "accepted":
                own.state = "expired"

    @rule()
    def open_again(self) -> None:
        self.world.open_again()

    @invariant()
    def states_are_those_of_the_model(self) -> None:
        for name, own in self.actions.items():
            found = self.world.look(name)
            assert (found.state.value, found.problem.code if found.problem else None) == (own.shown, own.code)
            assert self.world.hub.call(FindMessage(own.thing, name)).state is MESSAGE_STATES[own.state]

    @invariant()
    def what_waits_is_handed_out_in_order(self) -> None:
        for group, name in ((GROUP, "add"), ("counting", "count")):
            handed = [(row["recipient"], row["text_id"]) for row in self.rows(group)]
            for thing in THINGS:
                waiting = [(own.order, own_id) for own_id, own in self.actions.items() if own.state == "accepted"]
                expected = [
                    own_id
                    for _, own_id in sorted(waiting)
                    if self.actions[own_id].thing == thing and self.actions[own_id].name == name
                ]
                assert [own_id for concerns, own_id in handed if concerns == thing] == expected

    @invariant()
    def poison_is_listed_and_nothing_waits_as_mail(self) -> None:
        listed = {own.id for group in (GROUP, "counting") for own in self.world.poison(group)}
        assert listed == {name for name, own in self.actions.items() if own.state == "poisoned"}
        assert sum(own.waiting for own in self.world.hub.call(ListPartitions())) == 0


TestActionMachine = ActionMachine.TestCase
TestActionMachine.settings = settings(max_examples=by_profile(dev=5, ci=50), stateful_step_count=25, deadline=None)
