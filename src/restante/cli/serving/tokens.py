"""`restante tokens`: who may use a served hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.options import AsJson, HubFolder
from restante.cli.shared.output import listing, print_answer
from restante.cli.shared.plain import say
from restante.model.access.access import Role
from restante.model.figures import clock_time

if TYPE_CHECKING:
    from restante.server.access.tokens import Token, TokenFile

app = command_group("tokens")

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS_MAX = 36_500

GroupNames = Annotated[list[str] | None, typer.Option("--group", help="A group that a worker may be a member of.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="The worker may be a member of every group.")]


@app.callback()
def tokens() -> None:
    """Make, list and revoke the tokens that a served hub asks for.

    \b
    restante tokens create --role operator
    restante tokens create --role publisher --origin billing --expires 90d
    restante tokens list
    restante tokens revoke k3m9x2ab
    """


@command_of(app, "create")
def create(
    role: Annotated[
        list[Role],
        typer.Option(
            "--role",
            metavar="ROLE",
            help="publisher, recipient, reader, worker or operator; may be given more than once.",
            show_default=False,
        ),
    ],
    *,
    origin: Annotated[
        list[str] | None, typer.Option("--origin", help="An origin that a publisher may send for. Default: all.")
    ] = None,
    recipient: Annotated[
        list[str] | None,
        typer.Option("--recipient", help="A recipient whose messages may be collected with the token."),
    ] = None,
    all_recipients: Annotated[
        bool, typer.Option("--all-recipients", help="Messages of every recipient may be collected with the token.")
    ] = False,
    group: GroupNames = None,
    all_groups: AllGroups = False,
    expires: Annotated[
        str | None,
        typer.Option(metavar="30d", help="The time until the token expires: 90m, 12h, 30d, 4w. Default: never."),
    ] = None,
    note: Annotated[str, typer.Option(help="A note about its purpose.")] = "",
    data: HubFolder = Path("data"),
    new: Annotated[bool, typer.Option("--new", help="Make the data folder of a hub that was never started.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before making the first token.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a token and show it once: only its hash is kept. A running hub accepts the token within a second.

    The first token of a running open hub shuts out every program without a token, so the command asks first.

    \b
    restante tokens create --role operator --note "night shift"
    restante tokens create --role publisher --origin billing --expires 90d
    restante tokens create --role recipient --recipient alice
    restante tokens create --role recipient --all-recipients --json
    restante tokens create --role worker --group billing
    restante tokens create --role operator --data /srv/mail --new
    """
    from restante.server.access.tokens import id_of

    _check_scope(role, origin, recipient, everyone=all_recipients)
    _check_groups(role, group, every=all_groups)
    now = datetime.now(UTC)
    lifetime = None if expires is None else _period(expires)
    file = _tokens_for(data, new=new)
    if not yes:
        _ask_before_the_first(file, data)
    secret = file.create(
        roles=role,
        origins=origin or None,
        recipients=recipient or None,
        groups=group or None,
        note=note,
        expires_at=None if lifetime is None else now + lifetime,
        now=now,
    )
    (made,) = (token for token in file.listed() if token.id == id_of(secret))
    answer = {"token": secret, **_described(made, now)}
    print_answer(answer, partial(_print_new, secret, made, file.path), as_json=as_json)


@command_of(app, "list")
def list_(data: HubFolder = Path("data"), as_json: AsJson = False) -> None:
    """List the tokens: what each is for, and whether it is valid, expired or revoked.

    \b
    restante tokens list
    restante tokens list --data /srv/mail --json
    """
    now = datetime.now(UTC)
    found = _tokens_there(data).listed()
    print_answer(
        {"tokens": [_described(token, now) for token in found]}, partial(_print_list, found, data, now), as_json=as_json
    )


