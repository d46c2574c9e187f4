"""`restante sources`: how far logs elsewhere are stored, and what an operator does about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.producers import DeleteSource, ListSources, ReadSource, ResetSource
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, DryRun, Limit, Yes, carried_out, is_meant
from restante.cli.shared.output import listing, print_answer, print_found, print_list
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.model.sources.source_answers import SourceStatus

app = command_group("sources")

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="The name of a source.", show_default=False)]
_BEGINNING = "beginning"


@app.callback()
def sources() -> None:
    """Show how far each source (such as a Kafka topic) is stored; set a source back, or forget it.

    \b
    restante sources list
    restante sources show orders/3
    restante sources reset orders/3 --to 1200
    restante sources delete orders/3
    """


@at_hub
def list_(limit: Limit = 20, *, door: Door, as_json: AsJson = False) -> None:
    """List the sources by name, with the last stored position and the number of messages.

    \b
    restante sources list
    restante sources list --json | jq '.sources[] | {source, position}'
    """
    found = door.listed(ListSources(), lambda page: page.sources, limit)
    print_list({"sources": found}, found, _print_list, limit, as_json=as_json)


@at_hub
def show(source: SourceName, *, door: Door, as_json: AsJson = False) -> None:
    """Show a source: for each partition the last stored position, the number of messages, and when.

    \b
    restante sources show orders/3
    """
    print_found(door.ask(ReadSource(source)), _print_source, as_json=as_json)


@at_hub
def reset(
    source: SourceName,
    to: Annotated[str, typer.Option(metavar="PLACE", help='A position, or "beginning".')],
    partition: Annotated[int | None, typer.Option(help="Only in this partition. Default: in all.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Set a source back to a position: later messages are stored when they are sent again. Stored messages stay.

    \b
    restante sources reset orders/3 --to 1200
    restante sources reset orders/3 --to beginning --dry-run
    """
    position = _position_of(to)
    with closing(door.link()) as link:
        found = link.call(ReadSource(source))
        what = f"{source}, which is stored up to {_shown(found.position)}, to {to}"
        if not dry_run and is_meant(f"Reset {what}?", yes=yes):
            found = link.call(ResetSource(source, position, partition))
    print_answer(found, f"{'Would reset' if dry_run else 'Reset'} {what}.", as_json=as_json)


@at_hub
def delete(
    source: SourceName, dry_run: DryRun = False, yes: Yes = False, *, door: Door, as_json: AsJson = False
) -> None:
    """Forget a source that is gone for good. Its messages stay.

    \b
    restante sources delete orders/3 --dry-run
    restante sources delete orders/3 --yes
    """
    with closing(door.link()) as link:
        found = link.call(ReadSource(source))
        what = f"{source}, of which {counted(found.messages, 'message')} were stored"
        forget = partial(link.call, DeleteSource(source))
        told = carried_out("Delete", "Deleted", what, forget, dry_run=dry_run, yes=yes)
    print_answer({"source": source, "dry_run": dry_run, "deleted": not dry_run}, told, as_json=as_json)


def _position_of(text: str) -> int:
    from restante.model.sources.source import NO_POSITION

    if text == _BEGINNING:
        return NO_POSITION
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise typer.BadParameter(f'A position, or "{_BEGINNING}", not {text!r}.', param_hint="--to")
    return int(text)


def _shown(position: int | None) -> str:
    return "nothing" if position is None else f"{position:,}"


def _print_list(found: Sequence[SourceStatus]) -> None:
    rows = [(own.source, _shown(own.position), f"{own.messages:,}") for own in found]
    listing(
        ("source", "stored up to", "messages"),
        rows,
        right=("stored up to", "messages"),
        nothing="There are no sources.",
    )


def _print_source(found: SourceStatus) -> None:
    rows = [
        (str(own.partition), _shown(own.position), f"{own.messages:,}", clock_time(own.stored_at))
        for own in found.positions
    ]
    listing(("partition", "stored up to", "messages", "at"), rows, right=("partition", "stored up to", "messages"))


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "show": show, "reset": reset, "delete": delete}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
