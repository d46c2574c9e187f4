"""Writing a frame: one consignment for a job or a micro-batch, staged by its tasks and committed once by the driver.

A task stages under the number of its part of the frame, with an attempt that nobody else has. The driver names, for each
part, the attempt that Spark counts: whatever others have staged, tried again or speculative, is dropped with the commit. A
key that was committed before is not sent again: so a job or a micro-batch that is run again leaves nothing twice.
"""

from __future__ import annotations

import secrets
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from restante.calls.consignments import CommitConsignment, DiscardConsignment, ListConsignments, ReadConsignment
from restante.client.consignments.consignments_sync import Consignment, open_consignment
from restante.client.consignments.pieces import Piece, pieces_of
from restante.client.transport.http_sync import HttpLink
from restante.errors import ConsignmentClosed, FaultyMessages, InvalidOperation, RestanteError
from restante.limits import FAULTS_SHOWN_MAX, SPARK_STAGE_CALLS
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.spark.source.columns import Shaping
from restante.spark.source.options import Writing

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
"""The names that Spark gives them in a task's properties."""
_SHOWN = 5


@dataclass(frozen=True)
class Part(WriterCommitMessage):
    """The part that a task has staged."""

    consignment: str | None
    """The id of the consignment; None: there were no rows."""
    committed: bool
    """Whether the key was committed before, so that nothing was sent."""
    winner: Winner
    rows: int | None
    """How many this part of the frame has; None if the commit of another run came in between."""


class CommittedBefore(UserWarning):
    """The key was committed before, with another number of messages than this frame has: it was not sent."""


