"""`restante send`: messages from files, from standard input, or one from the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from restante.cli.connecting import DEFAULT_URL, AsJson, DataFolder, Door, HubUrl, Token
from restante.cli.formats import Format

if TYPE_CHECKING:
    from restante.cli.pieces import Defaults, Piece, Pieces
    from restante.client.surface import Hub
    from restante.errors import RestanteError

_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
}
_STANDARD_INPUT = Path("-")


def send(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files to send; - is standard input.", show_default=False),
    ] = None,
    *,
    file_format: Annotated[
        Format | None, typer.Option("--format", help="How the files are written; else by their suffix.")
    ] = None,
    recipient: Annotated[str | None, typer.Option(help="For messages that name none.")] = None,
    origin: Annotated[str | None, typer.Option(help="For messages that name none.")] = None,
    kind: Annotated[str | None, typer.Option(help="For messages that name none.")] = None,
    media_type: Annotated[str | None, typer.Option(help="For messages that name none.")] = None,
    text: Annotated[str | None, typer.Option(help="Send one message with this text, and no file.")] = None,
    value: Annotated[str | None, typer.Option(metavar="JSON", help="Send one message with this JSON value.")] = None,
    idempotent: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Derive missing ids from KEY and the message's place: safe to send again."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, send nothing.")] = False,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Send messages from JSON lines, CSV, Parquet and Arrow files; each has the fields of a message as its columns.

    A file is sent in pieces of about 1.5 MB; each is stored whole or not at all. If one is refused, the error names
    the file and the line or row, and says how much was stored before.

    \b
    restante send --recipient alice --text hello
    restante send --recipient alice --kind order --value '{"number": 7}'
    restante send orders.jsonl invoices.parquet
    restante send orders.csv --origin shop --dry-run           is it all right?
    restante send night.jsonl --idempotent night-2030-01-31    again, and nothing is stored twice
    zcat orders.jsonl.gz | restante send -
    """
    from restante.cli.pieces import Defaults

    defaults = Defaults(recipient=recipient, origin=origin, kind=kind, media_type=media_type)
    sources = _sources(files or [], file_format, defaults, text=text, value=value)
    door = Door(hub, token, data)
    with nullcontext() if dry_run else door.open(create=True) as opened:
        sending = _Sending(opened, idempotent)
        sending.all(sources)
    _print(sending.sent, len(sources), dry_run=dry_run, as_json=as_json)


class _Source(NamedTuple):
    """Something that messages come from; `size` is that of a file."""

    name: str
    size: int | None
    pieces: Callable[[], Pieces]


@dataclass(slots=True)
class _Sent:
    messages: int = 0
    accepted: int = 0
    duplicates: int = 0
    seconds: float = 0.0


