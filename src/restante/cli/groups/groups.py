"""`restante groups`: readers that share the feed, how far they are, and what an operator does about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.groups import DeleteGroup, ListGroups, PauseGroup, ReadGroup, ResetPosition, ResumeGroup
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, DryRun, Limit, Yes, carried_out
from restante.cli.shared.output import listing, output, print_answer, print_found, print_list, table_of
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from datetime import datetime

    from restante.model.groups.group import Start
    from restante.model.groups.group_answers import Checkpointed, GroupPartition, GroupStatus

app = command_group("groups")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The name of a group.", show_default=False)]


@app.callback()
def groups() -> None:
    """See consumer groups: readers that share the feed, with their positions, lag and members; reset, pause, delete.

    \b
    restante groups list
    restante groups show billing
    restante groups reset billing --to 2026-11-17T00:00:00Z
    restante groups pause billing
    restante groups delete billing
    """


@at_hub
def list_(limit: Limit = 20, *, door: Door, as_json: AsJson = False) -> None:
    """List groups by name: what they read, how many members they have, and their lag.

    \b
    restante groups list
    restante groups list --json | jq '.groups[] | {group, lag}'
    """
    found = door.listed(ListGroups(), lambda page: page.groups, limit)
    print_list({"groups": found}, found, _print_list, limit, as_json=as_json)


@at_hub
def show(group: GroupName, *, door: Door, as_json: AsJson = False) -> None:
    """Show a group: its filter, its members, and for each partition position, lag and holder.

    \b
    restante groups show billing
    restante groups show billing --json | jq .partitions
    """
    print_found(door.ask(ReadGroup(group)), _print_group, as_json=as_json)


@at_hub
def reset(
    group: GroupName,
    to: Annotated[
        str, typer.Option(metavar="PLACE", help='A number, "beginning", "end", or a time such as 2026-11-17T00:00:00Z.')
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", help="Only this partition; may be given more than once. Default: all."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Move the position of a group: it reads again from there, or skips what lies before it.

    The members keep their partitions, under new generations. A number counts in one partition: give --partition too.

    \b
    restante groups reset billing --to beginning
    restante groups reset billing --to 2026-11-17T00:00:00Z --dry-run
    restante groups reset billing --partition 7 --to 1200 --yes
    """
    place = _place_of(to)
    if isinstance(place, int) and len(partition or ()) != 1:
        raise typer.BadParameter("A number is a place in one partition: name it.", param_hint="--partition")
    with closing(door.link()) as link:
        found = link.call(ReadGroup(group))
        chosen = sorted(set(partition)) if partition else [own.partition for own in found.partitions]
        what = f"{counted(len(chosen), 'position')} of {group} to {to}"
        moved: list[Checkpointed] = []
        resets = (link.call(ResetPosition(group, own, place)) for own in chosen)
        told = carried_out("Reset", "Reset", what, partial(moved.extend, resets), dry_run=dry_run, yes=yes)
    print_answer({"group": group, "dry_run": dry_run, "positions": moved}, told, as_json=as_json)


@at_hub
def pause(group: GroupName, *, door: Door, as_json: AsJson = False) -> None:
    """Pause a group: its members keep what they have, and get nothing until it is resumed.

    \b
    restante groups pause billing
    """
    door.ask(PauseGroup(group))
    print_answer({"group": group, "paused": True}, f"{group} is paused.", as_json=as_json)


@at_hub
def resume(group: GroupName, *, door: Door, as_json: AsJson = False) -> None:
    """Resume a group that was paused.

    \b
    restante groups resume billing
    """
    door.ask(ResumeGroup(group))
    print_answer({"group": group, "paused": False}, f"{group} goes on.", as_json=as_json)


@at_hub
def delete(group: GroupName, dry_run: DryRun = False, yes: Yes = False, *, door: Door, as_json: AsJson = False) -> None:
    """Delete a group and its positions. A group that is made again under this name begins as a new one.

    \b
    restante groups delete billing --dry-run
    restante groups delete billing --yes
    """
    with closing(door.link()) as link:
        found = link.call(ReadGroup(group))
        what = f"{group}, which has {counted(len(found.members), 'member')} and a lag of {found.lag:,}"
        delete = partial(link.call, DeleteGroup(group))
        told = carried_out("Delete", "Deleted", what, delete, dry_run=dry_run, yes=yes)
    print_answer({"group": group, "dry_run": dry_run, "deleted": not dry_run}, told, as_json=as_json)


def _place_of(text: str) -> int | datetime | Start:
    from restante.model.groups.group import reset_place

    if re.fullmatch(r"\d{1,18}", text):
        return int(text)
    return reset_place(_time_of(text) or text)


def _time_of(text: str) -> datetime | None:
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _print_list(found: Sequence[GroupStatus]) -> None:
    rows = [
        (own.group, _state(own), _names(own.origins), _names(own.kinds), str(len(own.members)), f"{own.lag:,}")
        for own in found
    ]
    listing(("group", "state", "origins", "kinds", "members", "lag"), rows, nothing="There are no groups.")


def _state(own: GroupStatus) -> str:
    return "paused" if own.paused else "reading" if own.members else "no members"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "all"


def _print_group(found: GroupStatus) -> None:
    say(f"{found.group}: {_state(found)}, lag {found.lag:,}.")
    say(f"It reads origins {_names(found.origins)}, kinds {_names(found.kinds)}; gone: {found.gone.value}.")
    if found.actions:
        say(f"Its actions: {', '.join(found.actions)}.")
    for member in found.members:
        own = ", ".join(str(partition) for partition in member.partitions) or "none"
        say(f"Member {member.member}, heard {clock_time(member.heartbeat_at)}, partitions {own}.")
    names = {member.member_id: member.member for member in found.members}
    columns = ("partition", "position", "end", "lag", "oldest unread", "member", "generation")
    output().print(table_of(columns, [_row(own, names) for own in found.partitions]))


def _row(own: GroupPartition, names: dict[str, str]) -> tuple[str, ...]:
    return (
        str(own.partition),
        f"{own.position:,}",
        f"{own.end:,}",
        f"{own.lag:,}",
        "" if own.oldest_unread_at is None else clock_time(own.oldest_unread_at),
        "nobody" if own.member_id is None else names.get(own.member_id, own.member_id),
        str(own.generation),
    )


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "reset": reset,
    "pause": pause,
    "resume": resume,
    "delete": delete,
}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
