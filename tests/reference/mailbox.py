"""One recipient's mailbox: a list of letters, the bundles made of them, and the rules as written.

Nothing here is quick. Every question is answered by walking over all letters, so that each rule is one expression
that can be held against `originals.md` §1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from restante import limits
from restante.model.publishing.message import Message, State
from restante.ports.content import Content
from restante.settings import Settings

from .intake import stored_bytes

Cabinet = tuple[str, str]


@dataclass(eq=False)
class Letter:
    """A stored message. `state` is what was settled; a letter past its expiry may still say `WAITING`."""

    message: Message
    number: int
    published_at: int
    expires_at: int | None
    state: State = State.WAITING
    settled_at: int = 0

    @property
    def cabinet(self) -> Cabinet:
        return (self.message.origin, self.message.kind)

    @property
    def weight(self) -> int:
        assert self.message.weight is not None
        return self.message.weight

    @property
    def inline(self) -> bool:
        return stored_bytes(self.message) is not None

    def settle(self, state: State, now: int) -> None:
        self.state, self.settled_at = state, now


@dataclass(eq=False)
class BundleRecord:
    bundle_id: str
    request_id: str
    letters: list[Letter]
    opened_at: int
    format: str | None = None
    content: Content | None = None
    delivery_failed: bool = False
    dequeued_at: int | None = None

    @property
    def open(self) -> bool:
        return self.dequeued_at is None

    @property
    def cabinet(self) -> Cabinet:
        return self.letters[0].cabinet

    @property
    def origin(self) -> str:
        return self.cabinet[0]

    @property
    def first(self) -> int:
        return self.letters[0].number

    @property
    def last(self) -> int:
        return self.letters[-1].number


@dataclass(frozen=True)
class Limits:
    """What shapes a new bundle."""

    max_messages: int | None
    max_weight: int


@dataclass
class Mailbox:
    letters: list[Letter] = field(default_factory=list)
    """By ascending number."""
    bundles: dict[str, BundleRecord] = field(default_factory=dict)
    """Open and dequeued ones, within retention."""
    heads: dict[Cabinet, int] = field(default_factory=dict)
    """The highest number that a dequeue has settled."""
    erased: dict[str, int] = field(default_factory=dict)
    """Ids erased for good, with the time."""

    # What there is.

    def letter(self, message_id: str) -> Letter | None:
        return next((letter for letter in self.letters if letter.message.id == message_id), None)

    def open_bundles(self) -> list[BundleRecord]:
        return sorted((bundle for bundle in self.bundles.values() if bundle.open), key=lambda bundle: bundle.first)

    def in_open_bundle(self, letter: Letter) -> bool:
        return self.bundle_holding(letter) is not None

    def bundle_holding(self, letter: Letter) -> BundleRecord | None:
        return next((bundle for bundle in self.open_bundles() if letter in bundle.letters), None)

    def state_of(self, letter: Letter, now: int) -> State:
        return State.EXPIRED if self.unsettled_expired(letter, now) else letter.state

    def unsettled_expired(self, letter: Letter, now: int) -> bool:
        past = letter.expires_at is not None and letter.expires_at <= now
        return past and letter.state is State.WAITING and not self.in_open_bundle(letter)

    def waiting(self, now: int) -> list[Letter]:
        return [letter for letter in self.letters if self.state_of(letter, now) is State.WAITING]

    def available(self, now: int) -> list[Letter]:
        """What waits and is in no open bundle."""
        return [letter for letter in self.waiting(now) if not self.in_open_bundle(letter)]

    # Choosing and bundling.

    def open_bundle_among(self, origins: Collection[str] | None) -> BundleRecord | None:
        among = (bundle for bundle in self.open_bundles() if origins is None or bundle.origin in origins)
        return next(among, None)

    def first_deliverable(self, origins: Collection[str] | None, settings: Settings, now: int) -> Letter | None:
        """The smallest waiting number of the requested origins whose group has no open bundle."""
        blocked = {settings.group_of(bundle.origin) for bundle in self.open_bundles()}
        for letter in self.available(now):
            origin = letter.message.origin
            if (origins is None or origin in origins) and settings.group_of(origin) not in blocked:
                return letter
        return None

    def bundled_with(self, first: Letter, shape: Limits, settings: Settings, now: int) -> list[Letter]:
        taken = [first]
        for letter in self._candidates(first, settings, now):
            fits = sum(each.weight for each in taken) + letter.weight <= shape.max_weight
            full = shape.max_messages is not None and len(taken) >= shape.max_messages
            if full or not fits or not letter.message.bundleable or letter.inline != first.inline:
                break
            taken.append(letter)
        return taken

    def _candidates(self, first: Letter, settings: Settings, now: int) -> list[Letter]:
        """What may follow the first letter: its cabinet's letters after it, up to where strict order ends them."""
        if not first.message.bundleable:
            return []
        group = settings.group_of(first.message.origin)
        after = [letter for letter in self.available(now) if letter.number > first.number]
        others = [
            letter.number
            for letter in after
            if letter.cabinet != first.cabinet and settings.group_of(letter.message.origin) == group
        ]
        end = min(others) if others and settings.strict_order(group) else None
        return [letter for letter in after if letter.cabinet == first.cabinet and (end is None or letter.number < end)]

    # Settling.

    def settle_passed(self, bundle: BundleRecord, now: int) -> None:
        """A peek settles the expired letters that lie before the end of its bundle."""
        for letter in self.letters:
            passed = letter.cabinet == bundle.cabinet and letter.number < bundle.last
            if passed and self.unsettled_expired(letter, now):
                letter.settle(State.EXPIRED, now)

    def expire(self, now: int) -> int:
        expired = [letter for letter in self.letters if self.unsettled_expired(letter, now)]
        for letter in expired:
            letter.settle(State.EXPIRED, now)
        return len(expired)

    def collect(self, bundle: BundleRecord, now: int) -> None:
        bundle.dequeued_at = now
        for letter in bundle.letters:
            letter.settle(State.COLLECTED, now)
        self.heads[bundle.cabinet] = max(self.heads.get(bundle.cabinet, 0), bundle.last)

    def keeps_its_place(self, letter: Letter) -> bool:
        """Whether a released letter lies beyond its cabinet's head and open bundle."""
        open_here = [bundle.last for bundle in self.open_bundles() if bundle.cabinet == letter.cabinet]
        return letter.number > max([self.heads.get(letter.cabinet, 0), *open_here])

    def purgeable(self, matches: Callable[[Letter], bool], now: int) -> list[Letter]:
        undelivered = (State.WAITING, State.SET_ASIDE)
        return [
            letter
            for letter in self.letters
            if self.state_of(letter, now) in undelivered and not self.in_open_bundle(letter) and matches(letter)
        ]

    # Going.

    def retain(self, oldest: int) -> int:
        """Let go of what was settled before `oldest`; gives the number of letters."""
        kept = [letter for letter in self.letters if not _past(letter, oldest)]
        gone = len(self.letters) - len(kept)
        self.letters = kept
        self.bundles = {
            bundle_id: bundle
            for bundle_id, bundle in self.bundles.items()
            if bundle.dequeued_at is None or bundle.dequeued_at >= oldest
        }
        self.erased = {message_id: at for message_id, at in self.erased.items() if at >= oldest}
        return gone

    def erase(self, now: int) -> None:
        for letter in self.letters:
            assert letter.message.id is not None
            self.erased[letter.message.id] = now
        self.letters, self.bundles, self.heads = [], {}, {}


def _past(letter: Letter, oldest: int) -> bool:
    settled_for_good = letter.state not in (State.WAITING, State.SET_ASIDE)
    return settled_for_good and letter.settled_at < oldest


def weight_limit(max_weight: int | None) -> int:
    return limits.BUNDLE_WEIGHT_KIB_MAX if max_weight is None else min(max_weight, limits.BUNDLE_WEIGHT_KIB_MAX)
