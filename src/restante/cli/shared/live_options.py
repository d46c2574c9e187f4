"""The options of the commands that follow a mailbox live."""

from __future__ import annotations

from typing import Annotated

import typer

_AS_IT_COMES = "As it comes"

CollectLive = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Print messages as they come, and confirm nothing; Ctrl-C ends it.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
After = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="NUMBER",
        help="With --live: begin behind this number; 0 is with all there is. Default: with what comes.",
        show_default=False,
        rich_help_panel=_AS_IT_COMES,
    ),
]
Chat = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Chat: each line typed is sent to --recipient, and what comes for --me is printed.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
Me = Annotated[
    str | None,
    typer.Option(metavar="RECIPIENT", help="With --live: your own mailbox.", rich_help_panel=_AS_IT_COMES),
]
