"""`restante shards`: ranges of partitions, who has each, and what waits between them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from restante.calls.nodes import ListRounds, ReadNodes
from restante.cli.nodes.shard_counts import join, split
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import listing, print_found
from restante.cli.shared.plain import say
from restante.model.figures import duration

if TYPE_CHECKING:
    from restante.model.shards.node_answers import NodeMap, RoundsInDoubt

app = command_group("shards")


@app.callback()
def shards() -> None:
    """See the shards of a hub: ranges of its partitions, each with one owner at a time.

    \b
    restante shards list
    restante shards rounds
    restante shards split 4 --data ./mail
    """


@at_hub
def list_(*, door: Door, as_json: AsJson = False) -> None:
    """List the shards: their partitions, owners and states, and why a shard does not serve.

    \b
    restante shards list
    restante shards list --json | jq '.shards[] | select(.state != "serving")'
    """
    print_found(door.ask(ReadNodes()), print_shards, as_json=as_json)


@at_hub
def rounds(*, door: Door, as_json: AsJson = False) -> None:
    """List the consignments that are being committed over several shards, the oldest first, with what to do about an old one.

    \b
    restante shards rounds
    """
    print_found(door.ask(ListRounds()), print_rounds, as_json=as_json)


def print_shards(found: NodeMap) -> None:
    rows = [
        (
            str(own.shard),
            f"{own.first}-{own.last}",
            own.node or "nobody",
            own.address or "-",
            own.state.value,
            str(own.fence),
            "-" if own.lease_seconds is None else f"{own.lease_seconds:.1f} s",
        )
        for own in found.shards
    ]
    names = ("shard", "partitions", "node", "address", "state", "fence", "lease")
    listing(names, rows, right=("shard", "fence", "lease"), whole=("partitions", "address"), spare=("lease", "fence"))
    for own in found.shards:
        if own.reason is not None:
            say(f"Shard {own.shard} is {own.state.value}: {own.reason}")


def print_rounds(found: RoundsInDoubt) -> None:
    now = datetime.now(UTC)
    rows = [
        (
            own.consignment,
            str(own.shard),
            own.state.value,
            str(own.home),
            str(own.messages),
            duration(max((now - own.since).total_seconds(), 0)),
            own.advice,
        )
        for own in found.rounds
    ]
    names = ("consignment", "shard", "state", "home", "messages", "for", "what to do")
    whole = ("consignment", "state")
    listing(names, rows, right=("shard", "home", "messages", "for"), whole=whole, nothing="No round is in doubt.")


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "rounds": rounds, "split": split, "join": join}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
