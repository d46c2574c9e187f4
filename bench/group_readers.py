"""Readers that share the feed over the wire, each in a process of its own: plain ones, and members of a group.

Each reports for every page how many changes it has, so that the measuring process knows when all has been read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import restante
from bench.load import Child
from restante.calls.groups import DefineGroup
from restante.client.groups.groups_sync import Group
from restante.client.surface.sync import Hub
from restante.settings import GroupSettings

READY_SECONDS = 60.0
_LOOK_SECONDS = 0.25
_HEARTBEAT_SECONDS = GroupSettings().heartbeat_seconds


class SharingReader(Child):
    """A process that reads some partitions plainly, or joins a group, as the measuring process asks."""

    def __init__(self, url: str) -> None:
        super().__init__(_serve, url)


def read_plainly(readers: Sequence[SharingReader], partitions: int) -> int:
    """Partitions are dealt by hand; gives how many changes came in all."""
    for place, reader in enumerate(readers):
        reader.tell(tuple(range(place, partitions, len(readers))))
    return sum(reader.answer() for reader in readers)


def join(hub: Hub, readers: Sequence[SharingReader], group: str) -> None:
    """All are members of a new group that is paused, and each has its share."""
    hub.link.call(DefineGroup(group))
    hub.group(group).pause()
    for reader in readers:
        reader.tell(group)
    deadline, count = time.monotonic() + READY_SECONDS, len(hub.partitions())
    while sorted(len(own.partitions) for own in hub.group(group).status().members) != _shares(count, len(readers)):
        assert time.monotonic() < deadline, "the members have not got their shares"
        time.sleep(_LOOK_SECONDS)
    time.sleep(_HEARTBEAT_SECONDS)  # until the members know it, too


def _shares(partitions: int, members: int) -> list[int]:
    least, larger = divmod(partitions, members)
    return [least] * (members - larger) + [least + 1] * larger


def read_as_group(hub: Hub, readers: Sequence[SharingReader], group: str, expected: int) -> int:
    """The group goes on, and reads all; gives how many changes came in all, which are done with then.

    The hub's own health checks have numbers, too, and are no changes that anybody reads.
    """
    hub.group(group).resume()
    seen = 0
    while seen < expected:
        for reader in readers:
            while seen < expected and reader.has_answer():
                seen += reader.answer()
    return seen


def leave(readers: Sequence[SharingReader]) -> None:
    for reader in readers:
        reader.tell(None)
    for reader in readers:
        while reader.answer() is not None:
            pass


def _serve(pipe: Connection, url: str) -> None:
    with restante.connect(url) as hub, suppress(EOFError, BrokenPipeError):
        while True:
            asked = pipe.recv()
            if isinstance(asked, str):
                _be_member(hub, asked, pipe)
            else:
                pipe.send(sum(page.table.num_rows for page in hub.feed(asked)))


def _be_member(hub: Hub, name: str, pipe: Connection) -> None:
    with hub.group(name) as group:
        thread = threading.Thread(target=_tell, args=(group, pipe))
        thread.start()
        pipe.recv()
    thread.join()
    pipe.send(None)


def _tell(group: Group, pipe: Connection) -> None:
    for page in group.pages():
        pipe.send(page.table.num_rows)
