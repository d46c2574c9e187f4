"""`restante collect --live`: messages are printed as they come, and nothing is confirmed."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from restante.cli.shared.live_lines import StateTeller, printer
from restante.cli.shared.plain import say
from restante.model.figures import counted

if TYPE_CHECKING:
    from restante.client.surface.surface import Recipient


def check_alone(**others: object) -> None:
    """Refuse options about bundles and files, which do not go together with it."""
    for option, given in others.items():
        if given:
            name = f"--{option.replace('_', '-')}"
            raise typer.BadParameter(
                "--live shows single messages, not bundles: leave this option out.", param_hint=name
            )


def collect_live(recipient: Recipient, *, after: int | None, text: bool, as_json: bool) -> None:
    """Print messages as they come, until Ctrl-C; then say where it was."""
    show, shown = printer(text=text, as_json=as_json), 0
    position: int | None = None
    with recipient.live(after=after, on_state=StateTeller()) as live:
        with suppress(KeyboardInterrupt):
            for message in live:
                number = message.sequence_number or 0
                position = number - 1  # as long as it is not printed
                show(message)
                position, shown = number, shown + 1
        position = live.position if position is None else position
    where = "" if position is None else f" To go on: restante collect {recipient.name} --live --after {position}"
    say(f"{counted(shown, 'message')} shown.{where}", file=sys.stderr)
