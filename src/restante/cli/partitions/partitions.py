"""`restante partitions`: how much each partition holds, and who publishes there by numbers of its own."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.mailboxes import ListPartitions
from restante.calls.producers import ListProducers
from restante.cli.partitions.partitions_check import check
from restante.cli.shared.exits import EPILOG
from restante.cli.shared.help import Command, HelpGroup
from restante.cli.shared.hub_options import DEFAULT_URL, AsJson, DataFolder, Door, HubUrl, Token
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.client.surface.surface import PartitionStatus
    from restante.client.transport.link import Link
    from restante.model.mailboxes.answers import ProducerState

app = typer.Typer(
    name="partitions", cls=HelpGroup, epilog=EPILOG, rich_markup_mode="rich", pretty_exceptions_enable=False
)
app.command("check", epilog=EPILOG, cls=Command)(check)


@app.callback(invoke_without_command=True)
def partitions(
    context: typer.Context,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show the partitions: the last visible number, what waits, and what is not filed yet.

    \b
    restante partitions                  of the hub on this machine
    restante partitions --data ./data    of a folder that no hub has open
    restante partitions --json
    restante partitions producers        who publishes by numbers?
    restante partitions check --names 'user-{1..100000}' --count 256
    """
    if context.invoked_subcommand is not None:
        return
    from restante.cli.shared.output import print_json

    with Door(hub, token, data).open() as opened:
        found = opened.partitions()
    if as_json:
        print_json({"partitions": found})
    else:
        _print(found)


@app.command("producers", epilog=EPILOG, cls=Command)
def producers(
    partition: Annotated[
        int | None, typer.Argument(metavar="PARTITION", min=0, help="Only of this partition.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")] = 1_000,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show the producer groups that number what they publish, of one partition or of all.

    The last number of each, when it was last used, how often a parcel was sent again, and how often a producer was
    refused because another one has taken over.

    \b
    restante partitions producers
    restante partitions producers 7 --json
    """
    from restante.cli.shared.output import print_json

    with closing(Door(hub, token, data).link()) as link:
        found = _listed(link, partition, limit)
    if as_json:
        print_json({"producers": found})
    else:
        _print_producers(found, limit, "" if partition is None else f" in partition {partition}")


def _listed(link: Link, partition: int | None, limit: int) -> list[ProducerState]:
    numbers = [status.partition for status in link.call(ListPartitions())] if partition is None else [partition]
    found: list[ProducerState] = []
    for number in numbers:
        after: str | None = None
        while len(found) < limit:
            page = link.call(ListProducers(number, limit=limit - len(found), after=after))
            found += page.producers
            if (after := page.next) is None:
                break
    return found


def _print_producers(found: list[ProducerState], limit: int, where: str) -> None:
    from restante.cli.shared.output import output, table_of
    from restante.model.figures import clock_time

    if not found:
        say(f"No producer numbers what it publishes{where}.")
        return
    headings = ("partition", "group", "owner level", "last number", "last activity", "replays", "fenced attempts")
    rows = [
        (
            str(state.partition),
            str(state.producer_group),
            str(state.owner_level),
            "–" if state.last_published_sequence_number is None else str(state.last_published_sequence_number),
            clock_time(state.last_activity_at),
            f"{state.replays:,}",
            f"{state.fenced_attempts:,}",
        )
        for state in found
    ]
    output().print(table_of(headings, rows, right=headings))
    if len(found) == limit:
        say("There may be more: give a partition, or a higher --limit.")


def _print(found: tuple[PartitionStatus, ...]) -> None:
    from restante.cli.shared.output import output, table_of
    from restante.model.figures import counted

    headings = ("partition", "visible sequence", "waiting", "unfiled")
    rows = [
        (str(status.partition), f"{status.visible_sequence:,}", f"{status.waiting:,}", f"{status.unfiled:,}")
        for status in found
    ]
    console = output()
    console.print(table_of(headings, rows, right=headings))
    waiting = sum(status.waiting for status in found)
    console.print(f"{counted(waiting, 'message')} waiting in {counted(len(found), 'partition')}.")
