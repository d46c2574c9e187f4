"""The hub killed while it accepts and takes reports: what was answered stays, and nothing is half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from restante.assembly import open_hub
from restante.calls.actions import ListPoison, ReadAction
from restante.calls.mailboxes import FindMessage
from restante.errors import ActionUnknown
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.model.actions.action_row import ActionState
from restante.model.publishing.message import State
from tests.actions.reporting_child import GROUP, SETTINGS
from tests.crash.campaign import LONG, kill_often

pytestmark = [pytest.mark.kills, pytest.mark.timeout(3_600 if LONG else 300)]
KILLS = 20 if LONG else 4
SETTLED = {
    ActionState.DONE: State.COLLECTED,
    ActionState.POISONED: State.SET_ASIDE,
    ActionState.ACCEPTED: State.WAITING,
}


class Told:
    """What the hub said before it was killed."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.reported: set[str] = set()
        self.reporting: set[str] = set()
        self.handed: list[str] = []

    def read(self, words: list[str]) -> None:
        what, *ids = words
        if what == "handed":
            again = self.reported & set(ids)
            assert not again, f"handed out again though its outcome was answered: {sorted(again)}"
        else:
            getattr(self, what).update(ids)


def test_what_was_answered_stays_and_nothing_is_half_done(tmp_path: Path) -> None:
    folder, told = tmp_path / "data", Told()

    def check(_: object) -> None:
        hub = open_hub(folder, settings=SETTINGS)
        try:
            _check(hub, told)
        finally:
            hub.close()

    child = "tests.actions.reporting_child"
    kill_often(
        child,
        told,
        lambda life: [str(folder), str(life * 100_000)],
        check,
        kills=KILLS,
        seed=8,
        lines_max=60,
        lines_first=5,
    )


def _check(hub: OpenHub, told: Told) -> None:
    assert examine(hub.core.store).sound
    poison = {own.id for own in hub.call(ListPoison(GROUP, limit=1_000)).poison}
    for action_id in sorted(told.accepted | told.reporting):
        status = hub.call(ReadAction(action_id))
        message = hub.call(FindMessage(status.concerns, action_id))
        assert message.state is SETTLED[status.state], (action_id, status.state)
        assert (status.state is ActionState.POISONED) == (action_id in poison)
        if action_id in told.reported:
            assert status.is_final, action_id
        if action_id not in told.reporting:
            assert not status.is_final, action_id
    with pytest.raises(ActionUnknown):
        hub.call(ReadAction("never sent"))
