"""Sending over a live connection: the client gets the id at once, then the outcome, which the sender's other clients get too."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from restante.calls.mailboxes import FindMessage
from restante.calls.publishing import Publish
from restante.calls.shards import ShowMessage
from restante.errors import Internal, RestanteError
from restante.limits import LIVE_SENDS_MAX
from restante.model.access.access import Role
from restante.model.access.origin_access import check_origins
from restante.model.columns.text_ids import shown_id
from restante.model.columns.texts import Texts
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing import intake
from restante.model.publishing.few_or_many import Few
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import refusal
from restante.server.access.gate import check_role
from restante.server.connections.incoming_messages import read_apart
from restante.server.desk import Desk
from restante.server.live.connection import LiveConnection
from restante.server.routes.publishing import count
from restante.wire.live import Fate, LiveSend, SendAccepted, echo_frame, encode_hub_frame, problem_frame
from restante.wire.outgoing.outgoing import message_json
from restante.wire.problems import problem_of

_log = logging.getLogger("restante.server")
_PUBLISHER = frozenset({Role.PUBLISHER})


class LiveSends:
    """The messages that one client sends. They are stored in the order in which they are sent."""

    def __init__(self, desk: Desk, connection: LiveConnection, correlation_id: str) -> None:
        self._desk = desk
        self._connection = connection
        self._correlation_id = correlation_id
        self._room = asyncio.Semaphore(LIVE_SENDS_MAX)
        self._under_way: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        """Keeps messages to other shards in order, by sending one at a time."""

    async def take(self, frame: LiveSend) -> None:
        """Check a message, answer with its id, and store it. While many are under way, no more frames are read."""
        await self._room.acquire()
        try:
            check_role(self._connection.held.grant, _PUBLISHER, None)
            message = self._checked(await read_apart(self._desk, len(bytes(frame.message)), frame.decoded))
        except RestanteError as error:
            self._room.release()
            problem = problem_of(error, correlation_id=self._correlation_id)
            self._connection.tell(problem_frame(frame.request, problem))
            return
        self._connection.tell(encode_hub_frame(SendAccepted(frame.request, message.id or "")))
        task = asyncio.ensure_future(self._store(message))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        # A small publish is in the committer's queue after one turn of the loop. In a crowded hub it goes through a thread,
        # where the next one could overtake it, so wait for it.
        await (asyncio.wait((task,)) if self._desk.hub.crowded else asyncio.sleep(0))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.release()

    def _checked(self, message: Message) -> Message:
        allowed, most = self._desk.hub.claim_check_origins(), self._desk.settings.data_bytes_max
        if letter_of(message, claim_check_origins=allowed, data_bytes_max=most) is None:
            _, faults = intake.from_messages([message], claim_check_origins=allowed, data_bytes_max=most)
            if faults:
                raise refusal(faults)
        check_origins(self._connection.held.grant, Texts.constant(message.origin, 1))
        if message.id is not None:
            return msgspec.structs.replace(message, id=shown_id(message.id))
        made = self._desk.hub.new_uuid().hex()
        own = f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"
        return msgspec.structs.replace(message, id=own)

    async def _store(self, message: Message) -> None:
        started, sent = time.perf_counter(), Few((message,))
        try:
            with self._desk.room.publish():
                receipt = await self._published(message.recipient, Publish(sent))
        except RestanteError as error:
            self._tell(Fate(message.id or "", "lost", f"{error.code}: {error.message}"))
            return
        except Exception:  # noqa: BLE001  # the client must get an outcome; the log has the details
            _log.exception("A message failed.", extra={"fields": {"correlation_id": self._correlation_id}})
            self._tell(Fate(message.id or "", "lost", Internal("The hub failed.").message))
            return
        self._desk.post.tally.sent += 1
        count(self._desk, sent, receipt, time.perf_counter() - started)
        self._tell(Fate(message.id or "", "processed"))
        if receipt.accepted:
            await self._echo(message)

    async def _published(self, recipient: str, call: Publish) -> Receipt:
        others = self._desk.other_shards
        away = others.partition_of(recipient)
        if away is None:
            return await self._desk.link_of(self._connection.held.grant).call(call)
        async with self._turn:
            return await others.ask(away, call)

    def _tell(self, fate: Fate) -> None:
        """Tell all clients of the sender the outcome."""
        frame = encode_hub_frame(fate)
        self._connection.tell(frame)
        self._desk.post.tell_others(self._connection, frame)

    async def _echo(self, message: Message) -> None:
        """Show the message to the sender's other clients, unless they are its recipient anyway."""
        post, own = self._desk.post, self._connection
        if message.recipient == own.recipient or not post.others(own):
            return
        try:
            stored = await self._shown(message.recipient, message.id or "")
        except RestanteError as error:
            _log.warning("A message could not be echoed: %s", error)
            return
        post.tell_others(own, echo_frame(stored))

    async def _shown(self, recipient: str, message_id: str) -> bytes:
        """A stored message as JSON."""
        away = self._desk.other_shards.partition_of(recipient)
        if away is not None:
            return await self._desk.other_shards.ask(away, ShowMessage(recipient, message_id))
        return message_json(await self._desk.read(self._desk.hub.find_table, FindMessage(recipient, message_id)))
