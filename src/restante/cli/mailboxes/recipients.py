"""`restante recipients`: who has mail, and how a mailbox is emptied by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Limit, RecipientName, Yes, is_meant
from restante.cli.shared.output import gathered, listing, print_answer
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.surface.surface import Hub, RecipientSummary

app = command_group("recipients", is_command=True)


class ListOrder(Enum):
    WAITING = "waiting"
    OLDEST = "oldest"


MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]
CountOnly = Annotated[bool, typer.Option("--dry-run", help="Only count the messages; change nothing.")]


@app.callback(invoke_without_command=True)
@at_hub
def recipients(
    context: typer.Context,
    order: Annotated[ListOrder, typer.Option(help="Most waiting first, or longest waiting first.")] = ListOrder.WAITING,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """List the recipients that have waiting messages. The list is at most 5 seconds old.

    \b
    restante recipients                          the 20 with most waiting
    restante recipients --order oldest --limit 100
    restante recipients purge alice --dry-run    how many would go?
    """
    if context.invoked_subcommand is not None:
        return

    with door.open() as opened:
        found = _listed(opened, order, limit)
    print_answer({"recipients": found}, partial(_print, found), as_json=as_json)


@command_of(app, "purge")
@at_hub
def purge(
    recipient: RecipientName,
    *,
    origin: Annotated[str | None, typer.Option(help="Only messages of this origin.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only messages of this kind.")] = None,
    before: Annotated[
        datetime | None, typer.Option(help="Only messages published before this time, in UTC.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All messages, whatever their origin, kind and time.")
    ] = False,
    dry_run: CountOnly = False,
    yes: Yes = False,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Withdraw the messages of a recipient that wait or are set aside. Messages in an open bundle stay.

    \b
    restante recipients purge alice --dry-run
    restante recipients purge alice --kind invoice
    restante recipients purge alice --before 2030-01-31T12:00:00
    restante recipients purge alice --all --yes       without a question
    """
    filtered = any(given is not None for given in (origin, kind, before))
    if not (dry_run or everything or filtered):
        raise typer.BadParameter("Say what to purge: --origin, --kind or --before; or --all, for everything.")
    until = None if before is None else (before if before.tzinfo else before.replace(tzinfo=UTC))
    with door.open() as opened:
        box = opened.recipient(recipient)
        count = box.purge(origin=origin, kind=kind, before=until, all=everything, dry_run=True)
        if not dry_run and is_meant(f"Withdraw {counted(count, 'message')} of {recipient}?", yes=yes):
            count = box.purge(origin=origin, kind=kind, before=until, all=everything)
    _print_count("withdrawn", recipient, count, dry_run=dry_run, as_json=as_json)


@command_of(app, "erase")
@at_hub
def erase(
    recipient: RecipientName,
    dry_run: CountOnly = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Erase all messages of a recipient for good, waiting messages and history.

    \b
    restante recipients erase alice --dry-run    how many would go?
    restante recipients erase alice
    """
    with door.open() as opened:
        box = opened.recipient(recipient)
        count = box.erase(dry_run=True)
        if not dry_run and is_meant(f"Erase {counted(count, 'message')} of {recipient} for good?", yes=yes):
            count = box.erase()
    _print_count("erased", recipient, count, dry_run=dry_run, as_json=as_json)


@command_of(app, "withdraw")
@at_hub
def withdraw(
    recipient: RecipientName,
    message: MessageId,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether the message still waits.")] = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Take one message back before it is collected.

    \b
    restante recipients withdraw alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with door.open() as opened:
        if dry_run:
            count = _still_waits(opened, recipient, message)
        else:
            opened.recipient(recipient).withdraw(message)
            count = 1
    _print_count("withdrawn", recipient, count, dry_run=dry_run, as_json=as_json)


@command_of(app, "set-aside")
@at_hub
def set_aside(
    recipient: RecipientName,
    message: MessageId,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Keep one message from being delivered, until it is released or withdrawn.

    \b
    restante recipients set-aside alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with door.open() as opened:
        opened.recipient(recipient).set_aside(message)
    _print_count("set aside", recipient, 1, dry_run=False, as_json=as_json)


@command_of(app, "release")
@at_hub
def release(
    recipient: RecipientName,
    message: MessageId,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Release a message that was set aside: in its old place, or at the end if later messages were collected.

    \b
    restante recipients release alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    with door.open() as opened:
        opened.recipient(recipient).release(message)
    _print_count("released", recipient, 1, dry_run=False, as_json=as_json)


def _still_waits(hub: Hub, recipient: str, message: str) -> int:
    from restante.model.publishing.message import State

    return int(hub.recipient(recipient).find(message).state in (State.WAITING, State.SET_ASIDE))


def _listed(hub: Hub, order: ListOrder, limit: int) -> list[RecipientSummary]:
    def read(count: int, after: str | None) -> tuple[Sequence[RecipientSummary], str | None]:
        page = hub.recipients(order=order.value, limit=count, after=after)
        return page.recipients, page.next

    return gathered(read, limit)


def _print(found: list[RecipientSummary]) -> None:
    headings = ("recipient", "waiting", "oldest", "partition")
    rows = [(one.recipient, f"{one.waiting:,}", clock_time(one.oldest), str(one.partition)) for one in found]
    listing(headings, rows, nothing="Nobody has waiting messages.", right=["waiting", "partition"])


def _print_count(what: str, recipient: str, count: int, *, dry_run: bool, as_json: bool) -> None:
    told = f"{counted(count, 'message')} of {recipient} {'would be ' if dry_run else ''}{what}."
    print_answer({"recipient": recipient, "messages": count, "dry_run": dry_run}, told, as_json=as_json)
