"""`restante history`: what a recipient has and had, message by message."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.shared.exits import NOTHING_THERE
from restante.cli.shared.hub_options import DEFAULT_URL, DataFolder, Door, HubUrl, Token
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.client.surface.surface import Message, Recipient

_DATA_CHARACTERS = 40


class StateName(Enum):
    WAITING = "waiting"
    COLLECTED = "collected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"


_STATES = ", ".join(state.value for state in StateName)


def history(
    recipient: Annotated[str, typer.Argument(metavar="RECIPIENT", help="Whose mailbox.", show_default=False)],
    message: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only the message with this id.", show_default=False)
    ] = None,
    *,
    state: Annotated[
        StateName | None, typer.Option(metavar="STATE", help=f"Only messages in this state: {_STATES}.")
    ] = None,
    after: Annotated[int, typer.Option(min=0, help="Only messages behind this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")] = 100,
    hub: HubUrl = DEFAULT_URL,
    token: Token = None,
    data: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print messages as JSON lines.")] = False,
) -> None:
    """Show a recipient's messages by their numbers, whatever has become of them.

    Those that were collected, expired or withdrawn are there until their retention ends. Nothing is changed. The exit
    code is 3 if there is none.

    \b
    restante history alice
    restante history alice --state collected --limit 20
    restante history alice --after 4711 --json
    restante history alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    if message is not None and (state is not None or after):
        raise typer.BadParameter("With the id of a message, --state and --after choose nothing.", param_hint="ID")
    with Door(hub, token, data).open() as opened:
        box = opened.recipient(recipient)
        found = [box.find(message)] if message is not None else _listed(box, state, after, limit)
    if as_json:
        _print_lines(found)
    else:
        _print(recipient, found, limit)
    raise typer.Exit(0 if found else NOTHING_THERE)


def _listed(box: Recipient, state: StateName | None, after: int, limit: int) -> list[Message]:
    from restante.limits import PAGE_MAX
    from restante.model.publishing.message import State

    wanted = None if state is None else State(state.value)
    found: list[Message] = []
    place: int | None = after
    while place is not None and len(found) < limit:
        page = box.history(after=place, state=wanted, limit=min(limit - len(found), PAGE_MAX))
        found += page.messages
        place = page.next
    return found


def _print_lines(messages: list[Message]) -> None:
    import msgspec

    from restante.cli.shared.output import write_output

    for message in messages:
        write_output(msgspec.json.encode(_as_over_http(message)) + b"\n")


def _as_over_http(message: Message) -> dict[str, Any]:
    """What is not there is left out; bytes are base64."""
    import msgspec

    fields = {name: value for name, value in msgspec.structs.asdict(message).items() if name != "data"}
    told = {name: value for name, value in fields.items() if value is not None}
    if message.data is msgspec.UNSET or message.text is not None:
        return told
    return told | {"data_base64" if isinstance(message.data, bytes) else "data": message.data}


def _print(recipient: str, messages: list[Message], limit: int) -> None:
    from restante.cli.shared.output import output, table_of
    from restante.model.figures import clock_time

    if not messages:
        say(f"No such message of {recipient} is there.")
        return
    rows = [
        (
            str(message.sequence_number),
            message.state.value if message.state else "",
            clock_time(message.published_at) if message.published_at else "",
            str(message.id),
            f"{message.origin}/{message.kind}",
            _preview(message),
        )
        for message in messages
    ]
    headings = ("number", "state", "published", "id", "origin/kind", "data")
    output().print(table_of(headings, rows, right=["number"], whole=["state", "published", "id"]))
    if len(messages) == limit:
        say(f"There may be more: --after {messages[-1].sequence_number}")


def _preview(message: Message) -> str:
    import msgspec

    from restante.cli.shared.output import preview

    if message.data is msgspec.UNSET:
        return "–"
    if message.text is not None:
        return preview(message.text.encode(), _DATA_CHARACTERS)
    data = message.data if isinstance(message.data, bytes) else msgspec.json.encode(message.data)
    return preview(data, _DATA_CHARACTERS)
