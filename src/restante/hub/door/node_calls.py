"""The calls about nodes, as a hub answers them that knows of no other node: it has all partitions, or is one shard."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from restante.calls.nodes import DrainNode, ReadNodes
from restante.errors import NotOwner
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import FORMAT_VERSION
from restante.hub.engine.subject import HubSubject, Opening
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import moment
from restante.model.shards.node_answers import (
    OWN_NODE,
    NodeDrain,
    NodeMap,
    NodeStatus,
    ShardState,
    ShardStatus,
    not_drained,
)
from restante.model.shards.ranges import shard_of
from restante.settings import ServerSettings, Settings
from restante.version import __version__

_FIRST_EPOCH = 1
_DIGEST_BYTES = 8


@dataclass(slots=True)
class OwnNode:
    """The node that a hub is, as it tells others of it."""

    name: str = OWN_NODE
    since: int = 0


def read_nodes(core: Core, _: ReadNodes, __: Grant) -> NodeMap:
    own = core.memory(OwnNode)
    node = NodeStatus(
        node=own.name,
        version=__version__,
        formats=(FORMAT_VERSION,),
        settings=settings_digest(core.settings, core.deed.key),
        since=moment(own.since),
    )
    return NodeMap(
        epoch=_FIRST_EPOCH if core.shard is None else core.shard.epoch,
        partition_count=core.deed.partition_count,
        nodes=(node,),
        shards=(_own_shard(core, own.name),),
    )


def _own_shard(core: Core, node: str) -> ShardStatus:
    state, reason = _state(core)
    return ShardStatus(
        shard=0 if core.shard is None else shard_of(core.shard.carrier.ranges(), core.owned.start),
        first=core.owned.start,
        last=core.owned.stop - 1,
        node=node,
        fence=core.fence,
        state=state,
        reason=reason,
        lease_seconds=core.store.lease_seconds(),
    )


def _state(core: Core) -> tuple[ShardState, str | None]:
    failure = core.store.failure()
    if failure is not None:
        return ShardState.FAILED, failure
    try:
        core.store.require_owned()
    except NotOwner as error:
        return ShardState.IN_DOUBT, error.message
    return ShardState.SERVING, None


def settings_digest(settings: Settings, key: int) -> str:
    """The digest of all settings but those that each node has for itself. With the store's key, so that nobody finds a secret by trying."""
    here = ServerSettings()
    server = msgspec.structs.replace(settings.server, host=here.host, port=here.port)
    content = msgspec.msgpack.encode(msgspec.structs.replace(settings, server=server))
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES, key=key.to_bytes(8, "big")).hexdigest()


def drain_node(core: Core, call: DrainNode, _: Grant) -> NodeDrain:
    raise not_drained(call.node, core.memory(OwnNode).name)


def _open(core: Core, _: Opening) -> None:
    core.remember(OwnNode(since=core.clock()))


SUBJECT = HubSubject(functions={ReadNodes: read_nodes, DrainNode: drain_node}, open=_open)
