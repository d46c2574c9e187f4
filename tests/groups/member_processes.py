"""Members of a group as processes, and what they have handled."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.crash.campaign import Crowd


class MemberProcesses(Crowd):
    """Members of one group; each writes down what it handles."""

    def __init__(self, url: str, folder: Path, *how: str) -> None:
        super().__init__()
        self._url, self._folder, self._how, self._count = url, folder, how, 0
        folder.mkdir()

    def join(self) -> None:
        self._count += 1
        place = self._folder / f"m{self._count}"
        self.begin("-m", "tests.groups.member_child", self._url, "work", place.name, str(place), *self._how)

    def handled(self) -> dict[tuple[int, int], list[int]]:
        """By partition and generation, in the order in which they were handled."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for path in sorted(self._folder.iterdir()):
            for line in path.read_text().splitlines():
                partition, generation, number = map(int, line.split())
                found[partition, generation].append(number)
        return found
