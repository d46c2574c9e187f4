"""Three recipients that are late, each for another reason: not come, not confirmed, not finished.

The batch says who is late; explain says why. The reasons are worded here from those two answers alone, so that any
program can find them out the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from restante.client.surface.surface import Batch, Bundle, Hub
from restante.model.batches.batch_answers import RecipientProgress
from restante.model.figures import counted
from restante.model.mailboxes.answers import Explanation
from restante.samples.night_steps import LateRecipient

LATECOMERS = 3


@dataclass(slots=True)
class Latecomers:
    """The late recipients of a night, and what they have done so far."""

    hub: Hub
    names: list[str]
    taken: list[Bundle] = field(default_factory=list)
    """The bundles that were dequeued in time."""
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def among(cls, hub: Hub, names: Sequence[str]) -> Latecomers:
        """The last of the recipients; at least one recipient comes in time."""
        return cls(hub, list(names[max(1, len(names) - LATECOMERS) :]))

    def begin(self) -> None:
        """The first one does not come at all, the second does not confirm, the third takes a half."""
        if len(self.names) > 1:
            self.hub.recipient(self.names[1]).peek()
        if len(self.names) > 2:
            self._take_half(self.names[2])

    def _take_half(self, name: str) -> None:
        waiting = sum(one.messages for one in self.hub.recipient(name).explain().waiting)
        if waiting < 2:
            return
        bundle = self.hub.recipient(name).peek(max_messages=waiting // 2)
        if bundle is not None:
            bundle.dequeue()
            self.taken.append(bundle)

    def told(self, batch: Batch) -> list[LateRecipient]:
        """The recipients that are late by the batch, and why by `explain`."""
        found = [
            LateRecipient(
                recipient=one.recipient,
                waiting=one.waiting,
                since=one.oldest_waiting,
                why=why(one, self.hub.recipient(one.recipient).explain()),
            )
            for one in batch.progress(waiting=True)
            if one.oldest_waiting is not None
        ]
        unexpected = sorted({one.recipient for one in found} - set(self.names))
        self.wrong += [f"{name} is late, though it has collected." for name in unexpected]
        return sorted(found, key=lambda one: one.recipient)


def why(progress: RecipientProgress, explanation: Explanation) -> str:
    """Why a recipient has not collected all of its messages, in a sentence."""
    for bundle in explanation.open_bundles:
        return f"peeked at {bundle.opened_at:%H:%M:%S} and has not confirmed: its bundle of {bundle.messages:,} is open"
    if progress.collected:
        return (
            f"collected {counted(progress.collected, 'message')}, then stopped: the rest is {explanation.reason.value}"
        )
    return f"has not come: its messages are {explanation.reason.value}"
