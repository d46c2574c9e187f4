"""Sending what was read, piece after piece; or checking it, to tell all that is wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from restante.cli.publishing.pieces import FileIds, FilePiece, Pieces, told
from restante.cli.shared.exits import Interrupts, interrupts
from restante.cli.shared.output import progress_bar
from restante.cli.shared.plain import say
from restante.errors import Fault, FaultyMessages, InvalidRequest, RestanteError, Unavailable
from restante.limits import LARGE_DATA_BYTES_MAX
from restante.model.backplane.accept import Accept, AcceptName
from restante.model.figures import counted, rate

if TYPE_CHECKING:
    from restante.cli.shared.hub_options import Door
    from restante.model.mailboxes.answers import Receipt

PublishPiece: TypeAlias = "Callable[[object], Receipt]"
"""Stores messages, all of them or none."""

FINDINGS_SHOWN_MAX = 20


class MessageSource(NamedTuple):
    """A source of messages; `size` is that of a file. Without a name it is one message, given here."""

    name: str | None
    size: int | None
    pieces: Callable[[], Pieces]

    def at(self, place: str, text: str) -> str:
        return text if self.name is None else f"{self.name}, {place}: {text}"


@dataclass(slots=True)
class SentCounts:
    messages: int = 0
    accepted: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    stored: bool = True
    """False: accepted messages are in the backplane, and will be stored."""


class SendWay(NamedTuple):
    """The batch into which messages go, and when a send is answered."""

    batch: str | None = None
    accept: Accept | None = None

    @property
    def accept_name(self) -> AcceptName | None:
        return None if self.accept is None else self.accept.value


@dataclass(slots=True)
class SendFindings:
    """The findings of a check: how many, and the first of them in words."""

    count: int = 0
    first: RestanteError | None = None
    lines: list[str] = field(default_factory=list)

    def note(self, error: RestanteError, text: str) -> None:
        self.count += 1
        self.first = self.first or error
        if len(self.lines) < FINDINGS_SHOWN_MAX:
            self.lines.append(text)

    def tell(self) -> None:
        """All as one error; nothing if nothing was wrong."""
        if self.first is None:
            return
        if self.count == 1:
            self.first.message = f"{self.lines[0]} Nothing was sent."
        else:
            shown = f" The first {len(self.lines)}:" if self.count > len(self.lines) else ""
            heading = f"{counted(self.count, 'problem')}; nothing was sent.{shown}"
            self.first.message = "\n".join([heading, *self.lines])
            self.first.details["problems"] = self.lines
        raise self.first


class FileSending:
    """Knows how far it has come. With `findings` nothing is sent: everything is checked, and noted there."""

    def __init__(self, publish: PublishPiece | None, key: str | None, findings: SendFindings | None) -> None:
        assert (publish is None) != (findings is None)
        self._publish = publish
        self._key = key
        self._findings = findings
        self._all_named = True
        """Whether every message that was sent had an id: then it can be sent again without harm."""
        self.sent = SentCounts()

    def one(self, source: MessageSource) -> None:
        """A message given on the command line: there is nothing to show, and nothing to go on with."""
        started = time.monotonic()
        for piece in self._pieces(source, 0):
            self._take(source, piece)
        self.sent.seconds = time.monotonic() - started

    def all(self, sources: Sequence[MessageSource]) -> None:
        """One file after another. Ctrl-C ends it after the piece under way, and says what is stored."""
        with interrupts() as heard:
            try:
                self._files(sources, heard)
            except KeyboardInterrupt:
                self._tell_stored(sure=False)
                raise
        if heard.asked:
            self._tell_stored(sure=True)
            raise KeyboardInterrupt
        if self._findings is not None:
            self._findings.tell()

    def _files(self, sources: Sequence[MessageSource], heard: Interrupts) -> None:
        sizes = [source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        started = time.monotonic()
        with progress_bar() as bar:
            task = bar.add_task("sending" if self._publish else "checking", total=total, note="")
            for number, source in enumerate(sources):
                for piece in heard.until_asked(self._pieces(source, number)):
                    self._take(source, piece)
                    self.sent.seconds = time.monotonic() - started
                    note = f"{counted(self.sent.messages, 'message')}, {rate(self.sent.messages, self.sent.seconds)}"
                    bar.update(task, advance=piece.read_bytes, note=note)

    def _tell_stored(self, *, sure: bool) -> None:
        """Tell what is stored after Ctrl-C, and how to go on."""
        if self._findings is not None:
            return
        rest = "nothing of the rest." if sure else "the piece that was under way may be stored too."
        if self._all_named:
            advice = "Run the same command again to go on: what is stored is skipped."
        else:
            advice = (
                "Messages without an id are stored again when they are sent again: leave out those that are stored. "
                "With --idempotent KEY, or ids in the file, the same command can be run again without harm."
            )
        say(f"Stopped. Stored: {counted(self.sent.messages, 'message')}; {rest} {advice}", file=sys.stderr)

    def _pieces(self, source: MessageSource, number: int) -> Iterator[FilePiece]:
        try:
            for piece in source.pieces():
                yield piece if self._key is None else FileIds(self._key, number).given_to(piece)
        except RestanteError as error:
            self._fail(source, error, f"{source.name}, {error.message}")
        except OSError as error:
            refused = unreadable(source, error)
            self._fail(source, refused, refused.message)

    def _take(self, source: MessageSource, piece: FilePiece) -> None:
        try:
            if self._findings is not None:
                self._check(source, piece, self._findings)
            elif self._publish is not None and len(piece):
                self._all_named = self._all_named and piece.is_named()
                receipt = self._publish(piece.messages)
                self.sent.accepted += receipt.accepted
                self.sent.duplicates += receipt.duplicates
                self.sent.stored = self.sent.stored and receipt.stored
        except RestanteError as error:
            self._fail(source, error, located(error, source, piece))
        self.sent.messages += len(piece)

    def _check(self, source: MessageSource, piece: FilePiece, findings: SendFindings) -> None:
        from restante.model.publishing.refusals import refusal

        for fault in _first_faults(_faults(piece)):
            findings.note(refusal([fault]), source.at(piece.place(fault.index), f"{told(fault)}."))

    def _fail(self, source: MessageSource, error: RestanteError, text: str) -> None:
        """The end of sending; a check goes on."""
        if self._findings is not None:
            self._findings.note(error, text)
            return
        error.message = text if source.name is None else f"{text} {self._stored(error)}"
        raise error

    def _stored(self, error: RestanteError) -> str:
        """The words about the rest: a hub that could not be asked may have stored what it did not acknowledge."""
        before = counted(self.sent.messages, "message")
        if isinstance(error, Unavailable):
            return f"Acknowledged before: {before}."
        return f"Stored before: {before}; nothing of this piece and on."


@contextmanager
def publishing(door: Door, way: SendWay, *, one: bool) -> Iterator[PublishPiece]:
    """The way into a hub. A single message goes there as JSON, without all that it takes to send many."""
    if one and door.data is None:
        with door.open_small() as link:

            def publish(messages: object) -> Receipt:
                assert isinstance(messages, Sequence)
                encoded = link.encode(messages[0])
                if encoded is not None:
                    return link.publish(encoded, batch=way.batch, accept=way.accept)
                with door.open() as hub:
                    return hub.producer.send(messages, batch=way.batch, accept=way.accept_name)

            yield publish
        return
    with door.open(create=True) as hub:
        yield lambda messages: hub.producer.send(messages, batch=way.batch, accept=way.accept_name)


def unreadable(source: MessageSource, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"{source.name} cannot be read: {error.strerror}.")


def located(error: RestanteError, source: MessageSource, piece: FilePiece) -> str:
    """The fault, with the place of the first message concerned."""
    if isinstance(error, FaultyMessages) and error.faults:
        first, *others = _first_faults(error.faults)
        more = ""
        if others:
            more = f" {len(others):,} more of its piece {'is' if len(others) == 1 else 'are'} wrong too."
        return source.at(piece.place(first.index), f"{told(first)}.{more}")
    message = f"{error.message.rstrip('.')}."
    return source.at(f"{piece.place(0)} and on", message) if isinstance(error, InvalidRequest) else message


def _first_faults(faults: tuple[Fault, ...] | list[Fault]) -> list[Fault]:
    """One for each message that is wrong."""
    by_index: dict[int, Fault] = {}
    for fault in faults:
        by_index.setdefault(fault.index, fault)
    return list(by_index.values())


def _faults(piece: FilePiece) -> list[Fault]:
    """The faults of messages, by all rules that need no hub."""
    from restante.model.publishing import intake

    messages = piece.messages
    if isinstance(messages, Sequence):
        return list(intake.from_messages(messages, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)[1])
    return list(intake.from_arrow(messages, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)[1])
