"""`restante recipients`: who has mail, and how a mailbox is emptied by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import EPILOG
from restante.cli.shared.help import Command, HelpGroup
from restante.cli.shared.hub_options import DEFAULT_URL, AsJson, DataFolder, Door, HubUrl, Token
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.client.surface.surface import Hub, RecipientSummary

app = typer.Typer(
    name="recipients", cls=HelpGroup, epilog=EPILOG, rich_markup_mode="rich", pretty_exceptions_enable=False
)


class ListOrder(Enum):
    WAITING = "waiting"
    OLDEST = "oldest"


Name = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Whose mailbox.", show_default=False)]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many messages it would be.")]
Sure = Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")]


@app.callback(invoke_without_command=True)
def recipients(
    context: typer.Context,
    order: Annotated[ListOrder, typer.Option(help="Most waiting first, or longest waiting first.")] = ListOrder.WAITING,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")] = 20,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """List the recipients that have waiting messages; at most 5 seconds old.

    \b
    restante recipients                          the 20 with most mail
    restante recipients --order oldest --limit 100
    restante recipients purge alice --dry-run    how many would go?
    """
    if context.invoked_subcommand is not None:
        return
    from restante.cli.shared.output import print_json

    with Door(hub, token, data).open() as opened:
        found = _listed(opened, order, limit)
    if as_json:
        print_json({"recipients": found})
    else:
        _print(found)


@app.command("purge", epilog=EPILOG, cls=Command)
def purge(
    recipient: Name,
    *,
    origin: Annotated[str | None, typer.Option(help="Only messages of this origin.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only messages of this kind.")] = None,
    before: Annotated[
        datetime | None, typer.Option(help="Only those published before this time, in UTC.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All messages, whatever their origin, kind and time.")
    ] = False,
    dry_run: DryRun = False,
    yes: Sure = False,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw what waits for a recipient or is set aside. What is in an open bundle stays.

    \b
    restante recipients purge alice --dry-run
    restante recipients purge alice --kind invoice
    restante recipients purge alice --before 2030-01-31T12:00:00
    restante recipients purge alice --all --yes       without being asked
    """
    from restante.model.figures import counted

    filtered = any(given is not None for given in (origin, kind, before))
    if not (dry_run or everything or filtered):
        raise typer.BadParameter("Say what to purge: --origin, --kind or --before; or --all, for everything.")
    until = None if before is None else (before if before.tzinfo else before.replace(tzinfo=UTC))
    with Door(hub, token, data).open() as opened:
        box = opened.recipient(recipient)
        count = box.purge(origin=origin, kind=kind, before=until, all=everything, dry_run=True)
        if not dry_run and _meant(f"Withdraw {counted(count, 'message')} of {recipient}?", yes=yes):
            count = box.purge(origin=origin, kind=kind, before=until, all=everything)
    _print_count("withdrawn", recipient, count, dry_run=dry_run, as_json=as_json)


@app.command("erase", epilog=EPILOG, cls=Command)
def erase(
    recipient: Name,
    dry_run: DryRun = False,
    yes: Sure = False,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Erase all messages of a recipient for good: those that wait, and its history too.

    \b
    restante recipients erase alice --dry-run    how many would go?
    restante recipients erase alice
    """
    from restante.model.figures import counted

    with Door(hub, token, data).open() as opened:
        box = opened.recipient(recipient)
        count = box.erase(dry_run=True)
        if not dry_run and _meant(f"Erase {counted(count, 'message')} of {recipient} for good?", yes=yes):
            count = box.erase()
    _print_count("erased", recipient, count, dry_run=dry_run, as_json=as_json)


@app.command("withdraw", epilog=EPILOG, cls=Command)
def withdraw(
    recipient: Name,
    message: MessageId,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look whether it still waits.")] = False,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take one message back before it is collected.

    \b
    restante recipients withdraw alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with Door(hub, token, data).open() as opened:
        if dry_run:
            count = _still_waits(opened, recipient, message)
        else:
            opened.recipient(recipient).withdraw(message)
            count = 1
    _print_count("withdrawn", recipient, count, dry_run=dry_run, as_json=as_json)


@app.command("set-aside", epilog=EPILOG, cls=Command)
def set_aside(
    recipient: Name,
    message: MessageId,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Keep one message from being delivered, until it is released or withdrawn.

    \b
    restante recipients set-aside alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with Door(hub, token, data).open() as opened:
        opened.recipient(recipient).set_aside(message)
    _print_count("set aside", recipient, 1, dry_run=False, as_json=as_json)


@app.command("release", epilog=EPILOG, cls=Command)
def release(
    recipient: Name,
    message: MessageId,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Let a message that was set aside be delivered again: in its old place, or at the end if that is past.

    \b
    restante recipients release alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with Door(hub, token, data).open() as opened:
        opened.recipient(recipient).release(message)
    _print_count("released", recipient, 1, dry_run=False, as_json=as_json)


def _still_waits(hub: Hub, recipient: str, message: str) -> int:
    from restante.model.publishing.message import State

    return int(hub.recipient(recipient).find(message).state in (State.WAITING, State.SET_ASIDE))


def _meant(question: str, *, yes: bool) -> bool:
    """Asks, unless it was said; no is the end of the command."""
    return yes or typer.confirm(question, abort=True, err=True)


def _listed(hub: Hub, order: ListOrder, limit: int) -> list[RecipientSummary]:
    found: list[RecipientSummary] = []
    after: str | None = None
    while len(found) < limit:
        page = hub.recipients(order=order.value, limit=limit - len(found), after=after)
        found += page.recipients
        if page.next is None:
            break
        after = page.next
    return found


def _print(found: list[RecipientSummary]) -> None:
    from restante.cli.shared.output import output, table_of
    from restante.model.figures import clock_time

    headings = ("recipient", "waiting", "oldest", "partition")
    rows = [(one.recipient, f"{one.waiting:,}", clock_time(one.oldest), str(one.partition)) for one in found]
    console = output()
    if rows:
        console.print(table_of(headings, rows, right=["waiting", "partition"]))
    else:
        console.print("Nobody has waiting messages.")


def _print_count(what: str, recipient: str, count: int, *, dry_run: bool, as_json: bool) -> None:
    from restante.cli.shared.output import print_json
    from restante.model.figures import counted

    if as_json:
        print_json({"recipient": recipient, "messages": count, "dry_run": dry_run})
    else:
        say(f"{counted(count, 'message')} of {recipient} {'would be ' if dry_run else ''}{what}.")