class _Sending:
    """Sends piece after piece, and knows how far it has come. Without a hub it only checks."""

    def __init__(self, hub: Hub | None, key: str | None) -> None:
        self._hub = hub
        self._key = key
        self.sent = _Sent()

    def all(self, sources: list[_Source]) -> None:
        from restante.cli.showing import progress_bar, rate

        sizes = [source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        started = time.monotonic()
        with progress_bar() as bar:
            task = bar.add_task("sending" if self._hub else "checking", total=total, note="")
            for number, source in enumerate(sources):
                for piece in self._pieces(source, number):
                    self._send(source, piece)
                    self.sent.seconds = time.monotonic() - started
                    note = f"{self.sent.messages:,} messages, {rate(self.sent.messages, self.sent.seconds)}"
                    bar.update(task, advance=piece.read_bytes, note=note)

    def _pieces(self, source: _Source, number: int) -> Iterator[Piece]:
        from restante.cli.pieces import Ids
        from restante.errors import InvalidRequest, RestanteError

        try:
            for piece in source.pieces():
                yield piece if self._key is None else Ids(self._key, number).given_to(piece)
        except RestanteError as error:
            error.message = f"{source.name}, {error.message} {self._stored(error)}"
            raise
        except OSError as error:
            unreadable = InvalidRequest(f"{source.name} cannot be read: {error.strerror}.")
            unreadable.message += f" {self._stored(unreadable)}"
            raise unreadable from error

    def _send(self, source: _Source, piece: Piece) -> None:
        from restante.errors import RestanteError

        try:
            if self._hub is None:
                _check(piece)
            elif len(piece):
                receipt = self._hub.producer.send(piece.messages)
                self.sent.accepted += receipt.accepted
                self.sent.duplicates += receipt.duplicates
        except RestanteError as error:
            error.message = f"{_located(error, source, piece)} {self._stored(error)}"
            raise
        self.sent.messages += len(piece)

    def _stored(self, error: RestanteError) -> str:
        """What became of the rest: a hub that could not be asked may have stored what it did not acknowledge."""
        from restante.cli.showing import counted
        from restante.errors import Unavailable

        before = counted(self.sent.messages, "message")
        if self._hub is None:
            return "Nothing was sent."
        if isinstance(error, Unavailable):
            return f"Acknowledged before: {before}."
        return f"Stored before: {before}; nothing of this piece and on."


def _located(error: RestanteError, source: _Source, piece: Piece) -> str:
    """What is wrong, with the place of the first message concerned."""
    from restante.errors import FaultyMessages, InvalidRequest

    if isinstance(error, FaultyMessages) and error.faults:
        first = error.faults[0]
        others = len({fault.index for fault in error.faults}) - 1
        more = f" {others:,} more of its piece are wrong too." if others else ""
        return f"{source.name}, {piece.place(first.index)}: {first.detail.rstrip('.')}.{more}"
    message = f"{error.message.rstrip('.')}."
    return f"{source.name}, {piece.place(0)} and on: {message}" if isinstance(error, InvalidRequest) else message


def _check(piece: Piece) -> None:
    """All rules that can be held against messages without a hub."""
    import pyarrow as pa

    from restante.model import intake
    from restante.model.refusals import refusal

    messages = piece.messages
    if isinstance(messages, pa.Table):
        faults = intake.from_arrow(messages, claim_check_origins=None)[1]
    else:
        faults = intake.from_messages(messages, claim_check_origins=None)[1]
    if faults:
        raise refusal(faults)


def _sources(
    files: list[Path], file_format: Format | None, defaults: Defaults, *, text: str | None, value: str | None
) -> list[_Source]:
    single = [content for content in (text, value) if content is not None]
    if len(single) + bool(files) != 1:
        raise typer.BadParameter("Name files (or - for standard input), or give one of --text and --value.")
    if files:
        return [_file_source(path, _format_of(path, file_format), defaults) for path in files]
    if defaults.recipient is None:
        raise typer.BadParameter("Say who gets the message.", param_hint="--recipient")
    return [_Source("the message", None, lambda: _one(defaults, text=text, value=value))]


def _format_of(path: Path, file_format: Format | None) -> Format:
    if file_format is None:
        file_format = Format.JSONL if path == _STANDARD_INPUT else _SUFFIXES.get(path.suffix.lower())
    if file_format is None:
        known = ", ".join(_SUFFIXES)
        raise typer.BadParameter(
            f"{path}: its suffix says nothing about its format ({known} do).", param_hint="--format"
        )
    if path == _STANDARD_INPUT and file_format is Format.PARQUET:
        raise typer.BadParameter("Parquet is read from its end, so it cannot come from standard input.")
    if path != _STANDARD_INPUT and not path.is_file():
        raise typer.BadParameter(f"{path} is not a file.", param_hint="FILE")
    return file_format


def _file_source(path: Path, file_format: Format, defaults: Defaults) -> _Source:
    if path == _STANDARD_INPUT:
        return _Source("standard input", None, lambda: _stream_pieces(file_format, defaults))
    return _Source(str(path), path.stat().st_size, lambda: _file_pieces(path, file_format, defaults))


def _stream_pieces(file_format: Format, defaults: Defaults) -> Pieces:
    from restante.cli.pieces_columns import arrow_stream_pieces
    from restante.cli.pieces_csv import csv_pieces
    from restante.cli.pieces_lines import json_pieces

    read = {Format.JSONL: json_pieces, Format.CSV: csv_pieces, Format.ARROW: arrow_stream_pieces}[file_format]
    return read(sys.stdin.buffer, defaults)


def _file_pieces(path: Path, file_format: Format, defaults: Defaults) -> Pieces:
    from restante.cli.pieces_columns import arrow_pieces, parquet_pieces
    from restante.cli.pieces_csv import csv_pieces
    from restante.cli.pieces_lines import json_pieces

    if file_format in (Format.PARQUET, Format.ARROW):
        yield from (parquet_pieces if file_format is Format.PARQUET else arrow_pieces)(path, defaults)
        return
    with path.open("rb") as file:
        yield from (json_pieces if file_format is Format.JSONL else csv_pieces)(file, defaults)


def _one(defaults: Defaults, *, text: str | None, value: str | None) -> Pieces:
    import msgspec

    from restante.cli.pieces import Piece
    from restante.errors import InvalidRequest
    from restante.model.message import Message

    fields: dict[str, Any] = dict(defaults.given())
    if text is not None:
        message = Message(**{"media_type": "text/plain", **fields}, data=text.encode())
    else:
        try:
            message = Message(**fields, data=msgspec.json.decode(value or ""))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"--value: it is not JSON: {error}.") from error
    yield Piece(messages=[message], first=0, lines=None, read_bytes=0)


def _print(sent: _Sent, sources: int, *, dry_run: bool, as_json: bool) -> None:
    from restante.cli.showing import counted, duration, print_json, rate

    if as_json:
        answer = {"messages": sent.messages, "accepted": sent.accepted, "duplicates": sent.duplicates}
        print_json(answer | {"files": sources, "seconds": round(sent.seconds, 3), "dry_run": dry_run})
    elif dry_run:
        print(f"{counted(sent.messages, 'message')} checked in {duration(sent.seconds)}, all right; nothing was sent.")
    else:
        skipped = f", {counted(sent.duplicates, 'duplicate')} skipped" if sent.duplicates else ""
        took = f"in {duration(sent.seconds)} ({rate(sent.messages, sent.seconds)})"
        print(f"{counted(sent.accepted, 'message')} stored{skipped}, {took}.")
