"""`restante serve --node NAME`: one of several nodes on one database."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from restante.assembly import SharedStore
    from restante.cluster.nodes.peer_trust import PeerTrust
    from restante.server.nodes.node_service import NodePlan
    from restante.settings import ClusterSettings, Settings

_SECRET_VARIABLE = "RESTANTE_CLUSTER_SECRET"
_SECRET_CHARACTERS_MIN = 16
_FOUNDING_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_ANYWHERE = ("0.0.0.0", "::", "")


def serve_node(
    folder: Path,
    settings: Settings,
    *,
    insecure: bool,
    places: Mapping[tuple[str, ...], str],
    started: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; then the shards go to the other nodes first."""
    from restante.cluster.nodes.peer_trust import peer_trust
    from restante.process_memory import spare_the_collector
    from restante.server.access.gate import gate_of
    from restante.server.serve import allow_connections, listening_socket, loop_factory
    from restante.stores.sqlite.data_folder import make_folder

    make_folder(folder)
    gate_of(settings.server, folder, insecure=insecure)
    trust = peer_trust(_secret(settings.cluster), settings.cluster)
    bound = listening_socket(settings.server.host, settings.server.port)
    plan = _plan(settings, trust, bound, _tokens(folder))
    spare_the_collector()
    allow_connections()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(plan, folder, settings, bound, places, started))


async def _serve(
    plan: NodePlan,
    folder: Path,
    settings: Settings,
    bound: socket.socket,
    places: Mapping[tuple[str, ...], str],
    started: Callable[[str], None],
) -> None:
    from restante.cli.serving.console import mount_console
    from restante.server.nodes.node_service import NodeService

    service = NodeService(plan, folder, settings, bound, places)
    mount_console(service)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, service.drain)
    await service.run(partial(started, plan.about.url))


def _plan(settings: Settings, trust: PeerTrust, bound: socket.socket, tokens: str) -> NodePlan:
    from restante.assembly import enter_nodes
    from restante.cluster.nodes.node_about import NodeAbout
    from restante.hub.engine.partitions import FORMAT_VERSION
    from restante.server.nodes.node_service import NodePlan
    from restante.server.serve import listening_socket
    from restante.version import __version__

    assert settings.store_url is not None, "it was asked for before"
    assert settings.cluster.node is not None, "it was asked for before"
    shared = _founded(settings.store_url, settings)
    host, _, port = settings.cluster.listen.rpartition(":")
    peers = listening_socket(host.strip("[]"), int(port))
    about = NodeAbout(
        url=f"http://{_named(settings, bound)}",
        peer=_named(settings, peers),
        version=__version__,
        formats=(FORMAT_VERSION,),
        settings=_digest(settings, tokens, shared.key),
        since=time.time_ns() // 1_000,
    )
    enter = partial(enter_nodes, settings.store_url, settings.cluster.node, settings)
    return NodePlan(shared.ranges, shared.key, enter, about, trust, peers)


def _named(settings: Settings, bound: socket.socket) -> str:
    """Host and port under which others find a socket of this machine."""
    host, port = bound.getsockname()[:2]
    named = settings.cluster.advertise or (socket.gethostname() if host in _ANYWHERE else host)
    return f"[{named}]:{port}" if ":" in named else f"{named}:{port}"


def _founded(url: str, settings: Settings) -> SharedStore:
    """The shards of the database. The first node that comes makes them; others may come at the same moment."""
    from restante.assembly import found_database, look_at_shards
    from restante.errors import DataLocked, InvalidRequest
    from restante.limits import SHARED_SHARDS

    deadline = time.monotonic() + _FOUNDING_SECONDS
    while (shared := look_at_shards(url, settings)) is None:
        try:
            found_database(url, settings, shards=SHARED_SHARDS)
        except DataLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
    if len(shared.ranges) == 1:
        raise InvalidRequest(f"{url} has one shard, which one hub alone serves: leave --node out.")
    return shared


def _secret(cluster: ClusterSettings) -> bytes:
    from restante.errors import InvalidSettings

    found = os.environ.get(_SECRET_VARIABLE, "")
    if cluster.secret_file is not None:
        try:
            found = Path(cluster.secret_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSettings(f"cluster.secret_file: {cluster.secret_file} cannot be read ({error}).") from error
    secret = found.strip().encode()
    if len(secret) < _SECRET_CHARACTERS_MIN:
        raise InvalidSettings(
            f"Nodes share a secret of at least {_SECRET_CHARACTERS_MIN} characters: put it into {_SECRET_VARIABLE}, or into the "
            "file that the setting cluster.secret_file names."
        )
    return secret


def _digest(settings: Settings, tokens: str, key: int) -> str:
    """A digest of the set-up: the same in all nodes that are set up alike, and it says nothing else."""
    from restante.hub.door.node_calls import settings_digest

    alike = msgspec.structs.replace(settings, cluster=type(settings.cluster)(), store_password_file=None)
    content = f"{settings_digest(alike, key)} {tokens}".encode()
    return hashlib.blake2b(content, key=key.to_bytes(8, "big"), digest_size=8).hexdigest()


def _tokens(folder: Path) -> str:
    from restante.server.access.tokens import FILE_NAME

    try:
        return hashlib.sha256((folder / FILE_NAME).read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
