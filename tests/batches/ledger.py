"""What the parent of the crash tests knows of batches: what was sent, what was answered, and what must hold then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from restante.calls.batches import ListPendingItems, ReadBatch
from restante.errors import BatchUnknown
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import BatchState
from tests.batches.spans import Span, gaps, merged, minus, size

PAGE = 1_000

Group = tuple[str, str]
"""A batch, and a group of it."""


@dataclass
class Sent:
    """An acknowledgement whose answer has not come."""

    group: Group
    spans: list[Span]


@dataclass
class Ledger:
    batches: set[str] = field(default_factory=set)
    sizes: dict[Group, int] = field(default_factory=dict)
    done: dict[Group, list[Span]] = field(default_factory=dict)
    """What was acknowledged for sure."""
    sent: dict[int, Sent] = field(default_factory=dict)
    adds: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By request: the batch and the number of items, of adds whose answer has not come."""
    sealing: set[str] = field(default_factory=set)
    sealed: set[str] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)
    answers: int = 0
    wholly: int = 0
    not_at_all: int = 0
    """Acknowledgements without an answer: how many had been carried out, and how many had not."""

    def read(self, words: list[Any]) -> None:
        match words:
            case ["opens", batch]:
                self.batches.add(batch)
            case ["adds", batch, count, request]:
                self.adds[request] = (batch, count)
            case ["added", batch, count, request, group]:
                self.adds.pop(request)
                assert self.sizes.setdefault((batch, group), count) == count
            case ["acknowledges", number, batch, group, spans]:
                self.sent[number] = Sent((batch, group), [(start, end) for start, end in spans])
                self.sizes.setdefault((batch, group), 0)
            case ["acknowledged", number, _, complete]:
                self.answers += 1
                sent = self.sent.pop(number)
                self.done[sent.group] = merged([*self.done.get(sent.group, []), *sent.spans])
                self.complete.update(complete)
            case ["seals", batch]:
                self.sealing.add(batch)
            case ["sealed", batch, complete]:
                self.sealed.add(batch)
                self.complete.update([batch] if complete else [])
            case ["failed", *what]:
                raise AssertionError(what)
            case _:
                assert words in (["opens the hub"], ["opened the hub"]), words

    # What a hub that was opened again must show.

    def check(self, hub: OpenHub) -> None:
        for batch in sorted(self.batches):
            try:
                state = hub.call(ReadBatch(batch)).state
            except BatchUnknown:
                assert not any(each == batch for each, _ in self.sizes), "the batch was forgotten"
                self.batches.remove(batch)
                continue
            assert (state is not BatchState.OPEN) >= (batch in self.sealed), "it was sealed"
            assert (state is BatchState.COMPLETE) >= (batch in self.complete), "it was complete"
            assert state is BatchState.OPEN or batch in self.sealing, "nobody sealed it"
            self._check_items(hub, batch)
        self.sent.clear()

    def _check_items(self, hub: OpenHub, batch: str) -> None:
        status, pending = hub.call(ReadBatch(batch)), spans_of(pending_of(hub, batch))
        own = {group: upto for (each, group), upto in self.sizes.items() if each == batch}
        unanswered = sum(count for each, count in self.adds.values() if each == batch)
        assert sum(own.values()) <= status.items <= sum(own.values()) + unanswered
        assert status.pending == sum(map(size, pending.values())), "the count is not that of the items"
        if status.state is BatchState.COMPLETE:
            assert status.items == sum(own.values())
        assert (status.state is BatchState.COMPLETE) == (status.pending == 0 and status.state is not BatchState.OPEN), (
            "complete means sealed and nothing pending"
        )
        for group, upto in own.items():
            self._check_group((batch, group), list(gaps(pending.get(group, []), upto)))

    def _check_group(self, group: Group, found: list[Span]) -> None:
        known = self.done.get(group, [])
        assert not minus(known, found), "what was acknowledged is forgotten"
        sent = [each.spans for each in self.sent.values() if each.group == group]
        assert not minus(found, [*known, *(span for spans in sent for span in spans)]), "nobody acknowledged that"
        for at, spans in enumerate(sent):
            others = [span for other in (*sent[:at], *sent[at + 1 :]) for span in other]
            missing = minus(spans, found)
            self.wholly += not missing
            self.not_at_all += bool(missing)
            counted = minus(minus(spans, missing), [*known, *others])
            assert not missing or not counted, "half of a call was acknowledged"
        self.done[group] = found

    def left(self) -> dict[str, Any]:
        """What the next life goes on with."""
        groups: dict[str, dict[str, int]] = {batch: {} for batch in self.batches}
        for (batch, group), upto in self.sizes.items():
            groups[batch][group] = upto
        return {
            "groups": {batch: own for batch, own in groups.items() if batch not in self.complete},
            "adds": [(batch, count, request) for request, (batch, count) in self.adds.items() if batch in groups],
        }


def pending_of(hub: OpenHub, batch: str) -> Iterator[tuple[str, int]]:
    after = None
    while True:
        page = hub.call(ListPendingItems(batch, limit=PAGE, after=after))
        for item in page.items:
            _, group, index = item.split(":")
            yield group, int(index)
        if page.next is None:
            return
        after = page.next


def spans_of(items: Iterator[tuple[str, int]]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for group, index in items:
        own = found.setdefault(group, [])
        if own and own[-1][1] == index:
            own[-1] = (own[-1][0], index + 1)
        else:
            own.append((index, index + 1))
    return found
