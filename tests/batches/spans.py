"""Sets of whole numbers that may be huge, as plain lists of spans: from the first to before the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in spans that ascend and do not touch."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def size(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)


def gaps(spans: Iterable[Span], upto: int) -> Iterator[Span]:
    """What is missing of the numbers below `upto`; the spans are merged, and below it too."""
    at = 0
    for start, end in spans:
        if at < start:
            yield at, start
        at = end
    if at < upto:
        yield at, upto


def minus(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Those numbers that are not among the others."""
    taken, found = merged(others), list[Span]()
    for start, end in merged(spans):
        for low, high in taken:
            if high <= start or end <= low:
                continue
            if start < low:
                found.append((start, low))
            start = max(start, high)  # noqa: PLW2901  # what is left of this span
        if start < end:
            found.append((start, end))
    return found
