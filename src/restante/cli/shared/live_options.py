"""The options of the commands that follow a mailbox live."""

from __future__ import annotations

from typing import Annotated

import typer

_AS_IT_COMES = "As it comes"

CollectLive = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Print messages as they arrive, and confirm nothing, until Ctrl-C.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
After = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="NUMBER",
        help="With --live: begin after this number; 0 begins with all of history. Default: only new messages.",
        show_default=False,
        rich_help_panel=_AS_IT_COMES,
    ),
]
Chat = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Chat: send each typed line to --recipient, and print the messages for --me.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
Me = Annotated[
    str | None,
    typer.Option(metavar="RECIPIENT", help="With --live: your own mailbox.", rich_help_panel=_AS_IT_COMES),
]
