"""The options of `restante send`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.shared.options import Format
from restante.model.backplane.accept import Accept

_AT_ONE_MOMENT = "All at one moment"

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Files to send; - is standard input.", show_default=False),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the files are written; else by their suffix.")
]
ForMessages = Annotated[str | None, typer.Option(help="Used for messages that have none of their own.")]
OneText = Annotated[str | None, typer.Option(help="Send one message with this text, and no file.")]
OneValue = Annotated[str | None, typer.Option(metavar="JSON", help="Send one message with this JSON value.")]
OneId = Annotated[
    str | None,
    typer.Option("--id", help="The id of the one message: any text. The same message sent again is stored once."),
]
OneVisibleAt = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Keep the one message until this time, such as 2030-01-31T12:00:00Z."),
]
Forward = Annotated[bool, typer.Option("--forward", help="Leave out the fields that another hub set; keep the ids.")]
Idempotent = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Derive missing ids from KEY and the message's place: safe to send again."),
]
AcceptOption = Annotated[
    Accept | None,
    typer.Option(
        "--accept",
        help="accepted: return when the backplane (a Kafka topic) has the messages. Default: stored.",
        show_default=False,
    ),
]
OpenBatchId = Annotated[str | None, typer.Option(metavar="ID", help="Bind the messages to this open batch.")]
ConsignmentKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Stage the files side by side under this key, and deliver all of them at one moment.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
AttemptNumber = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="The number of the attempt. After changing a file, use a higher number: it replaces what was staged under "
        "the same names, also from elsewhere. Default: 0.",
        show_default=False,
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
WithBatch = Annotated[
    bool,
    typer.Option(
        "--with-batch",
        help="Also open a batch with each message as an item. The first command that opens the key decides.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
NoCommit = Annotated[
    bool,
    typer.Option(
        "--no-commit",
        help="Stage only; `restante consignments commit` delivers. A file is identified by its name as given: on several "
        "machines, give each file its own name.",
        rich_help_panel=_AT_ONE_MOMENT,
    ),
]
