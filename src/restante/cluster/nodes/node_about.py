"""Nodes as they know one another: the facts that each tells of itself in its row of the store, and which are silent.

A node is silent when its beat was seen unchanged for the whole lease, by the clock of the node that looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from restante.decoders import json_decoder
from restante.ports.membership import NodeRow


class NodeAbout(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a node: its addresses, the formats it can work with, and how much its shards have to do."""

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


class SilentNodes:
    """The beats that were heard of the other nodes, and when. No clocks are compared."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, float]] = {}
        self._ends: dict[str, float] = {}
        """When each is silent, unless it is heard before."""

    def among(self, rows: Sequence[NodeRow], now: float) -> list[NodeRow]:
        """The nodes that are silent. `now` is from after the rows were read: until then a beat may have been new."""
        before, self._heard = self._heard, {}
        for row in rows:
            beat, since = before.get(row.session, (row.beat, now))
            self._heard[row.session] = (row.beat, since if beat == row.beat else now)
        self._ends = {row.session: self._heard[row.session][1] + row.lease_milliseconds / 1_000 for row in rows}
        return [row for row in rows if now >= self._ends[row.session]]

    def seconds_left(self, session: str, now: float) -> float | None:
        """The time that is left of a node's lease, as far as this node knows; None for a node that it has not seen."""
        ends = self._ends.get(session)
        return None if ends is None else round(max(0.0, ends - now), 3)

    def soonest(self, now: float) -> float:
        """How long until the next one is silent, if nothing is heard of it; infinite if there is none."""
        return min((max(0.0, ends - now) for ends in self._ends.values()), default=math.inf)
