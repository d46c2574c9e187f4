"""`restante poison`: actions that could not be done, and what an operator decides about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, DryRun, Limit, Yes, is_meant
from restante.cli.shared.output import listing, preview, print_answer, print_found, print_list
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.actions.action_answers import PoisonedAction

app = command_group("poison")

_PREVIEW_CHARACTERS = 2_000
PoisonGroup = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group that could not do them.", show_default=False)
]
ActionIds = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="The ids of actions.", show_default=False)
]
Concerns = Annotated[
    str | None, typer.Option(metavar="THING", help="Only actions that concern this thing.", show_default=False)
]
Action = Annotated[str | None, typer.Option(metavar="NAME", help="Only actions of this name.", show_default=False)]
Code = Annotated[
    str | None, typer.Option(metavar="CODE", help="Only actions whose problem has this code.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="All poisoned actions of the group.")]


@app.callback()
def poison() -> None:
    """Show the actions that workers could not do; have them done again, or give them up.

    \b
    restante poison list catalog
    restante poison show catalog 0192f0c1-7a5e-7c3b-9c2e-4a1f0c9d8e7f
    restante poison again catalog --code retries_exhausted --dry-run
    restante poison give-up catalog 0192f0c1-7a5e-7c3b-9c2e-4a1f0c9d8e7f
    """


@at_hub
def list_(
    group: PoisonGroup,
    action: Action = None,
    code: Code = None,
    concerns: Concerns = None,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """List the actions that a group could not do: the action, the thing, and why.

    \b
    restante poison list catalog
    restante poison list catalog --action add_comment --json | jq '.poison[].id'
    """
    with closing(door.link()) as link:
        found = _first(_chosen(link, group, action=action, code=code, concerns=concerns), limit)
    print_list({"poison": found}, found, _print_list, limit, as_json=as_json)


@at_hub
def show(
    group: PoisonGroup,
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The id of an action.", show_default=False)],
    concerns: Concerns = None,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show one action that could not be done: its data, its problem, and how often it was tried.

    \b
    restante poison show catalog 0192f0c1-7a5e-7c3b-9c2e-4a1f0c9d8e7f
    """
    with closing(door.link()) as link:
        (found,) = _named(link, group, [action_id], concerns)
    print_found(found, _print_one, as_json=as_json)


class _Options:
    """Which poison is meant."""

    def __init__(
        self, ids: list[str] | None, action: str | None, code: str | None, concerns: str | None, everything: bool
    ) -> None:
        self.ids = ids or []
        self.action = action
        self.code = code
        self.concerns = concerns
        if not (self.ids or action or code or concerns or everything):
            raise typer.BadParameter("Say which: ids, --action, --code, --concerns, or --all.")


def _decision(
    question: str, told: str, kind: type[RepeatPoison] | type[GiveUpPoison], text: str
) -> Callable[..., None]:
    """The command that does one thing with each of the actions that are meant."""

    def decide(
        group: PoisonGroup,
        ids: ActionIds = None,
        action: Action = None,
        code: Code = None,
        concerns: Concerns = None,
        everything: All = False,
        dry_run: DryRun = False,
        yes: Yes = False,
        *,
        door: Door,
        as_json: AsJson = False,
    ) -> None:
        options = _Options(ids, action, code, concerns, everything)
        with closing(door.link()) as link:
            found = list(_meant(link, group, options))
            what = f"{counted(len(found), 'action')} of {group}"
            if not dry_run and found and (len(found) == 1 or is_meant(f"{question} {what}?", yes=yes)):
                for each in found:
                    link.call(kind(group, each.id, each.concerns))
        line = f"{'Would be ' + told.lower() if dry_run else told}: {what}."
        chosen = [each.id for each in found]
        print_answer({"group": group, "dry_run": dry_run, "actions": chosen}, line, as_json=as_json)

    decide.__doc__ = text
    return at_hub(decide)


