"""`restante backplane`: what goes through the backplane, how far it is stored, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from restante.calls.backplane import (
    DeleteRefusedRecord,
    ListRefusedRecords,
    ReadBackplane,
    ReadRefusedRecord,
    RepeatRefusedRecord,
)
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, DryRun, Limit, Yes, carried_out
from restante.cli.shared.output import listed, listing, print_answer, print_found, print_list
from restante.cli.shared.plain import say
from restante.errors import FaultyMessages, InvalidRequest, RestanteError
from restante.model.backplane.backplane_answers import RefusedRecord
from restante.model.figures import clock_time, counted
from restante.model.mailboxes.answers import Receipt

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedPage

app = command_group("backplane")

_PARTITION = typer.Argument(help="The partition of a refused record.", show_default=False)
_POSITION = typer.Argument(help="The position of the record there.", show_default=False)
RecordPartition = Annotated[int, _PARTITION]
RecordPosition = Annotated[int, _POSITION]
_EVERYTHING = 1_000_000


@app.callback()
def backplane() -> None:
    """Show what goes through the backplane (a Kafka topic), and the records that could not be stored.

    \b
    restante backplane show
    restante backplane refused
    restante backplane again 3 41
    restante backplane forget 3 41
    """


@at_hub
def show(*, door: Door, as_json: AsJson = False) -> None:
    """Show how far each partition has stored its log, and what went through since the hub was started.

    \b
    restante backplane show
    restante backplane show --json | jq '.partitions[] | {partition, lag}'
    """
    print_found(door.ask(ReadBackplane()), _print_status, as_json=as_json)


@at_hub
def refused(limit: Limit = 20, *, door: Door, as_json: AsJson = False) -> None:
    """List the records that could not be stored, each with the reason.

    \b
    restante backplane refused
    """
    found = door.listed(ListRefusedRecords(), _records, limit)
    print_list({"records": found}, found, _print_refused, limit, as_json=as_json)


@at_hub
def again(
    partition: Annotated[int | None, _PARTITION] = None,
    position: Annotated[int | None, _POSITION] = None,
    every: Annotated[bool, typer.Option("--all", help="Try all refused records, in their order.")] = False,
    dry_run: DryRun = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Try again to store a record that could not be stored. If it is refused again, it stays.

    \b
    restante backplane again 3 41
    restante backplane again --all --dry-run
    """
    if every == (position is not None) or (partition is None) != (position is None):
        raise typer.BadParameter("Name the partition and the position of a record, or give --all.")
    with closing(door.link()) as link:
        if partition is None or position is None:
            found = listed(link, ListRefusedRecords(), _records, _EVERYTHING)
        else:
            found = [link.call(ReadRefusedRecord(partition, position))]
        outcomes = [_Repeated(own, None if dry_run else _repeated(link, own)) for own in found]
    told = [own.answer() for own in outcomes]
    lines = "\n".join([own.line() for own in outcomes]) or "No record was refused."
    print_answer({"dry_run": dry_run, "records": told}, partial(say, lines, lines=True), as_json=as_json)
    if any(isinstance(own.outcome, RestanteError) for own in outcomes):
        raise typer.Exit(1)


class _Repeated(NamedTuple):
    """A refused record, and what became of it when it was tried again; None: it was not."""

    record: RefusedRecord
    outcome: Receipt | RestanteError | None

    def line(self) -> str:
        if self.outcome is None:
            return f"Would try {_named(self.record)} again."
        if isinstance(self.outcome, RestanteError):
            return f"Refused again: {_named(self.record)}. {self.outcome.message}"
        stored, known = self.outcome.accepted, self.outcome.duplicates
        return f"Stored {_named(self.record)}: {counted(stored, 'message')}, {counted(known, 'duplicate')}."

    def answer(self) -> dict[str, object]:
        place: dict[str, object] = {"partition": self.record.partition, "position": self.record.position}
        if isinstance(self.outcome, RestanteError):
            return place | {"stored": False, "code": self.outcome.code, "reason": self.outcome.message}
        return place | {"stored": self.outcome is not None}


def _repeated(link: Link, record: RefusedRecord) -> Receipt | RestanteError:
    """The answer; that it is refused again is one, too."""
    try:
        return link.call(RepeatRefusedRecord(record.partition, record.position))
    except (FaultyMessages, InvalidRequest) as error:
        return error


@at_hub
def forget(
    partition: RecordPartition,
    position: RecordPosition,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Remove a record that could not be stored, with its messages.

    \b
    restante backplane forget 3 41 --dry-run
    restante backplane forget 3 41 --yes
    """
    with closing(door.link()) as link:
        what = _named(link.call(ReadRefusedRecord(partition, position)))
        remove = partial(link.call, DeleteRefusedRecord(partition, position))
        told = carried_out("Remove", "Removed", what, remove, dry_run=dry_run, yes=yes)
    answer = {"partition": partition, "position": position, "dry_run": dry_run, "deleted": not dry_run}
    print_answer(answer, told, as_json=as_json)


def _named(record: RefusedRecord) -> str:
    messages = counted(record.messages, "message")
    return f"the refused record {record.position} of partition {record.partition} ({messages}, {record.code})"


def _records(page: RefusedPage) -> Sequence[RefusedRecord]:
    return page.records


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


def _print_refused(found: Sequence[RefusedRecord]) -> None:
    rows = [
        (str(own.partition), f"{own.position:,}", clock_time(own.refused_at), str(own.messages), own.reason)
        for own in found
    ]
    names = ("partition", "position", "at", "messages", "reason")
    listing(names, rows, right=("partition", "position", "messages"), nothing="No record was refused.")


_COMMANDS: dict[str, Callable[..., None]] = {"show": show, "refused": refused, "again": again, "forget": forget}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
