"""Acknowledging items of batches: the calls come in great numbers, so a small one takes the shortest way there is."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from restante.calls.batches import AcknowledgeEach, AcknowledgeItems
from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import ACKNOWLEDGED_ITEMS_MAX, ACKNOWLEDGED_RANGES_MAX, ACKNOWLEDGED_SMALL_MAX
from restante.model.access.access import Role
from restante.model.batches.batch_answers import Acknowledged, ItemIndices, ItemRange
from restante.model.batches.items import IndexColumn, Indices, check_calls, read_numbers
from restante.model.storage.changes import Buffer
from restante.server.connections.bodies import JsonBounds, decoded, read_json
from restante.server.connections.exchange import PIECE_BYTES, Exchange
from restante.server.desk import Desk
from restante.server.route_table import Route
from restante.wire import media
from restante.wire.json_pieces import pieces

_SMALL_BYTES = 64 * ACKNOWLEDGED_SMALL_MAX
"""Up to this size a body is read in the event loop: an item id has 40 to 60 characters."""
_BOUNDS = JsonBounds(6, ACKNOWLEDGED_ITEMS_MAX + 3 * ACKNOWLEDGED_RANGES_MAX)


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One call to acknowledge: items by their ids, by their indices in a group, by ranges, or all of these."""

    items: list[str] = []
    indices: list[ItemIndices] = []
    ranges: list[ItemRange] = []


class AcknowledgeBody(Acknowledgement, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One call, or in `calls` several that are answered one by one."""

    calls: list[Acknowledgement] = msgspec.field(default_factory=list)


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of several calls, in their order."""

    answers: tuple[Acknowledged, ...]


class _Indices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    group: str
    indices: msgspec.Raw


class _Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """As `Acknowledgement`, but indices are read as a column, not number by number."""

    items: list[str] = []
    indices: list[_Indices] = []
    ranges: list[ItemRange] = []


class _Body(_Call, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The body of an acknowledgement, as `AcknowledgeBody` describes it, its calls as they are written."""

    calls: msgspec.Raw = msgspec.Raw(b"[]")


class _Calls(msgspec.Struct, frozen=True, kw_only=True):
    calls: list[_Call]


class _Asked(NamedTuple):
    """The calls of a body, and whether they are to be answered one by one."""

    calls: AcknowledgeEach
    are_several: bool


_decoder = json_decoder(_Body)
_calls_decoder = json_decoder(_Calls)
_indices_decoder = json_decoder(ItemIndices)
_encode = msgspec.json.Encoder().encode


async def acknowledge(desk: Desk, exchange: Exchange) -> None:
    link = desk.link_of(exchange.grant)
    with desk.room.publish() as parcel:
        body = await read_json(desk, exchange, parcel, bounds=_BOUNDS)
        if len(body) <= _SMALL_BYTES:
            asked = _asked(body)
            answer = _answer(asked, await link.call(asked.calls))
        else:
            asked = await link.thread(_asked, body)
            answer = await link.thread(_answer, asked, await link.call(asked.calls))
    if len(answer) <= PIECE_BYTES:
        await exchange.answer(200, answer, media_type=b"application/json")
    else:
        await exchange.send_whole(200, [memoryview(answer)], media_type=media.JSON)


def single_call(body: Buffer) -> AcknowledgeEach | None:
    """The call of a small body; None if it has several calls, or names more than the event loop may handle."""
    asked = _asked(body)
    if asked.are_several:
        return None
    indices = asked.calls.calls[0].indices
    return asked.calls if sum([len(one.indices) for one in indices]) <= ACKNOWLEDGED_SMALL_MAX else None


def _asked(body: Buffer) -> _Asked:
    sent = decoded(body or b"{}", _decoder, _Body)
    calls = _calls(bytes(sent.calls))
    if not calls:
        return _Asked(AcknowledgeEach((_call(sent),)), are_several=False)
    if sent.items or sent.indices or sent.ranges:
        raise InvalidRequest(
            "calls must be the only field: put the other items into a call of their own.", field="calls"
        )
    return _Asked(AcknowledgeEach([_call(one) for one in calls]), are_several=True)


def _calls(content: bytes) -> list[_Call]:
    """The calls of a body, of which no more are decoded than it may have."""
    found: list[_Call] = []
    for piece in pieces(content):
        found += decoded(b'{"calls":%b}' % piece, _calls_decoder, _Body).calls
        check_calls(found)
    return found


def _call(sent: _Call) -> AcknowledgeItems:
    return AcknowledgeItems(sent.items, sent.ranges, [_column(one) for one in sent.indices])


def _column(sent: _Indices) -> Indices:
    raw = bytes(sent.indices)
    index = read_numbers(raw[1:-1]) if raw[:1] == b"[" else None
    if index is not None:
        return IndexColumn(sent.group, index)
    # Something is odd about it: the slow way says what, if it is wrong.
    return decoded(_encode(sent), _indices_decoder, ItemIndices)


def _answer(asked: _Asked, answers: tuple[Acknowledged, ...]) -> bytes:
    return _encode(Answers(answers=answers) if asked.are_several else answers[0])


ACKNOWLEDGE = Route("POST", "/v1/acknowledgements", acknowledge, frozenset({Role.PUBLISHER}))
ROUTES = (ACKNOWLEDGE,)
