"""`WS /v1/recipients/{recipient}/live`: messages are pushed, and the client may send messages and confirm collected ones."""

from __future__ import annotations

import logging

import msgspec

from restante.calls.mailboxes import PartitionOf
from restante.decoders import json_decoder
from restante.errors import Internal, InvalidRequest, RestanteError, Unavailable
from restante.limits import LIVE_CLIENT_CHARACTERS_MAX, LIVE_FRAME_TIMES
from restante.model.access.access import Role
from restante.model.live.live_queue import LiveQueue
from restante.server.access.passes import Pass
from restante.server.connections.exchange import HUB_ENDS, ClientGone, Exchange
from restante.server.connections.incoming_messages import read_apart
from restante.server.connections.socket_protocol import Socket
from restante.server.desk import Desk
from restante.server.live.connection import Line, LiveConnection
from restante.server.live.sends import LiveSends
from restante.server.live.socket_line import ServerLine
from restante.server.route_table import Route
from restante.wire.live import (
    Collect,
    Collected,
    Connected,
    LiveSend,
    decode_client_frame,
    encode_hub_frame,
    problem_frame,
)
from restante.wire.problems import problem_of

_log = logging.getLogger("restante.server")

TICKET = "ticket"
QUERY = frozenset({"client", "after", TICKET})
RECIPIENT = frozenset({Role.RECIPIENT})


async def serve_live(desk: Desk, exchange: Exchange) -> None:
    """Serve one web socket from its acceptance to its end."""
    check_client(desk, exchange)
    await exchange.accept_socket()
    own: Socket = exchange.scope["restante.socket"]
    with desk.passes.held(exchange) as held:
        connection = connect(desk, exchange, ServerLine(own, exchange, frame_bytes_max(desk)), held)
        own.live = connection
        try:
            await _Talk(desk, exchange, connection).run()
        except ClientGone:
            pass
        finally:
            own.live = None
            desk.post.leave(connection)


def check_client(desk: Desk, exchange: Exchange) -> None:
    """Raise if the client cannot be connected."""
    if desk.draining.is_set():
        raise Unavailable(HUB_ENDS)
    exchange.integer("after")
    client = exchange.text("client")
    if client is not None and not 0 < len(client) <= LIVE_CLIENT_CHARACTERS_MAX:
        raise InvalidRequest(f"client is a text of 1 to {LIVE_CLIENT_CHARACTERS_MAX} characters.", parameter="client")
    recipient = exchange.place["recipient"]
    desk.hub.call(PartitionOf(recipient))
    desk.post.check_room(recipient)


def connect(
    desk: Desk, exchange: Exchange, line: Line, held: Pass, *, after: int | None = None, keeps_up: bool = False
) -> LiveConnection:
    """Connect a client. It joins before the end of the mailbox is read, so that no message is missed in between."""
    recipient, settings = exchange.place["recipient"], desk.post.settings
    queue = LiveQueue(settings.queue_messages, settings.queue_bytes, last=2**63 - 1)
    client = exchange.text("client") or ""
    connection = LiveConnection(recipient, line, queue, held, keeps_up=keeps_up, client=client)
    desk.post.join(connection)
    held.lost.add_done_callback(lambda _: desk.post.dismiss_unless_valid(connection))
    try:
        visible = desk.hub.visible_sequence(recipient)
    except Unavailable as error:
        # A hub that no longer owns the mailbox does not know its end, and must not make the client go back.
        desk.post.dismiss(connection, "failed", detail=error.message)
        return connection
    after = exchange.integer("after") if after is None else after
    queue.last = visible if after is None else min(after, visible)
    connection.tell(encode_hub_frame(Connected(queue.last, client)))
    if after is not None:
        connection.catch_up()
    return connection


class _Talk:
    """Handles the frames of a client, one after another."""

    def __init__(self, desk: Desk, exchange: Exchange, connection: LiveConnection) -> None:
        self._desk = desk
        self._exchange = exchange
        self._connection = connection
        self._sending = LiveSends(desk, connection, exchange.correlation_id)

    async def run(self) -> None:
        while True:
            event = await self._exchange.receive_event()
            if event["type"] == "websocket.disconnect":
                raise ClientGone
            if self._connection.ending:
                break  # The client was dismissed while this frame was on its way.
            await self._take(event.get("text"))
            await self._connection.heard()
        await self._until_gone()

    async def _until_gone(self) -> None:
        """Ignore all frames after the last frame was sent, until the client disconnects."""
        while (await self._exchange.receive_event())["type"] != "websocket.disconnect":
            pass

    async def _take(self, text: str | None) -> None:
        most = frame_bytes_max(self._desk)
        if text is None or _is_too_long(text, most):
            what = "a binary frame" if text is None else f"a frame of more than {most} bytes"
            await self._break_off(f"The client sent {what}.")
            return
        try:
            frame = await read_apart(self._desk, len(text), decode_client_frame, text)
        except InvalidRequest as error:
            await self._misunderstood(text, error)
            return
        if isinstance(frame, LiveSend):
            await self._sending.take(frame)
        else:
            await self._collect(frame)

    async def _misunderstood(self, text: str, error: InvalidRequest) -> None:
        """Answer an invalid frame of a known type; end the connection for any other."""
        known = _request_of(text)
        if known is None:
            await self._break_off(error.message)
            return
        self._refuse(known.number, error)

    async def _break_off(self, detail: str) -> None:
        await self._connection.end("protocol_error", detail=detail, seconds=1)

    async def _collect(self, frame: Collect) -> None:
        try:
            count = await self._desk.read(
                self._desk.hub.live_collect, self._connection.recipient, frame.sequence_number
            )
        except RestanteError as error:
            self._refuse(None, error, collected=frame.sequence_number)
            return
        except Exception:  # noqa: BLE001  # the client must get an answer; the log has the details
            _log.exception("Collecting failed.", extra={"fields": {"correlation_id": self._exchange.correlation_id}})
            failure = Internal("The hub failed. Its log has more, by the correlation id.")
            self._refuse(None, failure, collected=frame.sequence_number)
            return
        self._desk.metrics.collected.add(count)
        collected = encode_hub_frame(Collected(frame.sequence_number, count))
        self._connection.tell(collected)
        self._desk.post.tell_others(self._connection, collected)

    def _refuse(self, request: int | None, error: RestanteError, *, collected: int | None = None) -> None:
        """Answer with a problem. It names the number of a refused `collected`."""
        problem = problem_of(error, correlation_id=self._exchange.correlation_id)
        if collected is not None:
            problem["sequence_number"] = collected
        self._connection.tell(problem_frame(request, problem))


def frame_bytes_max(desk: Desk) -> int:
    """The size of the largest frame of a client: that of the largest message with every byte escaped."""
    return LIVE_FRAME_TIMES * desk.settings.data_bytes_max


def _is_too_long(text: str, most: int) -> bool:
    return len(text) > most or (4 * len(text) > most and len(text.encode()) > most)


class _Loose(msgspec.Struct, frozen=True):
    """The two words of a frame that an answer needs; anything may be in the place of its number."""

    type: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def number(self) -> int | None:
        try:
            return json_decoder(int).decode(self.request)
        except msgspec.ValidationError:
            return None


def _request_of(text: str) -> _Loose | None:
    """The type and request of an invalid frame; None if it has no known type."""
    try:
        found = json_decoder(_Loose).decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if found.type in ("send", "collected") else None


SOCKETS = (Route("GET", "/v1/recipients/{recipient}/live", serve_live, RECIPIENT, QUERY),)
