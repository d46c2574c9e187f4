"""The subjects of the hub, in one list, and what is made of it: the calls, the row spaces, the background.

A new subject adds its `SUBJECT` to `SUBJECTS`, and nothing else here. `docs/internals/architecture.md` has the few other
lists to which a subject may add a line.
"""

from __future__ import annotations

from restante.hub.action_rows import subject as action_rows
from restante.hub.actions import subject as actions
from restante.hub.backplane import subject as backplane
from restante.hub.batches import subject as batches
from restante.hub.consignments import subject as consignments
from restante.hub.door import delayed_calls, node_calls, upkeep_calls
from restante.hub.engine import filing
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.engine.subject import Opening
from restante.hub.engine.tasks import Tasks, housekeeping
from restante.hub.feed import subject as feed
from restante.hub.groups import subject as groups
from restante.hub.health import subject as health
from restante.hub.jobs import subject as jobs
from restante.hub.mailboxes import subject as mailboxes
from restante.hub.publishing import subject as publishing
from restante.hub.removal import subject as removal
from restante.hub.upkeep import subject as upkeep
from restante.model.health.hub_metric import HubMetric

SUBJECTS = (
    filing.SUBJECT,
    mailboxes.SUBJECT,
    publishing.SUBJECT,
    removal.SUBJECT,
    action_rows.SUBJECT,
    batches.SUBJECT,
    consignments.SUBJECT,
    feed.SUBJECT,
    jobs.SUBJECT,
    health.SUBJECT,
    upkeep.SUBJECT,
    groups.SUBJECT,
    actions.SUBJECT,
    backplane.SUBJECT,
    upkeep_calls.SUBJECT,
    delayed_calls.SUBJECT,
    node_calls.SUBJECT,
)
"""A subject stands after those whose memory it adds to, or whose calls it takes over."""

FUNCTIONS: Functions = {kind: answer for subject in SUBJECTS for kind, answer in subject.functions.items()}
"""Which function carries out which call."""
READING = frozenset(kind for subject in SUBJECTS for kind in subject.reading)
"""Calls that are answered without a commit, or, as `Peek`, may be repeated after one."""
SPACES = tuple(space for subject in SUBJECTS for space in subject.spaces)
"""The spaces of which the subjects read all rows when a hub is opened."""
TASKS = (
    *(task for subject in SUBJECTS for task in subject.tasks),
    housekeeping([chore for subject in SUBJECTS for chore in subject.chores]),
)


def open_all(core: Core, opening: Opening) -> None:
    for subject in SUBJECTS:
        subject.open(core, opening)


def begin_all(core: Core, opening: Opening) -> None:
    for subject in SUBJECTS:
        subject.begin(core, opening)


def start_tasks(core: Core) -> Tasks:
    """The threads of a hub that was just opened."""
    tasks = Tasks(core, TASKS)
    tasks.begin()
    return tasks


def metrics_of(core: Core) -> list[HubMetric]:
    """The metrics of all subjects."""
    return [metric for subject in SUBJECTS for metric in subject.metrics(core)]


def do_last_chores(core: Core) -> None:
    for subject in SUBJECTS:
        for chore in subject.last_chores:
            chore(core)


def close_all(core: Core) -> None:
    for subject in reversed(SUBJECTS):
        subject.close(core)
