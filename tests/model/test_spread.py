"""How evenly names fall into partitions, against figures that were computed otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from restante import errors, limits
from restante.model.storage.partition import check_new_count, spread_of


def test_the_figures_of_a_spread_that_is_counted_by_hand() -> None:
    """Expected 10 each; off by 2, 2, 4 and 4."""
    found = spread_of(np.array([8, 12, 6, 14]))
    assert (found.names, found.partition_count, found.expected) == (40, 4, 10.0)
    assert (found.least, found.most, found.worst_partition) == (6, 14, 2)
    assert found.mean_deviation_percent == pytest.approx(30.0)
    assert found.worst_deviation_percent == pytest.approx(40.0)
    assert found.chi_squared == pytest.approx(4.0)
    assert found.z == pytest.approx((4 - 3) / 6**0.5)


def test_one_partition_is_even() -> None:
    found = spread_of(np.array([7]))
    assert (found.mean_deviation_percent, found.worst_deviation_percent, found.z) == (0.0, 0.0, 0.0)


def test_names_thrown_at_random_deviate_as_chance_is_said_to() -> None:
    counts = np.bincount(np.random.default_rng(18).integers(0, 256, 100_000), minlength=256)
    found = spread_of(counts)
    assert found.mean_deviation_percent == pytest.approx(found.chance_mean_deviation_percent, rel=0.2)
    assert abs(found.z) < 4


@pytest.mark.parametrize("count", [2**power for power in range(14)])
def test_a_new_folder_takes_powers_of_two(count: int) -> None:
    check_new_count(count)


@pytest.mark.parametrize(
    ("count", "use"),
    [(3, "Use 2 or 4."), (10, "Use 8 or 16."), (250, "Use 128 or 256."), (8_193, "Use 8,192."), (10_000, "Use 8,192.")],
)
def test_a_new_folder_takes_no_other_and_the_refusal_says_why_and_what_to_use(count: int, use: str) -> None:
    with pytest.raises(errors.InvalidSettings, match="a power of two from 1 to 8,192") as caught:
        check_new_count(count)
    assert "unevenly" in caught.value.message
    assert caught.value.message.endswith(use)
    assert limits.NEW_PARTITIONS_MAX == 8_192
