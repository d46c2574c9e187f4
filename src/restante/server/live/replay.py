"""Replaying older messages: page by page from history, as fast as the client takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.calls.mailboxes import ReadHistory
from restante.errors import RestanteError, Unavailable
from restante.hub.door.hub import OpenHub
from restante.limits import LIVE_REPLAY_FIRST_MESSAGES, LIVE_REPLAY_MESSAGES, LIVE_REPLAYS_MAX
from restante.model.columns.arrow import numbers_of
from restante.model.publishing.message import ACTION_KIND, SHOWN_STATES
from restante.server.connections.exchange import ClientGone
from restante.server.live.connection import LiveConnection
from restante.server.live.tally import LiveTally
from restante.settings import LiveSettings
from restante.wire.outgoing.outgoing import message_texts

_log = logging.getLogger("restante.server")
_SHOWN = pa.array([state.value for state in SHOWN_STATES])


class Page(NamedTuple):
    """Some messages of a recipient, the number up to which they reach, and whether there are more."""

    rows: Sequence[tuple[int, bytes]]
    position: int
    more: bool
    fitting: int = LIVE_REPLAY_MESSAGES
    """The estimated number of messages of this size that make a page."""


class Replays:
    """Reads history for connections, but only for a few of them at once."""

    def __init__(self, hub: OpenHub, settings: LiveSettings, tally: LiveTally) -> None:
        self._hub = hub
        self._settings = settings
        self._tally = tally
        self._room = asyncio.Semaphore(LIVE_REPLAYS_MAX)

    def start(self, connection: LiveConnection) -> None:
        connection.again = False
        connection.replay = asyncio.ensure_future(self._run(connection))

    async def _run(self, connection: LiveConnection) -> None:
        self._tally.replays += 1
        try:
            await self._catch_up(connection)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  # the client must not wait for messages that never come
            if isinstance(error, Unavailable):
                _log.info("A replay failed: %s", error.message)
            else:
                _log.exception("A replay failed.")
            connection.replay = None
            detail = error.message if isinstance(error, RestanteError) else "The hub failed. Its log has more."
            await connection.end("failed", detail=detail, seconds=1)
            return
        connection.flush()

    async def _catch_up(self, connection: LiveConnection) -> None:
        limit = LIVE_REPLAY_FIRST_MESSAGES
        while True:
            await connection.emptied()
            connection.again = False
            page = await self._page(connection, limit)
            limit = page.fitting
            await connection.write_paced(page.rows)
            self._tally.replayed += len(page.rows)
            connection.queue.last = max(connection.queue.last, page.position)
            # Nothing is awaited from here on, so no message can come in between.
            if not page.more and not connection.again:
                connection.replay = None
                return

    async def _page(self, connection: LiveConnection, limit: int) -> Page:
        bytes_max = self._settings.queue_bytes
        async with self._room:
            return await asyncio.get_running_loop().run_in_executor(
                None, read_page, self._hub, connection.recipient, connection.queue.last, limit, bytes_max
            )


def read_page(hub: OpenHub, recipient: str, after: int, limit: int, bytes_max: int) -> Page:
    """The next messages after a number, without those withdrawn, expired or set aside, and without actions.

    At most `bytes_max` bytes are kept. `fitting` says how many messages the next page should have, so that not much more is read.
    """
    table, following = hub.history_table(ReadHistory(recipient, after=after, limit=limit))
    if not table.num_rows:
        return Page((), after, more=False)
    sizes = pc.fill_null(pc.binary_length(table["data"]), 0).to_numpy()
    fitting = max(1, int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")))
    page = table.slice(0, fitting)
    position = int(page["sequence_number"][-1].as_py())
    is_mail = pc.not_equal(page["kind"].cast(pa.string()), pa.scalar(ACTION_KIND))
    shown = page.filter(pc.and_(pc.is_in(page["state"].cast(pa.string()), _SHOWN), is_mail))
    numbers = numbers_of(shown["sequence_number"].combine_chunks()).tolist()
    rows = tuple(zip(numbers, message_texts(shown), strict=True))
    most = max(1, min(LIVE_REPLAY_MESSAGES, bytes_max * table.num_rows // max(1, int(sizes.sum()))))
    return Page(rows, position, more=following is not None or fitting < table.num_rows, fitting=most)
