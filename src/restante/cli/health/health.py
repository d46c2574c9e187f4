"""`restante health`: how each part of a hub is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import NOT_QUITE_WELL, WRONG
from restante.cli.shared.hub_options import DEFAULT_URL, HubUrl, TokenOption, hear_client
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import listing, output, print_answer
from restante.decoders import json_decoder
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from restante.model.health.bounds import HealthMeasure
    from restante.model.health.health_history import HealthAnswer, HealthMinute
    from restante.model.health.tree import HealthNode

_EXITS = {"green": 0, "yellow": NOT_QUITE_WELL, "red": WRONG}


def health(
    history: Annotated[bool, typer.Option("--history", help="Also the last hour, by minutes.")] = False,
    as_json: AsJson = False,
    hub: HubUrl = DEFAULT_URL,
    token: TokenOption = None,
) -> None:
    """Show the health of each part of a hub: green, yellow or red, with the measurements of the last minute.

    The exit code is 0 if all is green, 4 if something is yellow, and 1 if something is red.

    \b
    restante health
    restante health --history
    restante health --json --hub https://hub.example.org --token "$TOKEN"
    """
    found = _asked(hub, token, history=history)
    print_answer(found, partial(_print, found), as_json=as_json)
    raise typer.Exit(_EXITS[found.state.value])


def _asked(hub: str, token: str | None, *, history: bool) -> HealthAnswer:
    import msgspec

    from restante.cli.shared.hub_requests import asked, told_failures
    from restante.client.transport.address import addresses_of
    from restante.errors import Unavailable
    from restante.model.health.health_history import HealthAnswer

    hear_client()
    addresses, target = addresses_of(hub, token=token), f"/v1/health{'?history=true' if history else ''}"
    with told_failures(addresses, "health"), asked(addresses, target) as answer:
        body = answer.read()
    try:
        return json_decoder(HealthAnswer).decode(body)
    except msgspec.DecodeError as error:
        raise Unavailable(
            f"What {addresses[0].url} answered is no health of a hub. Is another program there?"
        ) from error


def _print(found: HealthAnswer) -> None:
    import msgspec
    from rich.text import Text
    from rich.tree import Tree

    score = 1.0 if found.score is msgspec.UNSET else found.score
    tree = Tree(Text.assemble(_label(found), f"  score {score:g}"))
    for flow in found.parts:
        _grow(tree.add(_label(flow)), flow)
    console = output()
    console.print(tree, soft_wrap=True)
    if found.history is not msgspec.UNSET:
        _print_history(found.history)


def _grow(branch: Tree, node: HealthNode) -> None:
    for part in node.parts:
        _grow(branch.add(_label(part)), part)


def _label(node: HealthNode) -> Text:
    """A node in one line: its state, since when if it is not green, and what was measured."""
    from rich.text import Text

    colours = {"green": "green", "yellow": "bold yellow", "red": "bold red"}
    line = Text.assemble(f"{plain(node.name)} ", (node.state.value, colours[node.state.value]))
    if node.state.value != "green":
        line.append(f" since {clock_time(node.since)}")
    told = [plain(_told(measure)) for measure in node.measures]
    if node.measured is False:
        told = ["not measured"]
    return line.append(f"  {'; '.join(told)}" if told else "")


def _told(measure: HealthMeasure) -> str:
    import msgspec

    shown = f"{measure.name} {measure.value:g} {measure.unit}"
    return shown if measure.reason is msgspec.UNSET else f"{shown} ({measure.reason})"


def _print_history(minutes: tuple[HealthMinute, ...]) -> None:
    headings = ("minute", "state", "score", "yellow", "red")
    rows = [
        (clock_time(one.at), one.state.value, f"{one.score:g}", ", ".join(one.yellow), ", ".join(one.red))
        for one in minutes
    ]
    listing(headings, rows, right=["score"], nothing="Nothing was measured yet.")
