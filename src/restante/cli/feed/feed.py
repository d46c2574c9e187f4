"""`restante feed`: everything that happens, in order, for whoever reads along."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.cli.feed.feed_outputs import Output
    from restante.cli.feed.feed_rows import RowLook
    from restante.cli.feed.feed_summary import Summary


class FeedFormat(Enum):
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"


_STANDARD_OUTPUT = Path("-")
_Several = "may be given again."
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help=f"Only this partition; {_Several}", show_default=False)
]
After = Annotated[
    int | None,
    typer.Option(min=0, help="Only changes behind this number, of the one --partition.", show_default=False),
]
PositionsFile = Annotated[
    Path | None,
    typer.Option(
        "--positions",
        metavar="FILE",
        dir_okay=False,
        help="Go on where this file says, and keep it up to date. It need not be there yet.",
    ),
]
Bootstrap = Annotated[
    bool,
    typer.Option("--bootstrap", help="Where no position is known, or it is gone: begin with all that is stored."),
]
OutputFormat = Annotated[FeedFormat, typer.Option("--format", help="How the changes are written.")]
OutputPath = Annotated[
    Path | None,
    typer.Option("--output", metavar="PATH", help="A new file; for parquet a folder. Default, and -: standard output."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="NAMES", help=f"Only these columns, by commas; {_Several}", show_default=False),
]


@at_hub
def feed(
    *,
    partition: Partitions = None,
    after: After = None,
    positions: PositionsFile = None,
    bootstrap: Bootstrap = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more; Ctrl-C ends it.")] = False,
    file_format: OutputFormat = FeedFormat.JSONL,
    output: OutputPath = None,
    origin: Annotated[list[str] | None, typer.Option(help=f"Only this origin; {_Several}")] = None,
    kind: Annotated[list[str] | None, typer.Option(help=f"Only this kind; {_Several}")] = None,
    recipient: Annotated[list[str] | None, typer.Option(help=f"Only this recipient; {_Several}")] = None,
    columns: Columns = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.")] = None,
    reader: Annotated[str | None, typer.Option(metavar="NAME", help="What the metrics call this reader.")] = None,
    door: Door,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read along: print every change of every partition, in order, or write it to files.

    What was published, collected, expired, withdrawn, set aside, released, and which batches are complete. It ends
    when it has read all there was at its start. The summary goes to standard error, or with --output to standard
    output.

    With --positions it goes on where it was. The file is written after what was given out is safe: flushed, or on the
    disk. So a crash loses nothing, and repeats at most what was not recorded. With parquet no change is there twice:
    the same changes get the same file name. A snapshot that was interrupted is taken anew, under other names.

    \b
    restante feed                                 all there is, as JSON lines
    restante feed --follow --kind order           and all that comes
    restante feed --partition 3 --after 4711
    restante feed --columns recipient,id,at --format arrow > feed.arrows
    restante feed --format parquet --output ./lake --positions lake.json
    restante feed --follow --bootstrap --positions mine.json
    """
    from restante.cli.feed.feed_follow import FeedFollower, FollowWish
    from restante.cli.feed.feed_positions import Positions

    output = None if output == _STANDARD_OUTPUT else output
    names = _names_of(columns)
    _check_names(origin=origin, kind=kind, recipient=recipient, reader=reader)
    _check_start(partition, after, positions, bootstrap=bootstrap)
    _check_output(file_format, output)
    wish = FollowWish(
        partitions=tuple(dict.fromkeys(partition or ())),
        after={} if after is None or not partition else {partition[0]: after},
        origins=tuple(origin or ()),
        kinds=tuple(kind or ()),
        recipients=tuple(recipient or ()),
        bootstrap=bootstrap,
        follow=follow,
        limit=limit,
        reader=reader,
        quiet=output is None and sys.stdout.isatty(),
    )
    rows = _rows(file_format, names, bootstrap=bootstrap)
    known = Positions(positions)
    with door.open() as opened, closing(_output(file_format, output, rows, names)) as out:
        summary = FeedFollower(opened, wish, rows, out, known).all()
    _print(summary, as_json=as_json, beside=output is None)


def _names_of(columns: list[str] | None) -> tuple[str, ...]:
    """The columns that were named. A slip must not ask for all of them."""
    names = tuple(name.strip() for given in columns or () for name in given.split(","))
    if not all(names):
        raise typer.BadParameter("It names columns, with commas between them.", param_hint="--columns")
    return names


def _check_names(**given: list[str] | str | None) -> None:
    for option, value in given.items():
        names = [value] if isinstance(value, str) else value or []
        if not all(name.strip() for name in names):
            raise typer.BadParameter("It must not be blank.", param_hint=f"--{option}")


def _check_start(partitions: list[int] | None, after: int | None, positions: Path | None, *, bootstrap: bool) -> None:
    if after is None:
        return
    if positions is not None or bootstrap:
        raise typer.BadParameter("It says where to begin: without --positions and --bootstrap.", param_hint="--after")
    if len(set(partitions or ())) != 1:
        raise typer.BadParameter("A number counts in one partition: give one --partition too.", param_hint="--after")


def _check_output(file_format: FeedFormat, output: Path | None) -> None:
    if file_format is FeedFormat.PARQUET and output is None:
        raise typer.BadParameter("Parquet is written to a folder: name it with --output.", param_hint="--format")
    if file_format is FeedFormat.PARQUET and output is not None and output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is not a folder, and Parquet is written to one.", param_hint="--output")
    if file_format is FeedFormat.ARROW and output is None and sys.stdout.isatty():
        raise typer.BadParameter(
            "An Arrow stream is not for a terminal: give --output, or a pipe.", param_hint="--format"
        )


def _rows(file_format: FeedFormat, columns: tuple[str, ...], *, bootstrap: bool) -> RowLook:
    from restante.cli.feed.feed_rows import rows_of
    from restante.errors import InvalidRequest
    from restante.wire.outgoing.outgoing_feed import needed_columns

    try:
        return rows_of(needed_columns(columns) if file_format is FeedFormat.JSONL else columns, bootstrap=bootstrap)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message, param_hint="--columns") from error


def _output(file_format: FeedFormat, path: Path | None, rows: RowLook, columns: tuple[str, ...]) -> Output:
    from restante.cli.feed.feed_folder import Folder
    from restante.cli.feed.feed_outputs import ArrowStream, ByteOutput, Lines
    from restante.cli.feed.feed_rows import written_columns

    if file_format is FeedFormat.PARQUET:
        assert path is not None, "it was checked"
        return Folder(path, rows.schema)
    channel = ByteOutput(path)
    if file_format is FeedFormat.ARROW:
        return ArrowStream(channel, rows.schema)
    return Lines(channel, written_columns(columns))


def _print(summary: Summary, *, as_json: bool, beside: bool) -> None:
    """Beside the changes, if these are on standard output."""
    text = summary.as_json() if as_json else summary.told()
    say(text, file=sys.stderr if beside else sys.stdout, lines=True)
