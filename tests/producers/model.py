"""The rules of numbered publishing, as plainly as they can be written: what a hub must answer, and what it then holds.

Everything is a dict or a list; nothing here is taken from the hub. A letter is told apart by what it says; its id may be
missing, and then the hub makes one that nobody sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

NUMBERS = 2**31


class Letter(NamedTuple):
    recipient: str
    text: str
    id: str | None = None


class Numbers(NamedTuple):
    group: int
    level: int
    first: int


class Refusal(NamedTuple):
    code: str
    details: tuple[tuple[str, int | None], ...] = ()


class Answer(NamedTuple):
    accepted: int
    duplicates: int
    extent: tuple[int, int] | None
    """The first and the last sequence number, if anything was new."""
    replayed: bool = False


class LastRange(NamedTuple):
    first: int
    letters: tuple[Letter, ...]
    answer: Answer


@dataclass
class Group:
    level: int
    last: int | None = None
    range: LastRange | None = None
    replays: int = 0
    fenced: int = 0
    used_at: int = 0


@dataclass
class Model:
    """What is stored in each partition, and what is known of each group in it."""

    groups: dict[tuple[int, int], Group] = field(default_factory=dict)
    stored: dict[int, list[Letter]] = field(default_factory=dict)
    now: int = 0

    def group(self, partition: int, group: int) -> Group | None:
        return self.groups.get((partition, group))

    def texts(self, partition: int, recipient: str) -> list[str]:
        return [letter.text for letter in self.stored.get(partition, []) if letter.recipient == recipient]

    def expected(self, partition: int, numbers: Numbers) -> int:
        """The number that is next, of a level that is not fenced off."""
        known = self.group(partition, numbers.group)
        if known is None or known.level < numbers.level or known.last is None:
            return 0
        return (known.last + 1) % NUMBERS

    def is_replay(self, partition: int, letters: tuple[Letter, ...], numbers: Numbers) -> bool:
        known = self.group(partition, numbers.group)
        return (
            known is not None
            and known.range is not None
            and known.level == numbers.level
            and known.range[:2] == (numbers.first, letters)
        )

    def objections(self, partition: int, letters: tuple[Letter, ...], numbers: Numbers | None) -> list[Refusal]:
        """Every reason to refuse a parcel; which of several is told is left open."""
        found = []
        if numbers is not None:
            if self.is_replay(partition, letters, numbers):
                return []
            found += self._objections_to_numbers(partition, numbers)
        return [*found, *self._conflicts(partition, letters)]

    def _objections_to_numbers(self, partition: int, numbers: Numbers) -> list[Refusal]:
        known = self.group(partition, numbers.group)
        if known is not None and numbers.level < known.level:
            return [Refusal("producer_disconnected", (("current", known.level), ("received", numbers.level)))]
        expected = self.expected(partition, numbers)
        return [] if numbers.first == expected else [Refusal("invalid_client_state", (("expected", expected),))]

    def _conflicts(self, partition: int, letters: tuple[Letter, ...]) -> list[Refusal]:
        texts = {(known.recipient, known.id): known.text for known in self.stored.get(partition, []) if known.id}
        for letter in letters:
            if letter.id is not None and texts.setdefault((letter.recipient, letter.id), letter.text) != letter.text:
                return [Refusal("message_conflict")]
        return []

    def publish(self, partition: int, letters: tuple[Letter, ...], numbers: Numbers | None) -> Answer:
        """Carry out a parcel to which there is no objection."""
        if numbers is not None and self.is_replay(partition, letters, numbers):
            known = self.groups[partition, numbers.group]
            known.replays += 1
            known.used_at = self.now
            assert known.range is not None
            return known.range.answer._replace(replayed=True)
        answer = self._store(partition, letters)
        if numbers is not None:
            known = self.groups.setdefault((partition, numbers.group), Group(numbers.level))
            known.level, known.used_at = numbers.level, self.now
            known.last = (numbers.first + len(letters) - 1) % NUMBERS
            known.range = LastRange(numbers.first, letters, answer)
        return answer

    def _store(self, partition: int, letters: tuple[Letter, ...]) -> Answer:
        stored = self.stored.setdefault(partition, [])
        identities = {(letter.recipient, letter.id) for letter in stored}
        first = len(stored) + 1
        for letter in letters:
            if letter.id is None or (letter.recipient, letter.id) not in identities:
                stored.append(letter)
                identities.add((letter.recipient, letter.id))
        accepted = len(stored) - first + 1
        extent = (first, len(stored)) if accepted else None
        return Answer(accepted, len(letters) - accepted, extent)

    def refuse(self, partition: int, group: int, refusal: Refusal) -> None:
        """Nothing is stored; an attempt of somebody fenced off is counted."""
        if refusal.code == "producer_disconnected":
            self.groups[partition, group].fenced += 1

    def link(self, partition: int, group: int, level: int | None, last: int | None) -> Refusal | None:
        """Open a link; gives why not."""
        known = self.group(partition, group)
        if known is None:
            if last is not None:
                return Refusal("link_refused", (("expected", None),))
            self.groups[partition, group] = Group(level or 0, used_at=self.now)
            return None
        wanted = known.level if level is None else level
        if wanted < known.level:
            return Refusal("producer_disconnected", (("current", known.level), ("received", wanted)))
        if wanted > known.level:
            known.level, known.last, known.range = wanted, last, None
        elif last is not None and last != known.last:
            return Refusal("link_refused", (("expected", known.last),))
        known.used_at = self.now
        return None

    def forget(self, kept: int) -> None:
        """What nobody has used for so long goes."""
        self.groups = {key: group for key, group in self.groups.items() if self.now - group.used_at < kept}
