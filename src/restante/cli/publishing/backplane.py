"""`restante backplane`: what goes through the backplane, how far it is stored, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.backplane import DeleteRefusedRecord, ListRefusedRecords, ReadBackplane
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.lists import gathered, print_more
from restante.cli.shared.options import AsJson, Limit, Yes, is_meant
from restante.cli.shared.output import listing, print_answer
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedRecord

app = command_group("backplane")

Partition = Annotated[int, typer.Argument(help="The partition of a refused record.", show_default=False)]
Position = Annotated[int, typer.Argument(help="The position of the record there.", show_default=False)]


@app.callback()
def backplane() -> None:
    """Show what goes through the backplane (a Kafka topic), and the records that could not be stored.

    \b
    restante backplane show
    restante backplane refused
    restante backplane forget 3 41
    """


@at_hub
def show(*, door: Door, as_json: AsJson = False) -> None:
    """Show how far each partition has stored its log, and what went through since the hub was started.

    \b
    restante backplane show
    restante backplane show --json | jq '.partitions[] | {partition, lag}'
    """
    with closing(door.link()) as link:
        found = link.call(ReadBackplane())
    print_answer(found, partial(_print_status, found), as_json=as_json)


@at_hub
def refused(limit: Limit = 20, *, door: Door, as_json: AsJson = False) -> None:
    """List the records that could not be stored, each with the reason.

    \b
    restante backplane refused
    """
    with closing(door.link()) as link:
        found = _listed(link, limit)
    print_answer({"records": found}, partial(_print_refused, found, limit), as_json=as_json)


@at_hub
def forget(partition: Partition, position: Position, yes: Yes = False, *, door: Door, as_json: AsJson = False) -> None:
    """Remove a record that could not be stored, with its messages.

    \b
    restante backplane forget 3 41 --yes
    """
    what = f"the refused record {position} of partition {partition}"
    with closing(door.link()) as link:
        if is_meant(f"Remove {what}?", yes=yes):
            link.call(DeleteRefusedRecord(partition, position))
    print_answer({"partition": partition, "position": position, "deleted": True}, f"Removed {what}.", as_json=as_json)


def _listed(link: Link, limit: int) -> list[RefusedRecord]:
    def read(count: int, after: str | None) -> tuple[Sequence[RefusedRecord], str | None]:
        page = link.call(ListRefusedRecords(limit=count, after=after))
        return page.records, page.next

    return gathered(read, limit)


def _print_status(found: BackplaneStatus) -> None:
    if found.topic is None:
        say("This hub has no backplane. Set backplane.topic to a topic of Kafka.")
        return
    say(f"The topic {found.topic}: " + ("it is read and stored." if found.failure is None else found.failure))
    say(
        f"Since the hub was started: {counted(found.records, 'record')} read, {counted(found.messages, 'message')} stored, "
        f"{found.refused} refused, {found.lost} lost, {found.missed} missed; {found.waiting} waiting."
    )
    rows = [(str(own.partition), _number(own.position), _number(own.lag)) for own in found.partitions]
    listing(("partition", "stored up to", "lag"), rows, right=("partition", "stored up to", "lag"))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _print_refused(found: Sequence[RefusedRecord], limit: int) -> None:
    rows = [
        (str(own.partition), f"{own.position:,}", clock_time(own.refused_at), str(own.messages), own.reason)
        for own in found
    ]
    names = ("partition", "position", "at", "messages", "reason")
    listing(names, rows, right=("partition", "position", "messages"), nothing="No record was refused.")
    print_more(len(found), limit)


_COMMANDS: dict[str, Callable[..., None]] = {"show": show, "refused": refused, "forget": forget}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
