"""The feed from the start, or a snapshot and the feed from its position, rebuilds what history and explain say."""

from __future__ import annotations

import pytest

from tests.feed.following import Followed
from tests.producers.machines import drive, drive_for_long
from tests.profiles import by_profile

CAMPAIGNS = {"memory": by_profile(dev=1, ci=2), "sqlite": 1}
EXAMPLES = by_profile(dev=2, ci=6)
SHRINKING_SECONDS = 900


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("engine", list(CAMPAIGNS))
def test_who_reads_along_knows_what_history_and_explain_say(engine: str) -> None:
    drive(Followed, campaigns=CAMPAIGNS[engine], examples=EXAMPLES, engine_name=engine)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("engine", list(CAMPAIGNS))
def test_who_reads_along_for_long_knows_what_history_and_explain_say(engine: str) -> None:
    drive_for_long(Followed, examples=EXAMPLES, engine_name=engine)
