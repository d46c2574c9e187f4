"""How a partitioned store lies on disk: in slices, each of them sorted by the key over all its files.

The new rows of a run become a slice of their own, so the cost of writing grows with the new rows and not with the store.
Within a slice the files have ranges of keys that do not overlap, so a query for one key reads one file of each slice, and of
that one row group or two. Queries on many slices would be slow again. So small slices are merged, and a large one takes part
only if those that are merged have grown to half its size: then each row is rewritten a number of times that grows with the
logarithm of the rows, and never more than `STORE_SLICES_MAX` slices stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from restante.limits import STORE_SLICES_MAX


def to_merge(rows_of: Mapping[int, int], *, arriving_rows: int) -> list[int]:
    """The slices that the arriving rows are to be merged with; none, as long as there are few."""
    if len(rows_of) < STORE_SLICES_MAX:
        return []
    chosen: list[int] = []
    gathered = arriving_rows
    for number, rows in sorted(rows_of.items(), key=lambda slice_and_rows: slice_and_rows[::-1]):
        if len(rows_of) - len(chosen) < STORE_SLICES_MAX and rows > 2 * gathered:
            break
        chosen.append(number)
        gathered += rows
    return sorted(chosen)


def files_for(rows: int, *, records_per_file: int) -> int:
    """How many files they fill, none of them more than by half over or under the target if there is a choice."""
    return max(1, round(rows / records_per_file))
