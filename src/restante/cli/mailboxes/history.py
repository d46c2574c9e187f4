"""`restante history`: what a recipient has and had, message by message."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.shared.exits import NOTHING_THERE
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import Limit, RecipientName
from restante.cli.shared.output import gathered, listing, preview, print_more, write_output
from restante.model.figures import clock_time

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


@at_hub
def history(
    recipient: RecipientName,
    message: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only the message with this id.", show_default=False)
    ] = None,
    *,
    state: Annotated[
        StateName | None, typer.Option(metavar="STATE", help=f"Only messages in this state: {_STATES}.")
    ] = None,
    after: Annotated[int, typer.Option(min=0, help="Only messages after this number.")] = 0,
    limit: Limit = 100,
    door: Door,
    as_json: Annotated[bool, typer.Option("--json", help="Print messages as JSON lines.")] = False,
) -> None:
    """Show a recipient's messages in the order of their numbers, in every state.

    Messages that were collected, expired or withdrawn are shown until their retention ends. Nothing is changed. The
    exit code is 3 if there are no messages.

    \b
    restante history alice
    restante history alice --state collected --limit 20
    restante history alice --after 4711 --json
    restante history alice 0199a6f0-6d2c-7d5e-8a31-3f1c2f6f0c11
    """
    if message is not None and (state is not None or after):
        raise typer.BadParameter("With the id of a message, --state and --after choose nothing.", param_hint="ID")
    with door.open() as opened:
        box = opened.recipient(recipient)
        found = [box.find(message)] if message is not None else _listed(box, state, after, limit)
    if as_json:
        _print_lines(found)
    else:
        _print(recipient, found, limit)
    raise typer.Exit(0 if found else NOTHING_THERE)


def _listed(box: Recipient, state: StateName | None, after: int, limit: int) -> list[Message]:
    from restante.model.publishing.message import State

    wanted = None if state is None else State(state.value)

    def read(count: int, place: int | None) -> tuple[Sequence[Message], int | None]:
        page = box.history(after=place, state=wanted, limit=count)
        return page.messages, page.next

    return gathered(read, limit, after)


def _print_lines(messages: list[Message]) -> None:
    import msgspec

    for message in messages:
        write_output(msgspec.json.encode(_as_over_http(message)) + b"\n")


def _as_over_http(message: Message) -> dict[str, Any]:
    """A row as over HTTP: null is left out; bytes are base64."""
    import msgspec

    fields = {name: value for name, value in msgspec.structs.asdict(message).items() if name != "data"}
    told = {name: value for name, value in fields.items() if value is not None}
    if message.data is msgspec.UNSET or message.text is not None:
        return told
    return told | {"data_base64" if isinstance(message.data, bytes) else "data": message.data}


def _print(recipient: str, messages: list[Message], limit: int) -> None:
    rows = [
        (
            "" if message.sequence_number is None else str(message.sequence_number),
            message.state.value if message.state else "",
            _when(message),
            str(message.id),
            f"{message.origin}/{message.kind}",
            _preview(message),
        )
        for message in messages
    ]
    headings = ("number", "state", "published", "id", "origin/kind", "data")
    nothing = f"{recipient} has no such messages."
    listing(headings, rows, nothing=nothing, right=["number"], whole=["state", "published", "id"])
    if messages:
        print_more(len(messages), limit, f"add --after {messages[-1].sequence_number}.")


def _when(message: Message) -> str:
    """When a message was published; of a delayed message, when it is due."""
    if message.published_at is not None:
        return clock_time(message.published_at)
    return "" if message.visible_at is None else f"due {clock_time(message.visible_at)}"


def _preview(message: Message) -> str:
    import msgspec

    if message.data is msgspec.UNSET:
        return "–"
    if message.text is not None:
        return preview(message.text.encode(), _DATA_CHARACTERS)
    data = message.data if isinstance(message.data, bytes) else msgspec.json.encode(message.data)
    return preview(data, _DATA_CHARACTERS)
