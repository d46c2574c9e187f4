"""`CommitTotals`: how many commits there were, how many failed, and how long the store took."""

from __future__ import annotations


class CommitTotals:
    """What commits came to since the hub was opened; only the committer's thread adds to it."""

    __slots__ = ("commits", "failures", "seconds")

    def __init__(self) -> None:
        self.commits = 0
        self.failures = 0
        """Commits that failed as a whole."""
        self.seconds = 0.0
        """What the store took for them."""

    def add(self, seconds: float | None) -> None:
        """A commit was stored in so many seconds; None: it had nothing to store."""
        if seconds is not None:
            self.commits += 1
            self.seconds += seconds
