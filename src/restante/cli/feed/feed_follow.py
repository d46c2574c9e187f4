"""Reading along: a snapshot where one is wished, then change after change, each recorded when it is safe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from restante.cli.feed.feed_outputs import Given, Output
from restante.cli.feed.feed_progress import Show, Summary, status_line
from restante.cli.feed.feed_rows import RowLook, change_count, first_changes, last_number
from restante.cli.shared.exits import Interrupts, interrupts
from restante.errors import PositionAhead, PositionGone

if TYPE_CHECKING:
    from restante.cli.feed.feed_progress import Positions
    from restante.client.surface.surface import Feed, FeedPage, Hub

_RECORD_SECONDS = 1.0
"""While much is to be read, positions are recorded about so often: to flush a disk for each page costs more than it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """The choice of changes of the feed, and from where."""

    partitions: tuple[int, ...]
    """Empty: all."""
    after: dict[int, int]
    origins: tuple[str, ...]
    kinds: tuple[str, ...]
    recipients: tuple[str, ...]
    bootstrap: bool
    follow: bool
    limit: int | None
    reader: str | None
    quiet: bool
    """The changes go to the terminal, so nothing else may."""


class FeedFollower:
    """Carries changes from a hub to an output, and records positions when all up to them is safe."""

    def __init__(self, hub: Hub, options: FollowOptions, rows: RowLook, output: Output, known: Positions) -> None:
        self._hub = hub
        self._options = options
        self._rows = rows
        self._output = output
        self._known = known
        self._started = self._recorded = time.monotonic()
        self._guard = threading.Lock()
        """Guards the output, and the positions that are recorded."""
        self._summary = Summary()
        self._looked_at: Mapping[int, int] = {}
        """How far the feed is, also where nothing was there that was asked for."""

    def all(self) -> Summary:
        """Read until the end, or the limit, or Ctrl-C. Rows that were given out by then are made safe in any case."""
        after = dict(self._options.after) or self._chosen(self._known.found)
        with interrupts() as heard, status_line(quiet=self._options.quiet) as show:
            try:
                if self._options.bootstrap:
                    after |= self._bootstrapped(after, heard, show)
                if not heard.asked:
                    self._read(after, heard, show)
            except PositionGone as error:
                error.message = f"{error.message} To begin with all that is stored, give --bootstrap."
                raise
            except PositionAhead as error:
                error.message = f"{error.message} Give new --positions, and a new --output if there is one."
                raise
        self._summary.seconds = time.monotonic() - self._started
        return self._summary

    def _chosen(self, positions: dict[int, int]) -> dict[int, int]:
        wanted = self._options.partitions
        return {partition: number for partition, number in positions.items() if not wanted or partition in wanted}

    # A snapshot, partition by partition: recorded partitions need not be read again.

    def _bootstrapped(self, after: dict[int, int], heard: Interrupts, show: Show) -> dict[int, int]:
        partitions = self._options.partitions or [status.partition for status in self._hub.partitions()]
        found: dict[int, int] = {}
        for partition in partitions:
            if heard.asked or self._is_there(partition, after.get(partition)):
                continue
            position = self._snapshot(partition, heard, show)
            if position is not None:
                found[partition] = position
        return found

    def _is_there(self, partition: int, position: int | None) -> bool:
        """Whether the feed can go on from a position."""
        if position is None:
            return False
        try:
            with self._hub.feed([partition], {partition: position}, columns=("sequence_number",), limit=1) as feed:
                next(iter(feed), None)
        except PositionGone:
            return False
        return True

    def _snapshot(self, partition: int, heard: Interrupts, show: Show) -> int | None:
        """Write a snapshot; gives the position from which the feed goes on, None if it was interrupted."""
        options = self._options
        pages = self._hub.snapshot(
            [partition],
            origins=options.origins,
            kinds=options.kinds,
            recipients=options.recipients,
            columns=self._rows.snapshot_columns,
        )
        for page in heard.until_asked(iter(pages)):
            table = self._rows.of_stored(page.table, partition)
            self._output.put(Given(table, partition, page.position, stored=True))
            self._summary.stored += table.num_rows
            self._show(show)
        self._known.record(self._output.finish())
        if heard.asked:
            return None
        position = pages.positions[partition]
        self._known.record({partition: position})
        self._summary.positions[partition] = position
        return position

    # The feed.

    def _read(self, after: dict[int, int], heard: Interrupts, show: Show) -> None:
        with self._feed(after) as feed:
            self._looked_at = feed.positions
            is_sound = True
            try:
                with self._recorded_meanwhile(feed):
                    for page in _limited(heard.until_asked(iter(feed)), self._options.limit):
                        is_sound = False
                        with self._guard:
                            self._give_out(page)
                        is_sound = True
                        self._show(show)
            except BaseException:
                if is_sound and self._summary.rows:
                    self._end()
                raise
            self._end()

    def _feed(self, after: dict[int, int]) -> Feed:
        options = self._options
        return self._hub.feed(
            list(options.partitions) or None,
            after or None,
            origins=options.origins,
            kinds=options.kinds,
            recipients=options.recipients,
            columns=self._rows.columns,
            follow=options.follow,
            limit=options.limit,
            reader=options.reader,
        )

    def _give_out(self, page: FeedPage) -> None:
        rows = self._rows.of_changes(page.table, page.partition)
        is_urgent = self._output.put(Given(rows, page.partition, page.position))
        summary = self._summary
        summary.changes += change_count(page.table)
        summary.rows += page.table.num_rows
        summary.positions[page.partition] = page.position
        summary.ends[page.partition] = page.end
        is_idle = summary.lag == 0 and rows.num_rows > 0
        if is_urgent or is_idle or time.monotonic() - self._recorded >= _RECORD_SECONDS:
            self._record()

    def _record(self) -> None:
        safe = dict(self._output.settle())
        self._known.record(safe | self._passed_over(safe))
        self._recorded = time.monotonic()

    def _passed_over(self, safe: Mapping[int, int]) -> dict[int, int]:
        """Where all that was given out is safe, how far was looked: nothing more is asked for up to there."""
        recorded, given_out = self._known.found, self._summary.positions
        return {
            number: place
            for number, place in dict(self._looked_at).items()
            if place > max(recorded.get(number, 0), safe.get(number, 0)) >= given_out.get(number, 0)
        }

    def _end(self) -> None:
        """Make everything safe. Changes that were looked at and not asked for need not be looked at again."""
        self._known.record(self._output.finish())
        given_out = self._summary.positions
        given_out |= {number: max(place, given_out.get(number, 0)) for number, place in self._looked_at.items()}
        self._known.record(given_out)

    @contextmanager
    def _recorded_meanwhile(self, feed: Feed) -> Iterator[None]:
        """Record what came before while nothing comes: it is made safe all the same."""
        if not self._options.follow:
            yield
            return
        stopping = threading.Event()
        failed: list[BaseException] = []

        def settle() -> None:
            try:
                while not stopping.wait(_RECORD_SECONDS):
                    with self._guard:
                        self._record()
            except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the reader
                failed.append(error)
                feed.close()

        thread = threading.Thread(target=settle, name="restante-record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
        if failed:
            raise failed[0]

    def _show(self, show: Show) -> None:
        self._summary.seconds = time.monotonic() - self._started
        show(self._summary.line())


def _limited(pages: Iterator[FeedPage], limit: int | None) -> Iterator[FeedPage]:
    """Pages with up to so many changes; the last page is cut after a change."""
    left = limit
    for page in pages:
        if left is None:
            yield page
            continue
        count = change_count(page.table)
        if count > left:
            table = first_changes(page.table, left)
            yield msgspec.structs.replace(page, table=table, position=last_number(table))
            return
        yield page
        left -= count
        if left == 0:
            return
