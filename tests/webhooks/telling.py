"""A hub that tells of completed batches, its clock and what it has done, for the tests and for their children."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from restante.assembly import open_hub
from restante.calls.batches import AcknowledgeItems, AddItems, OpenBatch, ReadBatch, SealBatch
from restante.hub.batches.memory import BatchMemory
from restante.hub.batches.notice_schedule import NoticeSchedule, Turn
from restante.hub.door.hub import OpenHub
from restante.model.access.access import EVERYTHING, Grant
from restante.model.batches.batch_answers import Delivery, ItemRange, Webhook
from restante.model.batches.webhook_rules import secret_text
from restante.settings import Settings, WebhookSettings

SECONDS = 120.0
"""A busy machine may take long to start a process, or to make an attempt."""
LOOPBACK = WebhookSettings(allowed_networks=("127.0.0.0/8",))
SETTINGS = Settings(partition_count=4, filing=False, housekeeping_seconds=0, webhooks=LOOPBACK)
SECRET = secret_text(bytes(range(32)))


class Standing:
    """A clock that shows today's time, as a receiver asks for, and stands still until it is put forward."""

    def __init__(self) -> None:
        self._now = time.time_ns() // 1_000

    def __call__(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1_000_000)


class Office:
    """A hub, seen from whoever watches it tell."""

    def __init__(self, hub: OpenHub, clock: Standing, attempts: queue.Queue[NoticeSchedule]) -> None:
        self.hub, self.core, self._clock, self._attempts = hub, hub.core, clock, attempts

    def complete(
        self,
        *,
        webhook: str = "",
        notify: str | None = None,
        batch: uuid.UUID | None = None,
        caller: Grant = EVERYTHING,
    ) -> uuid.UUID:
        """A batch of three items that is complete now."""
        hub = self.hub.on_behalf_of(caller)
        asked = Webhook(url=webhook, secret=SECRET) if webhook else None
        proposed = None if batch is None else str(batch)
        opened = hub.call(OpenBatch(key="night", webhook=asked, notify=notify, batch_id=proposed))
        (group,) = hub.call(AddItems(opened.id, 3)).groups
        hub.call(SealBatch(opened.id))
        everything = ItemRange(group=f"{opened.id}:{group.id}", start=0, upto=3)
        assert hub.call(AcknowledgeItems(ranges=[everything])).complete
        return uuid.UUID(opened.id)

    def attempted(self) -> None:
        """Returns when another attempt of this hub has been made, and recorded.

        A hub that was closed before may still have waited for a receiver that is silent, and ends its attempt only now.
        """
        while self._attempts.get(timeout=SECONDS) is not self.core.memory(BatchMemory).notices:
            pass

    def later(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.core.memory(BatchMemory).notices.wake()

    def deliveries(self, batch: uuid.UUID) -> tuple[Delivery, ...]:
        return self.hub.call(ReadBatch(str(batch))).deliveries


@contextmanager
def office(folder: Path, settings: Settings = SETTINGS) -> Iterator[Office]:
    """A hub whose attempts are noted from the first on: what is due when it opens is told at once."""
    clock = Standing()
    attempts: queue.Queue[NoticeSchedule] = queue.Queue()
    done = NoticeSchedule.done

    def noted(schedule: NoticeSchedule, turn: Turn, *, again_at: int | None, reached: bool, now: int) -> None:
        done(schedule, turn, again_at=again_at, reached=reached, now=now)
        attempts.put(schedule)

    with patch.object(NoticeSchedule, "done", noted):
        hub = open_hub(folder, settings=settings, clock=clock)
        try:
            yield Office(hub, clock, attempts)
        finally:
            hub.close()
