"""Things that are held: one of their actions is poison, its rule says `after_poison="hold"`, and nobody has decided yet.

The hub's list of poison says which. A partition is read only after its poison has been looked up, so a worker that takes a
partition over holds the same things as the worker before. A held thing whose poison is no longer in the list goes on: an
operator has decided about it, maybe before any look found it there. Poison that the hub does not have yet is in no list, and
is not looked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from restante.calls.actions import ListPoison
from restante.client.transport.link import AsyncLink
from restante.errors import RestanteError
from restante.limits import PAGE_MAX
from restante.model.work.core import WorkCore
from restante.work.app import App

LOOK_SECONDS = 2.0
_log = logging.getLogger("restante.work")


class WorkHolds:
    """Looks at the poison of a group, if any of the app's actions holds its thing."""

    def __init__(self, app: App, core: WorkCore, link: AsyncLink, wake: Callable[[], None]) -> None:
        self._group = app.name
        self._names = frozenset(name for name, rule in app.rules.items() if rule.after_poison == "hold")
        self._key = app.policy.key
        self._core = core
        self._link = link
        self._wake = wake
        self._known: dict[int, int] = {}
        """Partitions of which it is known what is held, with their generations."""
        self._changed = asyncio.Event()

    def may_read(self, partition: int, generation: int) -> bool:
        """Whether the things that are held in a partition are known."""
        if not self._names or self._known.get(partition) == generation:
            return True
        self._changed.set()
        return False

    async def run(self) -> None:
        """Look until it is cancelled: now and then, and at once when there is a new partition."""
        while self._names:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except RestanteError as error:
                _log.warning("The poison of %s cannot be looked at: %s", self._group, error)
                await asyncio.sleep(LOOK_SECONDS / 4)

    async def _look(self) -> None:
        asked, held = dict(self._core.partitions), self._core.held()
        listed = await self._listed()
        for partition, concerns in listed:
            self._core.hold(partition, concerns)
        for partition, key in held - {(partition, self._key(concerns)) for partition, concerns in listed}:
            if self._core.partitions.get(partition) == asked[partition]:
                self._core.decided(partition, key)
        self._known = asked
        self._wake()

    async def _listed(self) -> frozenset[tuple[int, str]]:
        found: set[tuple[int, str]] = set()
        after: str | None = None
        while True:
            page = await self._link.call(ListPoison(self._group, limit=PAGE_MAX, after=after))
            found |= {(each.partition, each.concerns) for each in page.poison if each.action in self._names}
            after = page.next
            if after is None:
                return frozenset(found)