class MessageWriter(DataSourceArrowWriter):
    """A batch write. Its key is made when the write is planned, unless it was given."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._key = writing.key or f"spark-{secrets.token_hex(16)}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:  # type: ignore[override]  # pyspark has the rows of another base
        return _Task(self._writing, self._key).stage(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        with closing(self._writing.place.link()) as link:
            _commit(link, _parts(messages), self._key, self._writing)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the key says it all
        with closing(self._writing.place.link()) as link:
            _discard(link, self._key)


class MicroBatchWriter(DataSourceStreamArrowWriter):
    """A stream write: each micro-batch is a consignment, whose key has the query's id, which a restart keeps."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:  # type: ignore[override]  # pyspark has the rows of another base
        batches = iterator if self._writing.order_by is None else _sorted(iterator, self._writing.order_by)
        return _Task(self._writing, self._key()).stage(batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - as Spark calls it
        with closing(self._writing.place.link()) as link:
            _commit(link, _parts(messages), None, self._writing)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - as Spark calls it
        """Spark does not say which query this is: what a failed task says, or nothing; then the replay goes on with it."""
        with closing(self._writing.place.link()) as link:
            for consignment in {part.consignment for part in _parts(messages) if not part.committed}:
                if consignment is not None:
                    link.call(DiscardConsignment(consignment))

    def _key(self) -> str:
        context = TaskContext.get()
        assert context is not None
        name = self._writing.key or context.getLocalProperty(_QUERY)
        return f"{name}/{context.getLocalProperty(_BATCH)}"


class _Task:
    """One attempt at one part of the frame."""

    def __init__(self, writing: Writing, key: str) -> None:
        context = TaskContext.get()
        assert context is not None
        self._writing = writing
        self._key = key
        self._writer = f"{context.partitionId():06d}"
        # Spark numbers attempts from 0 with each driver, and an attempt of an earlier driver may have staged already.
        self._attempt = secrets.randbits(63)
        self._offsets: dict[int, int] = {}
        """How many rows lie before each parcel."""

    def stage(self, batches: Iterator[pa.RecordBatch]) -> Part:
        shaping = Shaping(self._writing)
        shaped = (shaping.shaped(batch) for batch in batches if batch.num_rows)
        first = next(shaped, None)
        if first is None:
            return self._part(None, 0, rows=0)
        with closing(self._writing.place.link()) as link:
            consignment = open_consignment(link, self._key, batch=self._writing.batch)
            if consignment.state is ConsignmentState.COMMITTED:
                return self._part(consignment, 0, rows=first.num_rows + sum(batch.num_rows for batch in batches))
            reader = pa.RecordBatchReader.from_batches(first.schema, chain((first,), shaped))
            try:
                staged = self._stage(consignment, pieces_of(reader, size=self._writing.parcel_bytes))
            except ConsignmentClosed:
                # A driver that has died since may have had its commit under way: then all of it is delivered.
                if link.call(ReadConsignment(consignment.id)).state is not ConsignmentState.COMMITTED:
                    raise
                consignment.state = ConsignmentState.COMMITTED
                return self._part(consignment, 0, rows=None)
            return self._part(consignment, staged, rows=staged)

    def _part(self, consignment: Consignment | None, messages: int, *, rows: int | None) -> Part:
        winner = Winner(writer=self._writer, attempt=self._attempt, messages=messages)
        if consignment is None:
            return Part(None, committed=False, winner=winner, rows=rows)
        committed = consignment.state is ConsignmentState.COMMITTED
        return Part(consignment.id, committed=committed, winner=winner, rows=rows)

    def _stage(self, consignment: Consignment, pieces: Iterator[Piece]) -> int:
        """A few parcels under way at a time, while Spark makes the next."""
        before = 0
        under_way: deque[Future[int]] = deque()
        with ThreadPoolExecutor(SPARK_STAGE_CALLS, thread_name_prefix="restante-stage") as pool:
            for number, piece in enumerate(pieces):
                under_way.append(pool.submit(self._stage_piece, consignment, number, piece, before))
                before += len(piece)
                if len(under_way) > SPARK_STAGE_CALLS:
                    under_way.popleft().result()
            for staged in under_way:
                staged.result()
        return before

    def _stage_piece(self, consignment: Consignment, number: int, piece: Piece, before: int) -> int:
        try:
            return consignment.stage(self._writer, self._attempt, piece, parcel=number)
        except FaultyMessages as error:
            raise self._told(error, piece, before) from error

    def _told(self, error: FaultyMessages, piece: Piece, before: int) -> RestanteError:
        """The error, with the row of the task and the recipient of each message that is faulty."""
        recipients = piece.column("recipient") if isinstance(piece, pa.Table) else None
        listed = [
            f"row {before + fault.index} of part {int(self._writer)}"
            + (f" (to {recipients[fault.index].as_py()!r})" if recipients is not None else "")
            + f": {fault.detail}"
            for fault in error.faults[:_SHOWN]
        ]
        more = len(error.faults) - len(listed)
        listed += [f"and {more} more"] if more > 0 else []
        return type(error)(f"{error.message} {'; '.join(listed)}", error.faults[:FAULTS_SHOWN_MAX])


def _sorted(batches: Iterator[pa.RecordBatch], by: str) -> Iterator[pa.RecordBatch]:
    """The rows of a task by recipient and a column, nulls first as Spark has it. Spark cannot sort a micro-batch's part itself."""
    gathered = list(batches)
    if not gathered:
        return iter(())
    table = pa.Table.from_batches(gathered)
    order = pc.sort_indices(table, [("recipient", "ascending"), (by, "ascending")], null_placement="at_start")
    return iter(table.take(order).to_batches())


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    return [part for part in messages if isinstance(part, Part)]


def _commit(link: HttpLink, parts: Sequence[Part], key: str | None, writing: Writing) -> None:
    """Commit what these parts have staged. A commit that was carried out, and is asked for again, changes nothing."""
    named = {part.consignment for part in parts if part.consignment is not None}
    if len(named) > 1:
        raise InvalidOperation(
            "The consignment was discarded by somebody else while this job was at work, and nothing was committed. Run it "
            "again; two runs at the same time need two keys."
        )
    if any(part.committed for part in parts):
        _compare(link, named.pop() or "", parts)
    elif named:
        consignment = named.pop() or ""
        try:
            link.call(CommitConsignment(consignment, [part.winner for part in parts if part.winner.messages]))
        except ConsignmentClosed as error:
            # Another driver of the same key was faster: its commit delivered all of it.
            if "recorded" not in error.details:
                raise
            _compare(link, consignment, parts)
    elif key is not None and writing.batch:
        # A program that waits for the batch of a frame without rows hears that it is complete.
        link.call(CommitConsignment(open_consignment(link, key, batch=True).id, []))


def _compare(link: HttpLink, consignment: str, parts: Sequence[Part]) -> None:
    """Warn if another frame than this one was committed under the key before, as far as its size shows.

    A job that is run again cuts its frame into other parts, and its attempts have other numbers: only the number of
    messages is the same.
    """
    found = link.call(ReadConsignment(consignment))
    rows = [part.rows for part in parts if part.rows is not None]
    if found.receipt is None or len(rows) < len(parts):
        return
    recorded = found.receipt.accepted + found.receipt.duplicates
    if recorded != sum(rows):
        warnings.warn(
            f"Nothing was sent: the key {found.key!r} was committed on {found.closed_at:%Y-%m-%d at %H:%M:%S} UTC with "
            f"{recorded:,} messages, and this frame has {sum(rows):,}. A committed key is done. To send this frame, give "
            "it a key of its own, such as one with its date.",
            CommittedBefore,
            stacklevel=2,
        )


def _discard(link: HttpLink, key: str) -> None:
    for consignment in link.call(ListConsignments(state=ConsignmentState.OPEN, key=key)).consignments:
        link.call(DiscardConsignment(consignment.id))
