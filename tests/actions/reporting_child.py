"""A hub in a process of its own that accepts and reports actions, and says what was answered, until it is killed.

`python -m tests.actions.reporting_child FOLDER START`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from restante.assembly import open_hub
from restante.calls.actions import ReportOutcomes, SendActions
from restante.calls.groups import DefineGroup, JoinGroup, ReadNext
from restante.model.actions.wanted_action import WantedAction
from restante.model.groups.group_answers import ReadAfter
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem
from restante.settings import GroupSettings, Settings

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, groups=GroupSettings(heartbeat_seconds=600))
GROUP = "shop"


def say(what: str, ids: Sequence[str]) -> None:
    print(json.dumps([what, *ids]), flush=True)


def outcome(number: int) -> WorkOutcome:
    """Every fifth is poison."""
    if number % 5 == 0:
        problem = WorkProblem("broken", "It broke.")
        return WorkOutcome(sequence_number=number, state=OutcomeState.POISONED, attempts=1, problem=problem)
    return WorkOutcome(sequence_number=number, state=OutcomeState.DONE, attempts=1)


def main(folder: str, start: str) -> None:
    hub = open_hub(Path(folder), settings=SETTINGS)
    hub.call(DefineGroup(GROUP, actions=("add",)))
    joined = hub.call(JoinGroup(GROUP, "w"))
    after = {
        own.partition: ReadAfter(partition=own.partition, generation=own.generation, position=own.position)
        for own in joined.partitions
    }
    count = int(start)
    while True:
        wanted = [WantedAction(action="add", concerns=f"t{n % 7}", id=f"a{n}") for n in range(count, count + 20)]
        hub.call(SendActions(wanted))
        say("accepted", [own.id or "" for own in wanted])
        count += 20
        for page in hub.call(ReadNext(GROUP, joined.member_id, tuple(after.values()))).pages:
            rows = page.table.to_pylist()
            ids = [row["text_id"] for row in rows]
            say("handed", ids)
            outcomes = [outcome(row["sequence_number"]) for row in rows]
            say("reporting", ids)
            hub.call(ReportOutcomes(GROUP, page.partition, page.generation, outcomes, position=page.next))
            say("reported", ids)
            own = after[page.partition]
            after[page.partition] = ReadAfter(partition=own.partition, generation=own.generation, position=page.next)


if __name__ == "__main__":
    main(*sys.argv[1:])
