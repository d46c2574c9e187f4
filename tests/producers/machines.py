"""What the state machines share: one rule whose steps have weights, and short campaigns.

One rule finds far more than a rule each: Hypothesis would switch rules off at random, and an example in which nobody
publishes shows nothing. Beyond its first ten examples it mostly varies what it had; so campaigns are short.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

EXAMPLES = 10
STEP_COUNT = 40
LONG_SECONDS = 120.0 if os.environ.get("RESTANTE_LONG") else 0.0
"""Of processor time: so long a long test begins campaigns. A number of them would take hours on one machine, and minutes on
another."""


class Step(NamedTuple):
    what: str
    how: dict[str, Any]


Weighted = Sequence[tuple[int, str, dict[str, SearchStrategy[Any]]]]
"""Everything that may be done: how often, the name of the method, and its arguments."""


def weighted(steps: Weighted) -> SearchStrategy[Step]:
    some = [(what, how) for weight, what, how in steps for _ in range(weight)]
    return st.sampled_from(some).flatmap(lambda one: st.builds(Step, st.just(one[0]), st.fixed_dictionaries(one[1])))


def drive(machine: type[RuleBasedStateMachine], *, campaigns: int, examples: int = EXAMPLES, **variant: object) -> None:
    """Run a machine, or a variant of it with these attributes."""
    driven = type(f"{machine.__name__}_variant", (machine,), variant)
    for _ in range(campaigns):
        run_state_machine_as_test(
            driven,
            settings=hypothesis_settings(
                max_examples=examples,
                stateful_step_count=STEP_COUNT,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
                phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            ),
        )


def drive_for_long(machine: type[RuleBasedStateMachine], *, examples: int = EXAMPLES, **variant: object) -> None:
    """Campaigns until the time for them is over; at least one."""
    until = time.process_time() + LONG_SECONDS
    while True:
        drive(machine, campaigns=1, examples=examples, **variant)
        if time.process_time() >= until:
            return
