"""What `make drive-catalog` says of a drive. That a drive is right is tried in `test_kills.py`."""

from __future__ import annotations

from array import array

import pytest

from examples.catalog.drive import Driven, shown
from examples.catalog.load import Answers
from examples.catalog.reckoning import Reckoning


def driven(total: Reckoning, *, errors: int = 0) -> Driven:
    answers = Answers(seconds=array("d", [0.010] * 98 + [0.020, 0.500]), errors=errors)
    return Driven(users=200, seconds=0.05, answers=answers, settled_seconds=1.5, sum=total)


def test_figures_stand_beside_the_gate() -> None:
    text = shown(driven(Reckoning(accepted=9, done=8, poisoned=1, wrong=[]), errors=25))
    rows = {line.rsplit(",")[0].split("  ")[0]: line.split() for line in text.splitlines() if line}
    assert rows["requests a second"][-3:] == ["2,000.0", ">=", "1,200"]
    assert rows["mean"][-3:] == ["15.0", "<=", "100"]
    assert rows["p50"][-1] == "10.0"
    assert rows["errors"][-3:] == ["20.0", "<=", "1"]
    assert "accepted 9 = done 8 + poisoned 1" in text
    assert "none lost" in text


@pytest.mark.parametrize(
    ("total", "right"),
    [
        (Reckoning(accepted=9, done=8, poisoned=1, wrong=[]), True),
        (Reckoning(accepted=9, done=9, poisoned=0, wrong=["1 wait, such as 7"]), False),
    ],
)
def test_a_drive_is_right_if_the_sum_is_and_nothing_is_wrong(total: Reckoning, right: bool) -> None:
    assert driven(total).is_right is right
    assert all(line in shown(driven(total)) for line in total.wrong)
    assert ("none lost" in shown(driven(total))) is (total.wrong == [])
