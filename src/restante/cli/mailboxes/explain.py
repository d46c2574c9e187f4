"""`restante explain`: why a recipient gets what it gets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from restante.calls.mailboxes import Explain
from restante.cli.shared.exits import NOTHING_THERE
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, OnlyOriginGroups, OnlyOrigins, RecipientName
from restante.cli.shared.output import output, print_answer, table_of
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.surface.surface import Explanation


@at_hub
def explain(
    recipient: RecipientName,
    origin: OnlyOrigins = None,
    group: OnlyOriginGroups = None,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Explain a mailbox: what waits in it, which bundles are open, and why the next peek is empty if it is.

    The exit code is 0 if there is something to collect, and 3 if there is not. Nothing is changed.

    \b
    restante explain alice
    restante explain alice --origin orders
    restante explain alice --json --data ./data
    """
    from restante.model.mailboxes.answers import Reason

    origins, groups = tuple(origin or ()), tuple(group or ())
    if door.data is None:
        with door.open_small() as link:
            found = link.call(Explain(recipient, origins=origins, origin_groups=groups))
    else:
        with door.open() as opened:
            found = opened.recipient(recipient).explain(origins=origins, origin_groups=groups)
    print_answer(found, partial(_print, recipient, found), as_json=as_json)
    raise typer.Exit(0 if found.reason is Reason.READY else NOTHING_THERE)


def _print(recipient: str, found: Explanation) -> None:
    from rich.text import Text

    console = output()
    style = "bold green" if found.reason.value == "ready" else "bold yellow"
    console.print(
        Text.assemble(f"{plain(recipient)}: ", (found.reason.value, style), f". {plain(found.text)}"), soft_wrap=True
    )
    if found.waiting:
        rows = [(w.origin, w.kind, f"{w.messages:,}", clock_time(w.oldest)) for w in found.waiting]
        console.print(table_of(("waiting of origin", "kind", "messages", "oldest"), rows, right=["messages"]))
    if found.open_bundles:
        bundles = [
            (b.bundle_id, b.origin, b.origin_group, f"{b.messages:,}", clock_time(b.opened_at), b.taken_by or "–")
            for b in found.open_bundles
        ]
        headings = ("open bundle", "origin", "group", "messages", "opened at", "taken by")
        console.print(table_of(headings, bundles, right=["messages"], whole=["open bundle"]))
    if found.not_yet_visible:
        console.print(f"{counted(found.not_yet_visible, 'message')} not yet visible.")