@command_of(app, "revoke")
def revoke(
    identity: Annotated[str, typer.Argument(metavar="ID", help="The id of the token.", show_default=False)],
    data: HubFolder = Path("data"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be revoked.")] = False,
    as_json: AsJson = False,
) -> None:
    """Revoke a token: a hub that is running refuses it within a second.

    \b
    restante tokens revoke k3m9x2ab --dry-run
    restante tokens revoke k3m9x2ab
    """
    file, now = _tokens_there(data), datetime.now(UTC)
    token = file.find(identity) if dry_run else file.revoke(identity, now=now)
    told = f"{'Would revoke' if dry_run else 'Revoked'} {token.id}: {_roles(token)}."
    print_answer({"dry_run": dry_run, **_described(token, now)}, told, as_json=as_json)


def _tokens_of(data: Path) -> TokenFile:
    from restante.server.access.tokens import FILE_NAME, TokenFile

    return TokenFile(data / FILE_NAME)


def _tokens_there(data: Path) -> TokenFile:
    """The token file of a folder that must exist: a mistyped folder has no tokens, and should not look as if that were the answer."""
    from restante.errors import InvalidRequest

    if not data.is_dir():
        raise InvalidRequest(f"There is no folder {data}. Give the hub's data folder with --data.")
    return _tokens_of(data)


def _tokens_for(data: Path, *, new: bool) -> TokenFile:
    """The token file of a folder that a hub uses: a token in a mistyped folder would open no door."""
    from restante.errors import InvalidRequest

    used = any((data / name).exists() for name in ("restante.db", "blobs", "tokens.json"))
    if not used and not new:
        raise InvalidRequest(
            f"{data} is not the data folder of a hub. Give the right one with --data; if the hub was never started, "
            "say --new, and the folder is made."
        )
    return _tokens_of(data)


def _ask_before_the_first(file: TokenFile, data: Path) -> None:
    """A hub that runs without tokens serves everyone until there is one. Without a terminal, nobody can be asked."""
    from restante.errors import InvalidRequest
    from restante.stores.sqlite.data_folder import FolderLock

    if file.any() or not FolderLock.is_held(data):
        return
    warning = (
        f"{data} is in use, and has no token yet. From the first one on, a hub that is open now asks everyone for a "
        "token, and shuts out those who have none, open connections too."
    )
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{warning} Say --yes if that is what you want.")
    # Not by `typer.confirm`, which writes to standard output, where the token alone belongs.
    say(f"{warning}\nMake it? [y/N]: ", end="", file=sys.stderr, flush=True, lines=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


def _check_scope(roles: list[Role], origins: list[str] | None, named: list[str] | None, *, everyone: bool) -> None:
    if Role.RECIPIENT in roles and not named and not everyone:
        raise typer.BadParameter(
            "Whose mail? Give --recipient NAME (more than once if need be), or --all-recipients.",
            param_hint="--recipient",
        )
    if everyone and (named or Role.RECIPIENT not in roles):
        raise typer.BadParameter(
            "--all-recipients is for --role recipient, without --recipient.", param_hint="--all-recipients"
        )
    if named and Role.RECIPIENT not in roles:
        raise typer.BadParameter("--recipient is for --role recipient.", param_hint="--recipient")
    if origins and Role.PUBLISHER not in roles:
        raise typer.BadParameter("--origin is for --role publisher.", param_hint="--origin")


def _check_groups(roles: list[Role], named: list[str] | None, *, every: bool) -> None:
    if Role.WORKER in roles and not named and not every:
        raise typer.BadParameter(
            "Of which group? Give --group NAME (more than once if need be), or --all-groups.", param_hint="--group"
        )
    if every and (named or Role.WORKER not in roles):
        raise typer.BadParameter("It is for --role worker, without --group.", param_hint="--all-groups")
    if named and Role.WORKER not in roles:
        raise typer.BadParameter("It is for --role worker.", param_hint="--group")


def _period(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,7})([mhdw])", text)
    period = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta.max
    if period > timedelta(days=_DAYS_MAX):
        raise typer.BadParameter(
            f"it must be a time such as 90m, 12h, 30d or 4w, up to 100 years, not {text!r}.", param_hint="--expires"
        )
    return period


def _described(token: Token, now: datetime) -> dict[str, object]:
    """A token as `--json` prints it: everything but the hash."""
    import msgspec

    shown = {name: value for name, value in msgspec.structs.asdict(token).items() if name != "sha256"}
    return {**shown, "state": token.state(now)}


def _roles(token: Token) -> str:
    """Roles in words: `publisher of billing, recipient of all`."""
    bounds = {Role.PUBLISHER: token.origins, Role.RECIPIENT: token.recipients, Role.WORKER: token.groups}
    return ", ".join(
        f"{role.value} of {' and '.join(bounds[role] or ()) or 'all'}" if role in bounds else role.value
        for role in token.roles
    )


def _print_list(found: Sequence[Token], data: Path, now: datetime) -> None:
    rows = [
        (
            token.id,
            token.state(now),
            _roles(token),
            clock_time(token.created_at),
            "never" if token.expires_at is None else clock_time(token.expires_at),
            token.note,
        )
        for token in found
    ]
    listing(("id", "state", "for", "created", "expires", "note"), rows, nothing=f"There are no tokens in {data}.")


def _print_new(secret: str, token: Token, path: Path) -> None:
    """The token alone on standard output, so that `TOKEN=$(restante tokens create …)` works; the rest beside it."""
    from rich.console import Console

    say(secret, flush=True)
    expiry = "never expires" if token.expires_at is None else f"expires {clock_time(token.expires_at)}"
    beside = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    beside.print(f"Token {token.id}: {_roles(token)}; {expiry}.")
    if Role.PUBLISHER in token.roles and token.origins is None:
        beside.print("It may send for every origin: give --origin to name some.")
    beside.print(f"Keep it now: it is not shown again. {path} has only its hash.", style="bold yellow")
