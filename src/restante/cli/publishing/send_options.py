"""The options of `restante send`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.shared.formats import Format

_AT_ONE_MOMENT = "All at one moment"

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Files to send; - is standard input.", show_default=False),
]
FileFormat = Annotated[Format | None, typer.Option("--format", help="How the files are written; else by their suffix.")]
ForMessages = Annotated[str | None, typer.Option(help="For messages that name none.")]
OneText = Annotated[str | None, typer.Option(help="Send one message with this text, and no file.")]
OneValue = Annotated[str | None, typer.Option(metavar="JSON", help="Send one message with this JSON value.")]
Forward = Annotated[
    bool, typer.Option("--forward", help="Leave out what another hub gave the messages; keep their ids.")
]
Idempotent = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Derive missing ids from KEY and the message's place: safe to send again."),
]
OpenBatch = Annotated[str | None, typer.Option(metavar="ID", help="Bind the messages to this batch, which is open.")]
Consignment = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Stage the files side by side under this key, and deliver all of them at one moment.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
Attempt = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="A higher one for files that were changed after an error. It replaces what was staged under the same names, "
        "also from elsewhere. Default: 0.",
        show_default=False,
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
WithBatch = Annotated[
    bool,
    typer.Option(
        "--with-batch",
        help="Open a batch with it: each message is an item. Who opens the key first decides.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
NoCommit = Annotated[
    bool,
    typer.Option(
        "--no-commit",
        help="Only stage; restante consignments commit delivers. A file is known by its name as given: from several "
        "machines, give each file a name of its own.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