again = _decision(
    "Do again",
    "Done again",
    RepeatPoison,
    """Have poisoned actions done again: after the actions that wait now, with a fresh count of attempts.

    \b
    restante poison again catalog 0192f0c1-7a5e-7c3b-9c2e-4a1f0c9d8e7f
    restante poison again catalog --code retries_exhausted --dry-run
    restante poison again catalog --all --yes
    """,
)
give_up = _decision(
    "Give up",
    "Given up",
    GiveUpPoison,
    """Give up poisoned actions: they count as failed, and are not tried again.

    \b
    restante poison give-up catalog 0192f0c1-7a5e-7c3b-9c2e-4a1f0c9d8e7f
    restante poison give-up catalog --action add_comment --dry-run
    """,
)


def _meant(link: Link, group: str, options: _Options) -> Iterator[PoisonedAction]:
    if options.ids:
        return iter(_named(link, group, options.ids, options.concerns))
    return _chosen(link, group, action=options.action, code=options.code, concerns=options.concerns)


def _all(link: Link, group: str) -> Iterator[PoisonedAction]:
    from restante.limits import PAGE_MAX

    after: str | None = None
    while True:
        page = link.call(ListPoison(group, limit=PAGE_MAX, after=after))
        yield from page.poison
        after = page.next
        if after is None:
            return


def _chosen(
    link: Link, group: str, *, action: str | None, code: str | None, concerns: str | None
) -> Iterator[PoisonedAction]:
    for each in _all(link, group):
        pairs = ((action, each.action), (code, each.problem.code), (concerns, each.concerns))
        if all(wanted is None or wanted == own for wanted, own in pairs):
            yield each


def _named(link: Link, group: str, ids: Sequence[str], concerns: str | None) -> list[PoisonedAction]:
    from restante.errors import ActionUnknown

    wanted = {each.lower() for each in ids} | set(ids)
    found = [each for each in _chosen(link, group, action=None, code=None, concerns=concerns) if each.id in wanted]
    known = {each.id for each in found}
    for each in ids:
        if each not in known and each.lower() not in known:
            raise ActionUnknown(f"No poison of {group} has the id {each!r}.", id=each)
    return found


def _first(found: Iterator[PoisonedAction], limit: int) -> list[PoisonedAction]:
    return [each for _, each in zip(range(limit), found, strict=False)]


def _print_list(found: Sequence[PoisonedAction]) -> None:
    rows = [
        (
            each.id,
            each.action,
            each.concerns,
            each.problem.code,
            str(each.attempts),
            str(each.deaths),
            clock_time(each.at),
        )
        for each in found
    ]
    headings = ("id", "action", "concerns", "problem", "attempts", "deaths", "at")
    listing(
        headings,
        rows,
        right=("attempts", "deaths"),
        whole=("id",),
        spare=("deaths", "at"),
        nothing="There is no poison.",
    )


def _print_one(found: PoisonedAction) -> None:
    say(f"{found.action} {found.id}, which concerns {found.concerns}, of the origin {found.origin}.")
    say(
        f"Sequence number {found.sequence_number} of partition {found.partition}, accepted {clock_time(found.published_at)}."
    )
    tried = counted(found.attempts, "attempt")
    say(
        f"Poison since {clock_time(found.at)}, after {tried} and {counted(found.deaths, 'death')}; reported by {found.member or 'nobody known'}."
    )
    say(f"Problem: {found.problem.code}")
    if found.problem.detail:
        say(found.problem.detail, lines=True)
    for name, value in sorted(found.properties.items()):
        say(f"Property {name}: {value}")
    say(f"Data, {found.media_type}: {preview(_data_of(found), _PREVIEW_CHARACTERS)}")


def _data_of(found: PoisonedAction) -> bytes:
    import base64

    import msgspec

    if found.data is not msgspec.UNSET:
        return bytes(found.data)
    if found.text is not msgspec.UNSET:
        return found.text.encode()
    return b"" if found.data_base64 is msgspec.UNSET else base64.b64decode(found.data_base64)


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "show": show, "again": again, "give-up": give_up}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
