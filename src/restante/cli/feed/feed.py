"""`restante feed`: everything that happens, in order, for programs that read along."""

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
    from restante.cli.feed.feed_progress import Summary
    from restante.cli.feed.feed_rows import RowLook


class FeedFormat(Enum):
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"


_STANDARD_OUTPUT = Path("-")
_Several = "may be given again."
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help=f"Only this partition; {_Several}", show_default=False)
]
FeedAfter = Annotated[
    int | None,
    typer.Option(min=0, help="Only changes after this number, of the one --partition.", show_default=False),
]
PositionsFile = Annotated[
    Path | None,
    typer.Option(
        "--positions",
        metavar="FILE",
        dir_okay=False,
        help="A file of positions: continue from it and keep it up to date. It is made if need be.",
    ),
]
Bootstrap = Annotated[
    bool,
    typer.Option(
        "--bootstrap", help="Begin with a snapshot of all stored messages where there is no position, or it is too old."
    ),
]
OutputFormat = Annotated[FeedFormat, typer.Option("--format", help="The format of the output.")]
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
    after: FeedAfter = None,
    positions: PositionsFile = None,
    bootstrap: Bootstrap = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more changes until Ctrl-C.")] = False,
    file_format: OutputFormat = FeedFormat.JSONL,
    output: OutputPath = None,
    origin: Annotated[list[str] | None, typer.Option(help=f"Only this origin; {_Several}")] = None,
    kind: Annotated[list[str] | None, typer.Option(help=f"Only this kind; {_Several}")] = None,
    recipient: Annotated[list[str] | None, typer.Option(help=f"Only this recipient; {_Several}")] = None,
    columns: Columns = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.")] = None,
    reader: Annotated[str | None, typer.Option(metavar="NAME", help="The name of this reader in the metrics.")] = None,
    door: Door,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read the change feed: print every change of every partition, in order, or write the changes to files.

    A change is a message published, collected, expired, withdrawn, set aside or released, a recipient erased, or a
    batch completed. The
    command ends when it has read everything that was there at its start. The summary goes to standard error, or with
    --output to standard output.

    With --positions the command continues where it stopped. It writes the file of positions after the output is safe:
    flushed, or on the disk. So a crash loses nothing, and repeats at most the changes that were not recorded. With
    parquet no change is written twice: the same changes get the same file name. A snapshot that was interrupted is taken again, under other names.

    \b
    restante feed                                 all changes, as JSON lines
    restante feed --follow --kind order           and all later changes
    restante feed --partition 3 --after 4711
    restante feed --columns recipient,id,at --format arrow > feed.arrows
    restante feed --format parquet --output ./lake --positions lake.json
    restante feed --follow --bootstrap --positions mine.json
    """
    from restante.cli.feed.feed_follow import FeedFollower, FollowOptions
    from restante.cli.feed.feed_progress import Positions

    output = None if output == _STANDARD_OUTPUT else output
    names = _names_of(columns)
    _check_names(origin=origin, kind=kind, recipient=recipient, reader=reader)
    _check_start(partition, after, positions, bootstrap=bootstrap)
    _check_output(file_format, output)
    options = FollowOptions(
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
        summary = FeedFollower(opened, options, rows, out, known).all()
    _print(summary, as_json=as_json, beside=output is None)


def _names_of(columns: list[str] | None) -> tuple[str, ...]:
    """The columns that were named. A slip must not ask for all of them."""
    names = tuple(name.strip() for given in columns or () for name in given.split(","))
    if not all(names):
        raise typer.BadParameter("Name columns, with commas between them.", param_hint="--columns")
    return names


def _check_names(**given: list[str] | str | None) -> None:
    for option, value in given.items():
        names = [value] if isinstance(value, str) else value or []
        if not all(name.strip() for name in names):
            raise typer.BadParameter("A name must not be blank.", param_hint=f"--{option}")


def _check_start(partitions: list[int] | None, after: int | None, positions: Path | None, *, bootstrap: bool) -> None:
    if after is None:
        return
    if positions is not None or bootstrap:
        raise typer.BadParameter(
            "--after says where to begin: leave out --positions and --bootstrap.", param_hint="--after"
        )
    if len(set(partitions or ())) != 1:
        raise typer.BadParameter("A number counts in one partition: add one --partition.", param_hint="--after")


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
