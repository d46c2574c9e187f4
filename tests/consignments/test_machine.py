"""Consignments beside all else that happens to mail, held against the plain model."""

from __future__ import annotations

import pytest

from tests.consignments.consigning import Consigned
from tests.producers.machines import drive, drive_for_long
from tests.profiles import by_profile

CAMPAIGNS = {"memory": by_profile(dev=1, ci=2), "sqlite": 1}
EXAMPLES = by_profile(dev=2, ci=6)
SHRINKING_SECONDS = 900


@pytest.mark.timeout(SHRINKING_SECONDS)
@pytest.mark.parametrize("engine", list(CAMPAIGNS))
def test_staged_mail_is_seen_by_nobody_and_committed_mail_by_all_at_once(engine: str) -> None:
    drive(Consigned, campaigns=CAMPAIGNS[engine], examples=EXAMPLES, engine_name=engine)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("engine", list(CAMPAIGNS))
def test_consignments_keep_to_their_rules_for_long(engine: str) -> None:
    drive_for_long(Consigned, examples=EXAMPLES, engine_name=engine)
