"""Tables are cleaned about once a day."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from restante.spark.tables.cleanup import COMMITS_LOOKED_AT, CommitHistory

NOW = 1_790_000_000.0
HOUR = 3_600


@pytest.mark.parametrize(
    ("commits", "is_due"),
    [
        ([("WRITE", 1)], False),
        ([("WRITE", 1), ("WRITE", 25)], True),
        ([("WRITE", 1), ("VACUUM END", 2), ("VACUUM START", 2), ("WRITE", 25)], False),
        ([("WRITE", 1), ("VACUUM END", 25), ("WRITE", 26)], True),
        ([("WRITE", 1)] * COMMITS_LOOKED_AT, True),
        ([("WRITE", 1)] * (COMMITS_LOOKED_AT - 1), False),
        ([], False),
    ],
    ids=["young", "a day old", "cleaned lately", "cleaned a day ago", "many commits", "fewer", "no table"],
)
def test_a_table_is_cleaned_about_once_a_day(commits: list[tuple[str, int]], is_due: bool) -> None:
    history = _history(commits)
    assert history.is_cleaning_due(versions_hours=168, now=NOW) is is_due


def test_where_no_older_versions_are_kept_it_is_cleaned_each_time() -> None:
    assert _history([("WRITE", 0)]).is_cleaning_due(versions_hours=0, now=NOW)


def _history(commits: list[tuple[str, int]]) -> CommitHistory:
    return CommitHistory([Row(operation=operation, seconds=NOW - hours * HOUR) for operation, hours in commits])
