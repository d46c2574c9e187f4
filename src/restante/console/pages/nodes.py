"""Nodes and shards: who has which partitions, how each is, leases, and rounds that wait for a shard."""

from __future__ import annotations

from restante.console.pages.frame import page
from restante.console.pages.shown_answers import ShownHubNode, ShownNodeMap, ShownRound, ShownRounds, ShownShard
from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, note, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.errors import RestanteError


async def nodes(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(ShownNodeMap, "nodes")
    rounds = await _seen_rounds(visit) if visit.visitor.operates else None
    return page(
        visit,
        "Nodes",
        visit.moving("wrong", ailing(found)),
        visit.moving("nodes", _nodes(found, operates=visit.visitor.operates)),
        visit.moving("shards", _shards(found)),
        visit.moving("rounds", _rounds(rounds)),
    )


async def _seen_rounds(visit: Visit) -> ShownRounds | None:
    """Shards are asked for them; if one does not answer, nobody waits for it."""
    try:
        found = await visit.remembered(ShownRounds, "rounds")
    except RestanteError:
        return None
    return None if found is None else found.answer


def unserved(found: ShownNodeMap) -> bool:
    """Whether there is a shard whose answers are missing."""
    return any(one.state != "serving" for one in found.shards)


def ailing(found: ShownNodeMap) -> Markup | None:
    """The nodes and shards that an operator has to see first."""
    said: list[Child] = [
        tag("p", f"Shard {one.shard} (partitions {one.first} to {one.last}) is {one.state}. {one.reason or ''}")
        for one in found.shards
        if one.state != "serving"
    ]
    digests = {one.settings for one in found.nodes}
    versions = {one.version for one in found.nodes}
    if len(digests) > 1:
        said.append(tag("p", "The nodes have different settings or tokens: compare the digests below."))
    if len(versions) > 1:
        said.append(tag("p", "The nodes run different versions."))
    return note("warn", *said, title="Not all is well") if said else None


def _nodes(found: ShownNodeMap, *, operates: bool) -> Markup:
    owned: dict[str | None, int] = {}
    for shard in found.shards:
        owned[shard.node] = owned.get(shard.node, 0) + 1
    if len(found.nodes) == 1:
        (only,) = found.nodes
        said = f"One node, {only.node}, has all shards. It cannot be drained: nobody could take them."
        return tag("p", said, class_="soft")
    offered = operates and sum(one.state == "serving" for one in found.nodes) > 1
    rows = [_node(one, owned.get(one.node, 0), offered=offered) for one in found.nodes]
    heads = ("Node", "Address", "State", "#Shards", "Since", "Version", "Settings", *(["Change"] if offered else []))
    return section("Nodes", table(heads, rows, caption="Nodes"))


def _node(one: ShownHubNode, shards: int, *, offered: bool) -> tuple[Child, ...]:
    shown: tuple[Child, ...] = (
        tag("b", one.node),
        tag("code", one.address or ""),
        badge(one.state),
        whole(shards),
        relative(one.since),
        one.version,
        tag("code", one.settings),
    )
    drain = tag("a", "Drain…", href=at("do", "drain", node=one.node)) if one.state == "serving" else ""
    return (*shown, drain) if offered else shown


def _shards(found: ShownNodeMap) -> Markup:
    rows = [_shard(one) for one in found.shards]
    heads = ("#Shard", "Partitions", "Owner", "State", "#Fence", "#Lease left")
    return section("Shards", table(heads, rows, caption="Shards"))


def _shard(one: ShownShard) -> tuple[Child, ...]:
    lease = "no lease" if one.lease_seconds is None else f"{one.lease_seconds:.1f} s"
    return (
        whole(one.shard),
        link(f"{one.first} to {one.last}", "partitions", after=one.first - 1 if one.first else None),
        one.node or "nobody",
        badge(one.state),
        whole(one.fence),
        lease,
    )


def _rounds(found: ShownRounds | None) -> Markup | None:
    if found is None or not found.rounds:
        return None
    heads = ("Consignment", "#Shard", "State", "#Messages", "Since", "What to do")
    listed = table(heads, [_round(one) for one in found.rounds], caption="Rounds in doubt")
    return section(f"{counted(len(found.rounds), 'consignment')} being committed over several shards", listed)


def _round(one: ShownRound) -> tuple[Child, ...]:
    return (
        link(one.consignment, "consignments", one.consignment),
        whole(one.shard),
        badge(one.state),
        whole(one.messages),
        relative(one.since),
        one.advice,
    )


ROUTES = (ConsoleRoute("GET", "nodes", nodes, lambda visitor: visitor.looks),)
