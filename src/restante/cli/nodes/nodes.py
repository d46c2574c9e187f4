"""`restante nodes`: the machines that serve a hub together, and one of them drained."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.nodes import DrainNode, ReadNodes
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Yes, is_meant
from restante.cli.shared.output import listing, print_answer, print_found
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.shards.node_answers import NodeDrain, NodeMap

app = command_group("nodes")

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.", show_default=False)]
ShowMovesOnly = Annotated[bool, typer.Option("--dry-run", help="Only say which shards would move.")]
WaitSeconds = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait until the node has no shard.")
]
_LOOK_SECONDS = 0.2


@app.callback()
def nodes() -> None:
    """See the nodes of a hub: each is a running `restante serve`. Drain one before its machine is taken away.

    \b
    restante nodes list
    restante nodes drain mail-2 --dry-run
    restante nodes drain mail-2
    """


@at_hub
def list_(*, door: Door, as_json: AsJson = False) -> None:
    """List the nodes: their addresses and states, and how many shards each has.

    \b
    restante nodes list
    restante nodes list --json | jq '.nodes[] | {node, address, state}'
    """
    print_found(door.ask(ReadNodes()), _print_nodes, as_json=as_json)


@at_hub
def drain(
    node: NodeName,
    wait: WaitSeconds = 60,
    dry_run: ShowMovesOnly = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Drain a node: it gives its shards to the others, one after another. Then you can stop the node.

    The command waits until the node has no shard. The last node cannot be drained: no other could take its shards.

    \b
    restante nodes drain mail-2 --dry-run
    restante nodes drain mail-2 --yes
    """
    with closing(door.link()) as link:
        left = link.call(DrainNode(node, dry_run=True))
        if not dry_run and is_meant(f"Have {node} give {_shards(left)} away?", yes=yes):
            left = _drained(link, node, wait)
    print_answer(left, _told(left, dry_run=dry_run), as_json=as_json)


def _drained(link: Link, node: str, seconds: float) -> NodeDrain:
    deadline = time.monotonic() + seconds
    left = link.call(DrainNode(node))
    while left.shards and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        left = link.call(DrainNode(node))
    return left


def _shards(left: NodeDrain) -> str:
    return counted(len(left.shards), "shard")


def _told(left: NodeDrain, *, dry_run: bool) -> str:
    if dry_run:
        return f"{left.node} would give {_shards(left)} away."
    if left.shards:
        return (
            f"{left.node} still has {_shards(left)}, and goes on giving them away. `restante shards list` shows them."
        )
    return f"{left.node} has no shard any more, and may be ended."


def _print_nodes(found: NodeMap) -> None:
    counts: dict[str | None, int] = {}
    for own in found.shards:
        counts[own.node] = counts.get(own.node, 0) + 1
    rows = [
        (
            own.node,
            own.address or "-",
            own.state.value,
            str(counts.get(own.node, 0)),
            clock_time(own.since),
            own.version,
            own.settings,
        )
        for own in found.nodes
    ]
    names = ("node", "address", "state", "shards", "since", "version", "settings")
    listing(names, rows, right=("shards",), whole=("address", "since"), spare=("settings", "version"))


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "drain": drain}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
