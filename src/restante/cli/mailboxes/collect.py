"""`restante collect`: a recipient's mail, printed or written to files, and confirmed when it is safe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from restante.cli.shared.exits import NOTHING_THERE
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import After, CollectLive, Format, OnlyOriginGroups, OnlyOrigins, RecipientName
from restante.cli.shared.output import flush_output_to_disk, output, preview, table_of, write_output
from restante.cli.shared.plain import say
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from rich.table import Table

    from restante.client.surface.surface import Bundle, Recipient

_PREVIEW_CHARACTERS = 60


class FileFormat(Enum):
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"


class _Options(NamedTuple):
    """The options of a collect: what is to be collected, and for how long."""

    origins: list[str]
    groups: list[str]
    max_messages: int | None
    max_weight: int | None
    max_bundles: int | None
    idle: float | None
    confirm: bool


@at_hub
def collect(
    recipient: RecipientName,
    *,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="A folder; write a file for each bundle into it."),
    ] = None,
    file_format: Annotated[
        FileFormat | None,
        typer.Option(
            "--format", help="The format of the files. Default: jsonl. Claim-check content is written as it is."
        ),
    ] = None,
    origin: OnlyOrigins = None,
    group: OnlyOriginGroups = None,
    max_messages: Annotated[int | None, typer.Option(min=1, help="At most so many messages in a bundle.")] = None,
    max_weight: Annotated[
        int | None, typer.Option(min=1, metavar="KIB", help="The greatest weight of a bundle.")
    ] = None,
    max_bundles: Annotated[int | None, typer.Option(min=1, help="Stop after so many bundles.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for messages before the command ends.")
    ] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more messages until Ctrl-C.")] = False,
    no_confirm: Annotated[
        bool, typer.Option("--no-confirm", help="Print the next bundle, and do not confirm it.")
    ] = False,
    live: CollectLive = False,
    after: After = None,
    door: Door,
    text: Annotated[
        bool, typer.Option("--text", help="Print only the data of the messages, each with a line end.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print messages as JSON lines; with --to, a line for each file.")
    ] = False,
) -> None:
    """Collect a recipient's messages: print them, or write them to files.

    The command confirms a bundle only after printing it, or after its file is on the disk under its final name. So
    nothing is lost when the command is stopped at any moment: run it again, and it continues. A complete file is not
    written twice. The exit code is 3 if nothing was waiting.

    \b
    restante collect alice                        print and confirm
    restante collect alice --no-confirm           only look
    restante collect alice --text | sort          the data alone
    restante collect alice --json > mail.jsonl
    restante collect alice --to ./mail --format parquet
    restante collect alice --to ./mail --follow   until Ctrl-C
    restante collect alice --live --after 4711    as they arrive, unconfirmed
    """
    _check_output(to, file_format, text=text, as_json=as_json)
    options = _options(
        _Options(origin or [], group or [], max_messages, max_weight, max_bundles, wait, confirm=not no_confirm),
        follow=follow,
    )
    if live or after is not None:
        _collect_live(door, recipient, options, to=to, live=live, after=after, text=text, as_json=as_json)
        return
    with door.open() as opened:
        deliver = (
            _printer(_bundle_writer(text=text, as_json=as_json)) if to is None else _filer(to, file_format, as_json)
        )
        bundles, messages = _collected(opened.recipient(recipient), options, deliver)
    if not as_json and not text:
        _print_summary(recipient, bundles, messages, confirm=options.confirm)
    raise typer.Exit(0 if bundles else NOTHING_THERE)


Deliver = Callable[["Bundle"], None]
"""A function that makes a bundle safe: printed, or on the disk."""
WriteBundle = Callable[["Bundle"], Iterator[bytes]]
"""A bundle as it is printed."""


def _options(said: _Options, *, follow: bool) -> _Options:
    """The options as one value."""
    if follow and not said.confirm:
        raise typer.BadParameter("--no-confirm shows one bundle: leave out --follow.", param_hint="--no-confirm")
    bundles = said.max_bundles if said.confirm else 1
    return said._replace(max_bundles=bundles, idle=None if follow else said.idle)


def _collect_live(
    door: Door,
    recipient: str,
    options: _Options,
    *,
    to: Path | None,
    live: bool,
    after: int | None,
    text: bool,
    as_json: bool,
) -> None:
    from restante.cli.mailboxes.collect_live import check_alone, collect_live

    if not live:
        raise typer.BadParameter("--after is where to follow from: add --live.", param_hint="--after")
    if text and as_json:
        raise typer.BadParameter("--text prints the data alone: leave out --json.", param_hint="--text")
    check_alone(
        to=to,
        origin=options.origins,
        group=options.groups,
        max_messages=options.max_messages,
        max_weight=options.max_weight,
        max_bundles=options.max_bundles,
        follow=options.idle is None,
        wait=options.idle,
        no_confirm=not options.confirm,
    )
    with door.open() as opened:
        collect_live(opened.recipient(recipient), after=after, text=text, as_json=as_json)


def _check_output(to: Path | None, file_format: FileFormat | None, *, text: bool, as_json: bool) -> None:
    if file_format is not None and to is None:
        raise typer.BadParameter("--format is for files: name a folder with --to.", param_hint="--format")
    if text and (as_json or to is not None):
        raise typer.BadParameter("--text prints the data alone: leave out --json and --to.", param_hint="--text")


def _collected(recipient: Recipient, options: _Options, deliver: Deliver) -> tuple[int, int]:
    """How many bundles and messages it was."""
    bundles = messages = 0
    # A person who follows ends it by Ctrl-C, and so does one who has seen enough: what was not confirmed stays.
    with suppress(KeyboardInterrupt):
        for bundle in _bundles(recipient, options):
            deliver(bundle)
            if options.confirm:
                _confirm(bundle)
            bundles += 1
            messages += bundle.message_count
            if bundles == options.max_bundles:
                break
    return bundles, messages


def _bundles(recipient: Recipient, options: _Options) -> Iterator[Bundle]:
    return recipient.bundles(
        origins=options.origins,
        origin_groups=options.groups,
        max_messages=options.max_messages,
        max_weight=options.max_weight,
        idle=options.idle,
    )


def _confirm(bundle: Bundle) -> None:
    from restante.errors import BundleUnknown

    try:
        bundle.dequeue()
    except BundleUnknown as error:
        # Another program dequeued the bundle in between: it is done all the same.
        if "dequeued_at" not in error.details:
            raise


def _filer(folder: Path, file_format: FileFormat | None, as_json: bool) -> Deliver:
    from restante.cli.mailboxes.collect_files import BundleFolder

    files = BundleFolder(folder, Format.JSONL if file_format is None else Format(file_format.value))

    def deliver(bundle: Bundle) -> None:
        found = files.find(bundle.bundle_id)
        path = found or files.write(bundle)
        if as_json:
            write_output(_json_line(_described(bundle) | {"file": str(path), "written": found is None}))
        else:
            before = "" if found is None else ", written before"
            say(f"{path}: {counted(bundle.message_count, 'message')} of {bundle.origin}/{bundle.kind}{before}")

    return deliver


def _bundle_writer(*, text: bool, as_json: bool) -> WriteBundle:
    if text:
        return _data_lines
    return _lines if as_json else _shown


def _printer(write: WriteBundle) -> Deliver:
    def deliver(bundle: Bundle) -> None:
        for content in write(bundle):
            write_output(content, styled=write is _shown)
        flush_output_to_disk()

    return deliver


def _data_lines(bundle: Bundle) -> Iterator[bytes]:
    """The data as it came, some of it at a time."""
    from restante.limits import ANSWER_ROWS_MAX

    if bundle.content is not None:
        yield bundle.content + b"\n"
        return
    for batch in bundle.raw_table.select(["data"]).to_batches(ANSWER_ROWS_MAX):
        yield b"".join((data or b"") + b"\n" for data in batch.column(0).to_pylist())


def _lines(bundle: Bundle) -> Iterator[bytes]:
    from restante.cli.shared.message_lines import message_lines

    if bundle.content is None:
        return message_lines(bundle.raw_table)
    answer = _described(bundle) | {"media_type": bundle.media_type, "content_base64": bundle.content}
    return iter([_json_line(answer)])


def _json_line(answer: object) -> bytes:
    import msgspec

    return msgspec.json.encode(answer) + b"\n"


def _described(bundle: Bundle) -> dict[str, object]:
    names = {"bundle_id": bundle.bundle_id, "origin": bundle.origin, "kind": bundle.kind}
    return names | {"messages": bundle.message_count}


def _shown(bundle: Bundle) -> Iterator[bytes]:
    """A bundle for people."""
    console = output()
    title = f"{counted(bundle.message_count, 'message')} of {bundle.origin}/{bundle.kind}, bundle {bundle.bundle_id}"
    with console.capture() as captured:
        console.print(plain(title), style="bold", soft_wrap=True)
        if bundle.content is None:
            console.print(_table(bundle))
        else:
            console.print(preview(bundle.content, len(bundle.content)), soft_wrap=True)
    yield captured.get().encode(sys.stdout.encoding or "utf-8", "replace")


def _table(bundle: Bundle) -> Table:
    rows = [
        (
            str(message.sequence_number),
            clock_time(message.published_at) if message.published_at else "",
            str(message.id),
            preview(data or b"", _PREVIEW_CHARACTERS),
        )
        for message, data in zip(bundle.messages, bundle.raw_table.column("data").to_pylist(), strict=True)
    ]
    return table_of(("number", "published", "id", "data"), rows, right=["number"], whole=["published", "id"])


def _print_summary(recipient: str, bundles: int, messages: int, *, confirm: bool) -> None:
    if not bundles:
        say(f"Nothing is there for {recipient}. To see why: restante explain {recipient}")
        return
    what = "collected and confirmed" if confirm else "looked at; it stays where it is"
    say(f"{counted(messages, 'message')} in {counted(bundles, 'bundle')} {what}.")
