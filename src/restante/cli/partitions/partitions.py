"""`restante partitions`: how much each partition holds, and who publishes there by numbers of its own."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.mailboxes import ListPartitions
from restante.calls.producers import ListProducers
from restante.cli.partitions.partitions_check import check
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Limit
from restante.cli.shared.output import listed, listing, output, print_answer, print_more, table_of
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.surface.surface import PartitionStatus
    from restante.client.transport.link import Link
    from restante.model.mailboxes.answers import ProducerState

app = command_group("partitions", is_command=True)
command_of(app, "check")(check)


@app.callback(invoke_without_command=True)
@at_hub
def partitions(
    context: typer.Context,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show the partitions: the last visible number, waiting messages, and messages not sorted yet.

    \b
    restante partitions                  of the hub on this machine
    restante partitions --data ./data    of a folder that no hub has open
    restante partitions --json
    restante partitions producers        idempotent producers
    restante partitions check --names 'user-{1..100000}' --count 256
    """
    if context.invoked_subcommand is not None:
        return

    with door.open() as opened:
        found = opened.partitions()
    print_answer({"partitions": found}, partial(_print, found), as_json=as_json)


@command_of(app, "producers")
@at_hub
def producers(
    partition: Annotated[
        int | None, typer.Argument(metavar="PARTITION", min=0, help="Only of this partition.", show_default=False)
    ] = None,
    limit: Limit = 1_000,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show the groups of idempotent producers, of one partition or of all.

    For each group: the last number, the time of the last use, how often a parcel was sent again, and how often a
    producer was refused because another producer has taken over.

    \b
    restante partitions producers
    restante partitions producers 7 --json
    """
    with closing(door.link()) as link:
        found = _listed(link, partition, limit)
    where = "" if partition is None else f" in partition {partition}"
    print_answer({"producers": found}, partial(_print_producers, found, limit, where), as_json=as_json)


def _listed(link: Link, partition: int | None, limit: int) -> list[ProducerState]:
    numbers = [status.partition for status in link.call(ListPartitions())] if partition is None else [partition]
    found: list[ProducerState] = []
    for number in numbers:
        found += listed(link, ListProducers(number), lambda page: page.producers, limit - len(found))
    return found


def _print_producers(found: list[ProducerState], limit: int, where: str) -> None:
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
    listing(headings, rows, nothing=f"No producer numbers what it publishes{where}.", right=headings)
    print_more(len(found), limit, "give a partition, or a higher --limit.")


def _print(found: tuple[PartitionStatus, ...]) -> None:
    headings = ("partition", "visible sequence", "waiting", "unfiled")
    rows = [
        (str(status.partition), f"{status.visible_sequence:,}", f"{status.waiting:,}", f"{status.unfiled:,}")
        for status in found
    ]
    console = output()
    console.print(table_of(headings, rows, right=headings))
    waiting = sum(status.waiting for status in found)
    console.print(f"{counted(waiting, 'message')} waiting in {counted(len(found), 'partition')}.")
