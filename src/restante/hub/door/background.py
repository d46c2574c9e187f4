"""The background of a hub: the tasks and chores that its subjects state, in one list."""

from __future__ import annotations

from restante.hub.actions.outcomes import forget_texts
from restante.hub.backplane import tasks as backplane
from restante.hub.backplane.status import forget_poison
from restante.hub.batches import batch_upkeep, part_calls
from restante.hub.consignments import consignments, rounds
from restante.hub.engine import filing
from restante.hub.engine.core import Core
from restante.hub.engine.tasks import Tasks, housekeeping
from restante.hub.groups import members
from restante.hub.health.deep_check import forget_checks
from restante.hub.mailboxes import outbox
from restante.hub.publishing import delayed, notice_delivery
from restante.hub.removal import expiry, retention, scrub

CHORES = (
    expiry.expire,
    forget_checks,
    forget_texts,
    forget_poison,
    retention.retain,
    batch_upkeep.reap_due,
    consignments.keep,
    scrub.scrub,
)
TASKS = (
    filing.TASK,
    housekeeping(CHORES),
    outbox.TASK,
    batch_upkeep.TASK,
    part_calls.TASK,
    rounds.TASK,
    rounds.PARKED_TASK,
    notice_delivery.TASK,
    members.TASK,
    delayed.TASK,
    backplane.READER,
    backplane.WAITS,
)


def start(core: Core) -> Tasks:
    """The threads of a hub that was just opened."""
    tasks = Tasks(core, TASKS)
    notice_delivery.start_on_demand(core, tasks)
    tasks.begin()
    return tasks
