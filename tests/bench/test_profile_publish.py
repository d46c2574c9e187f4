"""The profile of a publish puts its clocks around functions that are there."""

from __future__ import annotations

import pytest

from bench.profile_publish import PHASES, _exists


@pytest.mark.parametrize("name", PHASES)
def test_a_phase_names_a_function_of_the_hub(name: str) -> None:
    assert _exists(name)
