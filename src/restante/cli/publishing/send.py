"""`restante send`: messages from files, from standard input, or one from the command line."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from restante.cli.publishing.send_options import (
    AcceptOption,
    AttemptNumber,
    ConsignmentKey,
    Files,
    FormatOption,
    ForMessages,
    Forward,
    Idempotent,
    NoCommit,
    OneId,
    OneText,
    OneValue,
    OneVisibleAt,
    OpenBatchId,
    WithBatch,
)
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Chat, Format, Me
from restante.cli.shared.output import print_json
from restante.cli.shared.plain import say
from restante.model.backplane.accept import Accept
from restante.model.figures import counted, duration, rate

if TYPE_CHECKING:
    from restante.cli.publishing.pieces import Defaults, FileReading, Pieces
    from restante.cli.publishing.send_pieces import MessageSource, SendFindings, SendWay, SentCounts

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


@at_hub
def send(
    files: Files = None,
    *,
    file_format: FormatOption = None,
    recipient: ForMessages = None,
    origin: ForMessages = None,
    kind: ForMessages = None,
    media_type: ForMessages = None,
    text: OneText = None,
    value: OneValue = None,
    message_id: OneId = None,
    visible_at: OneVisibleAt = None,
    forward: Forward = False,
    idempotent: Idempotent = None,
    batch: OpenBatchId = None,
    accept: AcceptOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, send nothing.")] = False,
    consignment: ConsignmentKey = None,
    attempt: AttemptNumber = None,
    with_batch: WithBatch = False,
    no_commit: NoCommit = False,
    live: Chat = False,
    me: Me = None,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Send messages from JSON lines, CSV, Parquet and Arrow files; the columns are the fields of a message.

    A file is sent in pieces of about 1.5 MB; each piece is stored whole or not at all. If a piece is refused, the
    error names the file and the line or row, and says how much was stored before. --dry-run names everything that is wrong.

    With --consignment all files are one transaction: they are staged side by side, and delivered at one moment,
    exactly once. After an error or a crash, run the same command again: it continues, and repeats nothing.

    \b
    restante send --recipient alice --text hello
    restante send --recipient alice --kind order --value '{"number": 7}'
    restante send --recipient alice --text hi --visible-at 2030-01-31T12:00:00Z
    restante send orders.jsonl invoices.parquet
    restante send orders.csv --origin shop --dry-run    check it only
    restante send night.jsonl --idempotent night-7      safe to repeat
    restante send night.jsonl --batch $B                messages are its items
    restante send part-*.parquet --consignment night-7  all at one moment
    restante send mail/*.jsonl --forward                what collect wrote
    restante send --live --recipient alice --me bob     chat
    zcat orders.jsonl.gz | restante send -
    """
    from restante.cli.publishing.pieces import Defaults, FileReading
    from restante.cli.publishing.send_pieces import SendFindings, SendWay

    defaults = Defaults(recipient=recipient, origin=origin, kind=kind, media_type=media_type)
    single = {"id": message_id, "visible_at": visible_at}
    findings = SendFindings() if dry_run else None
    if live or me is not None:
        others = {"FILE": files, "text": text, "value": value, "batch": batch, "consignment": consignment}
        _chat(door, defaults, me, others | single | {"dry_run": dry_run}, live=live, as_json=as_json)
        return
    _check_content(files, text, value, single)
    _check_accept(accept, batch, consignment, visible_at)
    _check_consignment(files, consignment, batch=batch, attempt=attempt, with_batch=with_batch, no_commit=no_commit)
    if files:
        reading = FileReading(defaults=defaults, forward=forward)
        sources = [_file_source(path, _format_of(path, file_format), reading, findings) for path in files]
    else:
        sources = [_single_source(defaults, single, text=text, value=value)]
    if consignment is None or findings is not None:
        _send(door, sources, findings, idempotent=idempotent, way=SendWay(batch, accept), as_json=as_json)
    else:
        options = (consignment, attempt or 0, idempotent)
        _consign(door, sources, options, with_batch=with_batch, commit=not no_commit, as_json=as_json)


def _chat(
    door: Door, defaults: Defaults, me: str | None, others: dict[str, object], *, live: bool, as_json: bool
) -> None:
    from restante.cli.publishing.chat import chat, check_chat

    if not live:
        raise typer.BadParameter("--me is for a chat: add --live.", param_hint="--me")
    recipient, own = check_chat(defaults.recipient, me, **others)
    fields = {name: value for name, value in defaults.given().items() if name != "recipient"}
    with door.open(create=True) as opened:
        chat(opened, recipient, own, fields, as_json=as_json)


