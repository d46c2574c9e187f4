"""The things that are measured, by one set of names: the hub (`bench.ours`) and every reference (`bench.peers`, a file each)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pyarrow as pa


class Operation(Enum):
    """The operations that a peer may be asked for."""

    PUBLISH = auto()
    PEEK = auto()
    DEQUEUE = auto()
    SINGLES = auto()
    SUSTAINED = auto()
    """Publishing without pause: whatever the peer leaves for later must be part of it."""
    COMMIT = auto()
    """One durable commit of next to nothing."""
    ONE = auto()
    """Small publishes by one publisher that waits for each answer."""
    CONNECTIONS = auto()
    """The same by many connections at a time."""
    PIPELINE = auto()
    """Small publishes over one connection that does not wait for the answers."""
    BULK = auto()
    """Large publishes beside small ones."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The bundle that a peek gave: how many messages, and what the peer needs to dequeue them."""

    messages: int
    handle: Any


class Peer:
    """A system, opened on a folder of its own. None can do everything: it has the methods of what it offers."""

    def prepare(self, table: pa.Table) -> Any:
        """Not timed: the messages in the form that this peer publishes fastest."""
        raise NotImplementedError

    def publish(self, prepared: Any) -> None:
        """Publish all prepared messages, durable on return."""
        raise NotImplementedError

    def singles(self, table: pa.Table, *, waiting: int, warm_up: int) -> float:
        """Each message as a publish of its own, so many waiting at a time; gives the seconds after the warm-up rounds."""
        raise NotImplementedError

    def peek(self, recipient: str) -> Taken:
        """The first messages that wait, as the peer gives them to a program."""
        raise NotImplementedError

    def dequeue(self, taken: Taken) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Not timed: do what is left for the background, so that it does not fall into the next sample."""

    def reopen(self) -> None:
        """Not timed: forget what is cached in the process."""

    def close(self) -> None:
        """Release the folder."""


Opener = Callable[[Path], Peer]


def variants(peer: str, operation: Operation) -> Mapping[str, Opener]:
    """The ways in which a peer can do an operation, by name; none if it cannot. The fastest one is the reference.

    Peers that are servers (`bench.server`), or ways to count on one (`bench.tally`), have none: they take part in the
    runs over the wire only.
    """
    module = importlib.import_module(f"bench.peers.{peer}")
    found: Mapping[str, Opener] = module.variants(operation) if hasattr(module, "variants") else {}
    return found


def peers_for(operation: Operation) -> dict[str, Mapping[str, Opener]]:
    """Every peer that can do the operation, with its variants."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))
    offered = {name: variants(name, operation) for name in names}
    return {name: found for name, found in offered.items() if found}
