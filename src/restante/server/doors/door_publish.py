"""The short way of small publishes through a door: from the parser to the line of their shard, and back, without a task.

Only what is plainly right, and for one shard, goes this way; anything else is left to the application of the door.
"""

from __future__ import annotations

from typing import cast

import msgspec

from restante.cluster.call_frames import FrameKind
from restante.cluster.call_values import PublishLetters, decode_answer, decode_error
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.server.access.web_access import WebAccess
from restante.server.connections.short_way import ShortWay
from restante.server.desk import Desk, DoorDesk
from restante.server.doors.door_link import DoorLink
from restante.server.short_routes.short_publish import ShortParcel, ShortPublish
from restante.wire.incoming.plain_json import plain_letters


class DoorPublish(ShortPublish):
    """A small publish whose recipients all have their home in one shard."""

    def __init__(self, desk: DoorDesk, web: WebAccess, link: DoorLink) -> None:
        super().__init__(cast("Desk", desk), web)  # A small publish needs nothing of a desk that a DoorDesk lacks.
        self.link = link

    def publish(
        self,
        grant: Grant,
        body: bytes,
        listener: Listener[Receipt],
        partition: int | None = None,
        numbers: ProducerNumbers | None = None,
    ) -> bool:
        letters = plain_letters(body)
        cut = None if letters is None else self.link.cut.letters(letters, grant)
        if letters is None or cut is None:
            return False
        if self.link.backplane is not None and numbers is None:
            return partition is None and self.link.backplane.publish_letters(letters, listener)
        if len(cut.parts) != 1:
            return False
        shard, call, _, _ = cut.parts[0]
        assert isinstance(call, PublishLetters), "few messages are carried as letters"
        if partition is not None:
            if shard != self.link.lines.of_partition(partition):
                return False
            # The hub recognises a numbered parcel by its numbers and by a digest without made ids: send none.
            sent = call.letters if numbers is None else tuple(map(msgspec.structs.astuple, letters))
            call = PublishLetters(sent, partition, numbers)
        return CarriedPublish(self, shard, call, grant, listener).ask()


class DoorParcel(DoorPublish, ShortParcel):
    """A small publish to one partition, with or without the numbers of a producer."""


class CarriedPublish:
    """A publish on its way to its shard. If that does not answer, it is asked again for a while: ids and numbers are given."""

    __slots__ = ("_call", "_grant", "_listener", "_route", "_shard")

    def __init__(
        self, route: DoorPublish, shard: int, call: PublishLetters, grant: Grant, listener: Listener[Receipt]
    ) -> None:
        self._route = route
        self._shard = shard
        self._call = call
        self._grant = grant
        self._listener = listener

    def ask(self) -> bool:
        return self._route.link.lines.lines[self._shard].ask_for(self, self._call, self._grant)

    def heard(self, kind: FrameKind, content: bytes) -> None:
        if kind is not FrameKind.PROBLEM:
            self._tell(decode_answer(self._call, content), None)
            return
        error = decode_error(content)
        if self._route.link.lines.goes_on(error):
            self.lost()
        else:
            self._tell(None, error)

    def lost(self) -> None:
        task = self._route.loop.create_task(self._ask_again())
        self._route.unfinished.add(task)
        task.add_done_callback(self._route.unfinished.discard)

    async def _ask_again(self) -> None:
        try:
            self._tell(await self._route.link.lines.call(self._shard, self._call, self._grant), None)
        except BaseException as error:  # noqa: BLE001  # the client gets an answer whatever it is
            self._tell(None, error)

    def _tell(self, receipt: Receipt | None, error: BaseException | None) -> None:
        request = CommitRequest[Receipt]()
        request.result, request.error = receipt, error
        self._listener.tell(request)


class DoorShortRoutes:
    """Finds the short way of a request at a door."""

    def __init__(self, desk: DoorDesk, web: WebAccess, link: DoorLink) -> None:
        self._publish = DoorPublish(desk, web, link)
        self._parcel = DoorParcel(desk, web, link)

    def find(self, method: bytes, url: bytes) -> ShortWay | None:
        """The way that a request may go, as far as its first line says; None if there is none."""
        if method != b"POST":
            return None
        if url == b"/v1/messages":
            return self._publish
        return self._parcel if url.startswith(b"/v1/partitions/") else None