def _check_content(
    files: list[Path] | None, text: str | None, value: str | None, single: dict[str, str | None]
) -> None:
    if len([content for content in (text, value) if content is not None]) + bool(files) != 1:
        raise typer.BadParameter("Name files (or - for standard input), or give one of --text and --value.")
    if files:
        _check_no_single(single)


def _check_accept(accept: Accept | None, *others: str | None) -> None:
    if accept is Accept.ACCEPTED and any(other is not None for other in others):
        raise typer.BadParameter(
            "Messages of a batch or a consignment, and delayed ones, do not go through the backplane: leave --accept out.",
            param_hint="--accept",
        )


def _check_no_single(single: dict[str, str | None]) -> None:
    """Refuse options that only the one message of --text or --value has."""
    for name in (name for name, given in single.items() if given is not None):
        raise typer.BadParameter(
            "This option is about one message: in files, each message has its own.",
            param_hint=f"--{name.replace('_', '-')}",
        )


def _check_consignment(
    files: list[Path] | None,
    key: str | None,
    *,
    batch: str | None,
    attempt: int | None,
    with_batch: bool,
    no_commit: bool,
) -> None:
    """Refuse options that do not go together."""
    if key is None:
        given = {"--attempt": attempt is not None, "--with-batch": with_batch, "--no-commit": no_commit}
        for option in (option for option, is_given in given.items() if is_given):
            raise typer.BadParameter("This option is about a consignment: add --consignment.", param_hint=option)
        return
    _check_names(key, attempt or 0)
    if not files:
        raise typer.BadParameter("A consignment is staged from files: name at least one.", param_hint="--consignment")
    if batch is not None:
        raise typer.BadParameter(
            "A consignment has a batch of its own, or none: use --with-batch instead.", param_hint="--batch"
        )
    _check_writers(files)


def _check_names(key: str, attempt: int) -> None:
    from restante.errors import InvalidRequest
    from restante.model.consignments.consignment import check_attempt, check_key

    option = "--consignment"
    try:
        check_key(key)
        option = "--attempt"
        check_attempt("any", attempt)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message, param_hint=option) from error


def _check_writers(files: list[Path]) -> None:
    """Each file is a writer of the consignment, named by its path."""
    from restante.limits import WRITER_CHARACTERS_MAX

    seen: set[Path] = set()
    for path in files:
        if path in seen:
            raise typer.BadParameter(f"{path} is named twice; a consignment takes each file once.", param_hint="FILE")
        if len(str(path)) > WRITER_CHARACTERS_MAX:
            raise typer.BadParameter(
                f"{path}: in a consignment a path has at most {WRITER_CHARACTERS_MAX} characters.", param_hint="FILE"
            )
        seen.add(path)


def _send(
    door: Door,
    sources: list[MessageSource],
    findings: SendFindings | None,
    *,
    idempotent: str | None,
    way: SendWay,
    as_json: bool,
) -> None:
    """One file after another; with `findings` they are only checked."""
    from restante.cli.publishing.send_pieces import FileSending, publishing

    dry_run, one = findings is not None, sources[0].name is None
    with nullcontext() if dry_run else publishing(door, way, one=one) as publish:
        sending = FileSending(publish, idempotent, findings)
        if one and not dry_run:
            sending.one(sources[0])
        else:
            sending.all(sources)
    _print(sending.sent, len(sources), dry_run=dry_run, as_json=as_json)


def _consign(
    door: Door,
    sources: list[MessageSource],
    options: tuple[str, int, str | None],
    *,
    with_batch: bool,
    commit: bool,
    as_json: bool,
) -> None:
    """Stage all sources side by side, for one moment of delivery."""
    from restante.cli.publishing.staged_files import ConsignmentOptions, consign, tell

    key, attempt, idempotent = options
    with closing(door.link(create=True)) as link:
        done = consign(
            link,
            sources,
            ConsignmentOptions(key=key, attempt=attempt, idempotent=idempotent, with_batch=with_batch, commit=commit),
        )
    if as_json:
        print_json(_answer(done.sent, len(sources), dry_run=False) | done.as_answer())
    else:
        say(tell(done, files=len(sources)), lines=True)


