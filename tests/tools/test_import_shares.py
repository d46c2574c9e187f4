"""Which test files a worker imports before it collects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.import_shares import share_of

FILES = [Path(f"tests/hub/test_{number:02}.py") for number in range(10)]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 12])
def test_each_file_is_in_one_share_and_shares_are_alike_in_length(workers: int) -> None:
    shares = [share_of(reversed(FILES), worker, workers) for worker in range(workers)]
    assert Counter(file for share in shares for file in share) == Counter(FILES)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_worker_that_replaces_another_has_a_share_too() -> None:
    assert share_of(FILES, 5, 4) == share_of(FILES, 1, 4)
