"""Staging files side by side for one consignment, and committing it: all of them are seen at one moment, or nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from restante.calls.consignments import BeginConsignment, CommitConsignment, ReadConsignment, StageParcel
from restante.cli.publishing.pieces import FileIds, FilePiece
from restante.cli.publishing.send_pieces import MessageSource, SentCounts, located, unreadable
from restante.cli.shared.output import progress_bar
from restante.cli.shared.plain import say
from restante.errors import (
    ConsignmentClosed,
    ConsignmentIncomplete,
    InvalidClientState,
    InvalidOperation,
    MessageConflict,
    RestanteError,
)
from restante.limits import FAULTS_SHOWN_MAX
from restante.model.consignments.consignment_answers import ConsignmentDetails, ConsignmentState, Winner
from restante.model.figures import counted, duration, rate

if TYPE_CHECKING:
    from rich.progress import Progress

    from restante.client.transport.link import Link
    from restante.model.consignments.consignment_answers import ConsignmentOpened
    from restante.model.mailboxes.answers import Receipt

_FILES_AT_ONCE = 4
_WRITERS_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsignmentOptions:
    """The options of the consignment."""

    key: str
    attempt: int
    with_batch: bool
    commit: bool
    idempotent: str | None


@dataclass(slots=True)
class Consigned:
    """The state of a consignment that files are staged into."""

    opened: ConsignmentOpened
    state: ConsignmentState
    committed_before: bool = False
    sent: SentCounts = field(default_factory=SentCounts)

    def as_answer(self) -> dict[str, Any]:
        own = {"id": self.opened.id, "key": self.opened.key, "state": self.state, "batch": self.opened.batch}
        return {"consignment": own | {"committed_before": self.committed_before}}


def consign(link: Link, sources: Sequence[MessageSource], options: ConsignmentOptions) -> Consigned:
    """Stage all, and commit it unless that is left for later. One that was committed before is left as it is."""
    opened = link.call(BeginConsignment(options.key, batch=options.with_batch))
    _check_batch(opened, options)
    done = Consigned(opened, opened.state)
    if opened.state is ConsignmentState.COMMITTED:
        done.committed_before = True
        _note(done.sent, link.call(ReadConsignment(opened.id)).receipt)
        return done
    started = time.monotonic()
    try:
        winners = _Staging(link, opened.id, options, done.sent).all(sources)
        if options.commit:
            _check_nobody_else(link.call(ReadConsignment(opened.id)), winners)
            _note(done.sent, link.call(CommitConsignment(opened.id, winners)))
            done.state = ConsignmentState.COMMITTED
        done.sent.seconds = time.monotonic() - started
    except RestanteError as error:
        error.message = f"{error.message} {going_on(opened, error, options.attempt)}"
        raise
    except KeyboardInterrupt as error:
        staged = f"Stopped. Staged: {counted(done.sent.messages, 'message')}."
        say(f"{staged} {going_on(opened, error, options.attempt)}", file=sys.stderr)
        raise
    return done


def _check_batch(opened: ConsignmentOpened, options: ConsignmentOptions) -> None:
    """Refuse a batch for a consignment that is open: the caller that opens it says whether it has one."""
    if not options.with_batch or opened.batch is not None:
        return
    name = f"{opened.key} ({opened.id})"
    if opened.state is ConsignmentState.COMMITTED:
        raise InvalidOperation(
            f"{name} was committed before, without a batch, so --with-batch cannot be had any more. Nothing was sent. "
            f"What was stored: restante consignments show {opened.id}"
        )
    raise InvalidOperation(
        f"{name} was opened before without a batch, and none can be added. Nothing was staged. Leave out --with-batch, "
        f"or discard the staged messages and start again: restante consignments discard {opened.id}"
    )


def _check_nobody_else(details: ConsignmentDetails, winners: Sequence[Winner]) -> None:
    """Check that nobody else has staged: this commit would drop that without a word."""
    own = {winner.writer for winner in winners}
    others = list(dict.fromkeys(one.writer for one in details.attempts if one.writer not in own))
    if others:
        listed = ", ".join([*others[:_WRITERS_SHOWN_MAX], *(["…"] if len(others) > _WRITERS_SHOWN_MAX else [])])
        raise InvalidOperation(
            f"Others have staged for {details.key} ({details.id}) too: {listed}. All files are staged, and nothing is "
            "delivered yet.",
            writers=others[:FAULTS_SHOWN_MAX],
        )


def going_on(opened: ConsignmentOpened, error: BaseException, attempt: int) -> str:
    """The next steps, for people."""
    if isinstance(error, InvalidOperation):
        return (
            "Where several commands stage for one key, give each --no-commit. When none of them is at work any more, "
            "deliver all that is staged, of each writer the highest attempt: "
            f"restante consignments commit {opened.id}"
        )
    if isinstance(error, ConsignmentClosed):
        return f"Look at it: restante consignments show {opened.id}"
    again = "Run the same command again to go on"
    if isinstance(error, InvalidClientState | ConsignmentIncomplete | MessageConflict):
        again = f"If the files were changed, run it again with --attempt {attempt + 1}"
    if isinstance(error, InvalidClientState):
        again = f"If another machine has staged a file of this name, give yours another name. {again}"
    return (
        f"The consignment is still open, and nobody sees what is staged. {again}, "
        f"or give it up: restante consignments discard {opened.id}"
    )


class _Staging:
    """Each file is a writer, and its pieces are its parcels: the same pieces have the same numbers in every run."""

    def __init__(self, link: Link, consignment_id: str, options: ConsignmentOptions, sent: SentCounts) -> None:
        self._link = link
        self._id = consignment_id
        self._options = options
        self._sent = sent
        self._started = time.monotonic()
        self._guard = threading.Lock()
        self._stopping = threading.Event()

    def all(self, sources: Sequence[MessageSource]) -> list[Winner]:
        """The counts that each file has staged. If one is refused the others stop as well."""
        sizes = [source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        with progress_bar() as bar:
            bar.add_task("staging", total=total, note="")
            with ThreadPoolExecutor(min(len(sources), _FILES_AT_ONCE), "restante-stage") as pool:
                loads = [pool.submit(self._file, source, number, bar) for number, source in enumerate(sources)]
                try:
                    return [load.result() for load in loads]
                finally:
                    self._stopping.set()

    def _file(self, source: MessageSource, number: int, bar: Progress) -> Winner:
        assert source.name is not None, "files have names"
        count = 0
        try:
            for parcel, piece in enumerate(self._pieces(source, number)):
                if self._stopping.is_set():
                    break
                count += self._parcel(source, piece, parcel)
                self._note(piece, bar)
        except BaseException:
            self._stopping.set()
            raise
        return Winner(writer=source.name, attempt=self._options.attempt, messages=count)

    def _pieces(self, source: MessageSource, number: int) -> Iterator[FilePiece]:
        key = self._options.idempotent
        try:
            for piece in source.pieces():
                yield piece if key is None else FileIds(key, number).given_to(piece)
        except RestanteError as error:
            error.message = f"{source.name}, {error.message}"
            raise
        except OSError as error:
            raise unreadable(source, error) from error

    def _parcel(self, source: MessageSource, piece: FilePiece, parcel: int) -> int:
        assert source.name is not None, "files have names"
        try:
            answer = self._link.call(
                StageParcel.of(
                    self._id, piece.messages, writer=source.name, attempt=self._options.attempt, parcel=parcel
                )
            )
        except InvalidClientState as error:
            error.message = f"{source.name}, {piece.place(0)} and on: {error.message}"
            raise
        except RestanteError as error:
            error.message = located(error, source, piece)
            raise
        return answer.staged

    def _note(self, piece: FilePiece, bar: Progress) -> None:
        with self._guard:
            self._sent.messages += len(piece)
            self._sent.seconds = time.monotonic() - self._started
            note = f"{counted(self._sent.messages, 'message')}, {rate(self._sent.messages, self._sent.seconds)}"
            bar.update(bar.tasks[0].id, advance=piece.read_bytes, note=note)


def _note(sent: SentCounts, receipt: Receipt | None) -> None:
    if receipt is not None:
        sent.accepted, sent.duplicates = receipt.accepted, receipt.duplicates


def tell(done: Consigned, *, files: int) -> str:
    """Say for people, in a sentence or two, what was staged."""
    sent, name = done.sent, f"{done.opened.key} ({done.opened.id})"
    skipped = f", {counted(sent.duplicates, 'duplicate')} skipped" if sent.duplicates else ""
    if done.committed_before:
        return f"{name} was committed before: {counted(sent.accepted, 'message')} stored{skipped}. Nothing was sent."
    if done.state is ConsignmentState.OPEN:
        staged = f"{counted(sent.messages, 'message')} of {counted(files, 'file')} staged for {name}"
        return f"{staged}; nobody sees them yet.\nTo deliver them: restante consignments commit {done.opened.id}"
    took = f"{duration(sent.seconds)} ({rate(sent.messages, sent.seconds)})"
    bound = f"\nTheir batch: {done.opened.batch}" if done.opened.batch else ""
    return f"{counted(sent.accepted, 'message')} stored{skipped}, all at one moment, as {name}, in {took}.{bound}"