def _format_of(path: Path, file_format: Format | None) -> Format:
    if path != _STANDARD_INPUT and not path.is_file():
        raise typer.BadParameter(
            f"{path} is not a file. To send a text: --recipient NAME --text TEXT.", param_hint="FILE"
        )
    if file_format is None:
        file_format = Format.JSONL if path == _STANDARD_INPUT else _SUFFIXES.get(path.suffix.lower())
    if file_format is None:
        known = ", ".join(_SUFFIXES)
        raise typer.BadParameter(
            f"{path}: its suffix says nothing about its format ({known} do).", param_hint="--format"
        )
    if path == _STANDARD_INPUT and file_format is Format.PARQUET:
        raise typer.BadParameter("Parquet is read from its end, so it cannot come from standard input.")
    return file_format


def _file_source(path: Path, file_format: Format, reading: FileReading, findings: SendFindings | None) -> MessageSource:
    from restante.cli.publishing.send_pieces import MessageSource

    name = "standard input" if path == _STANDARD_INPUT else str(path)
    if findings is not None:
        reading = replace(reading, refuse=lambda error: findings.note(error, f"{name}, {error.message}"))
    if path == _STANDARD_INPUT:
        return MessageSource(name, None, lambda: _stream_pieces(file_format, reading))
    return MessageSource(name, path.stat().st_size, lambda: _file_pieces(path, file_format, reading))


def _stream_pieces(file_format: Format, reading: FileReading) -> Pieces:
    from restante.cli.publishing.pieces_columns import arrow_stream_pieces
    from restante.cli.publishing.pieces_csv import csv_pieces
    from restante.cli.publishing.pieces_lines import json_pieces

    read = {Format.JSONL: json_pieces, Format.CSV: csv_pieces, Format.ARROW: arrow_stream_pieces}[file_format]
    return read(sys.stdin.buffer, reading)


def _file_pieces(path: Path, file_format: Format, reading: FileReading) -> Pieces:
    from restante.cli.publishing.pieces_columns import arrow_pieces, parquet_pieces
    from restante.cli.publishing.pieces_csv import csv_pieces
    from restante.cli.publishing.pieces_lines import json_pieces

    if file_format in (Format.PARQUET, Format.ARROW):
        yield from (parquet_pieces if file_format is Format.PARQUET else arrow_pieces)(path, reading)
        return
    with path.open("rb") as file:
        yield from (json_pieces if file_format is Format.JSONL else csv_pieces)(file, reading)


def _single_source(
    defaults: Defaults, single: dict[str, str | None], *, text: str | None, value: str | None
) -> MessageSource:
    from restante.cli.publishing.pieces import FilePiece
    from restante.cli.publishing.send_pieces import MessageSource
    from restante.model.publishing.message import Message

    if defaults.recipient is None:
        raise typer.BadParameter("Say who gets the message.", param_hint="--recipient")
    fields: dict[str, Any] = {**defaults.given(), "id": single["id"], "visible_at": _time_of(single["visible_at"])}
    if text is not None:
        message = Message(**{"media_type": "text/plain", **fields}, data=text.encode())
    else:
        message = Message(**{"media_type": "application/json", **fields}, data=_json_value(value or ""))
    return MessageSource(None, None, lambda: iter([FilePiece(messages=[message], first=0, lines=None, read_bytes=0)]))


def _time_of(text: str | None) -> datetime | None:
    """A time; in UTC, unless it names its zone."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"it must be a time such as 2030-01-31T12:00:00Z, not {text!r}.", param_hint="--visible-at"
        ) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _json_value(text: str) -> object:

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}. For text, use --text.", param_hint="--value") from error


def _print(sent: SentCounts, sources: int, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(_answer(sent, sources, dry_run=dry_run))
    elif dry_run:
        say(f"{counted(sent.messages, 'message')} checked in {duration(sent.seconds)}, all right; nothing was sent.")
    else:
        skipped = f", {counted(sent.duplicates, 'duplicate')} skipped" if sent.duplicates else ""
        took = f"in {duration(sent.seconds)} ({rate(sent.messages, sent.seconds)})"
        say(f"{counted(sent.accepted, 'message')} {'stored' if sent.stored else 'accepted'}{skipped}, {took}.")


def _answer(sent: SentCounts, sources: int, *, dry_run: bool) -> dict[str, Any]:
    counts = {"messages": sent.messages, "accepted": sent.accepted, "duplicates": sent.duplicates}
    if not sent.stored:
        counts["stored"] = False
    return counts | {"files": sources, "seconds": round(sent.seconds, 3), "dry_run": dry_run}
