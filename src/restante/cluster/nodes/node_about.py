"""The facts that a node tells the others of itself, in its row of the store."""

from __future__ import annotations

import msgspec

from restante.decoders import json_decoder


class NodeAbout(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node is, what it speaks, and how much its shards have to do."""

    url: str
    """The address for clients."""
    peer: str
    """Host and port, for the other nodes."""
    version: str
    formats: tuple[int, ...]
    """The formats of stored data that it can work with."""
    settings: str
    """A digest of its settings and tokens: the same in all nodes."""
    since: int
    """When the node was started, in microseconds since 1970."""
    draining: bool = False
    """Whether the node gives its shards away, and takes none."""
    rates: dict[int, float] = {}
    """Commits a second of its shards, of those that it has had for a while."""


_decoder = json_decoder(NodeAbout)


def encode_about(about: NodeAbout) -> bytes:
    return msgspec.json.encode(about)


def decode_about(content: bytes) -> NodeAbout | None:
    """None for what another version says that this one cannot read."""
    try:
        return _decoder.decode(content)
    except msgspec.MsgspecError:
        return None
