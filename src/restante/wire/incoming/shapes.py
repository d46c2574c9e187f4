"""A message put together field by field, for bodies in which something is wrong or must be looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import Raw

from restante.decoders import json_decoder
from restante.errors import Fault, InvalidMessage, InvalidRequest
from restante.limits import (
    FAULTS_SHOWN_MAX,
    JSON_MESSAGE_BYTES,
    JSON_PIECE_BYTES,
    LARGE_DATA_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTIES_MAX,
    PROPERTIES_SAID_BYTES_MAX,
    SEND_MESSAGES_MAX,
)
from restante.model.columns.text_ids import is_id, shown_id
from restante.model.publishing import intake
from restante.model.publishing.broadcast import Broadcast, count_of, spread
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed, merged, refusal
from restante.model.publishing.send_bounds import check_count
from restante.wire.json_pieces import TakeRoom, count_parts, no_bound, read_list

_PLACEHOLDER = "?"
_octets_decoder = json_decoder(bytes)
_texts_decoder = json_decoder(list[str])
_properties_decoder = json_decoder(dict[str, str])


Reserve = Callable[[int], None]
"""A function that takes room for so many more messages, or raises why there is none."""


def recipients_of(said: Raw, reserve: Reserve) -> tuple[str, ...]:
    """The recipients of a broadcast, for whose messages there is room. No more of them are decoded than a send may have."""
    content = bytes(said)
    too_many = f"recipients names more than {SEND_MESSAGES_MAX} recipients: send to fewer at a time"
    if len(content) > JSON_PIECE_BYTES:
        count = count_parts(content, 1) + 1
        if count > SEND_MESSAGES_MAX:
            raise InvalidRequest(too_many)
        reserve(count)
    return tuple(read_list(content, _texts_decoder, SEND_MESSAGES_MAX, too_many))


def properties_of(said: Raw) -> dict[str, str]:
    """The properties of a message; `ValueError` if JSON that long says more than a message may have."""
    if len(bytes(said)) > PROPERTIES_SAID_BYTES_MAX:
        raise ValueError(
            f"at most {PROPERTIES_MAX} entries and {PROPERTIES_BYTES_MAX} bytes, keys and values in all, are allowed"
        )
    return _properties_decoder.decode(said)


class Shaped:
    """The fields of one message, and what is wrong with how it says them."""

    __slots__ = ("_default_media_type", "faults", "fields", "index", "reserve")

    def __init__(self, index: int, reserve: Reserve = no_bound) -> None:
        self.index = index
        self.reserve = reserve
        self.fields: dict[str, Any] = {}
        self.faults: list[tuple[str | None, str]] = []
        self._default_media_type: str | None = None

    @property
    def message(self) -> Message:
        """The message, with harmless values for fields that were wrong."""
        fields = dict(self.fields)
        if self._default_media_type is not None:
            fields.setdefault("media_type", self._default_media_type)
        if fields.get("recipients"):
            fields.pop("recipient", None)
            return Broadcast(**fields)
        fields.pop("recipients", None)
        fields.setdefault("recipient", _PLACEHOLDER)
        return Message(**fields)

    def fault(self, field: str | None, detail: str) -> None:
        self.faults.append((field, detail))

    def take(
        self, field: str, value: Raw, read: Callable[[Raw], Any], expected: str, *, named: str | None = None
    ) -> None:
        """A field that `read` decodes; `named` is its name on the wire if that is another."""
        try:
            self.fields[field] = read(value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            name = named or field
            self.fault(name, f"{name} must be {expected}: {_reason(error)}")

    def base64(self, name: str, value: Raw) -> None:
        self.take("data", value, _octets_decoder.decode, "base64 text (RFC 4648, padded)", named=name)
        self.fields.setdefault("data", b"")

    def data(self, content: bytes, *, default_media_type: str | None) -> None:
        self.fields["data"] = content
        self._default_media_type = default_media_type


def check_recipients(shaped: Shaped, fields: Collection[str]) -> None:
    """A message has one recipient, or a list of them."""
    if "recipients" not in fields:
        if "recipient" not in fields:
            shaped.fault("recipient", "recipient is required: name who gets the message")
    elif "recipient" in fields:
        shaped.fault("recipients", "recipient and recipients are there together: give one of them")
    elif not shaped.fields.get("recipients", True):
        shaped.fault("recipients", "recipients must name at least one recipient")


class GatheredMessages:
    """The messages of a body, gathered piece by piece; of those with a wrong shape, as many as a problem shows.

    Memory for each takes room before the next piece is decoded, so a body of many small messages is bounded like a large one.
    """

    def __init__(self, take_room: TakeRoom) -> None:
        self._take_room = take_room
        self._messages: list[Message] = []
        self._faulty: list[Shaped] = []
        self._spread_count = self._reserved = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many faulty messages as a problem shows, so that no others need be looked at."""
        return len(self._faulty) >= FAULTS_SHOWN_MAX

    def add(self, messages: Sequence[Message]) -> None:
        """Add messages whose shape is right."""
        count = sum(map(count_of, messages))
        self.reserve(count)
        self._spread_count += count
        self._messages += messages

    def reserve(self, count: int) -> None:
        """Take room for so many messages beside those that were added, before they are made."""
        wanted = self._spread_count + count
        check_count(wanted)
        if wanted > self._reserved:
            self._take_room(JSON_MESSAGE_BYTES * (wanted - self._reserved))
            self._reserved = wanted

    def look_at(self, rows: Iterable[Raw], shape: Callable[[int, Raw, Reserve], Shaped]) -> None:
        """Add messages one by one, each taken apart to see what is wrong with it."""
        for row in rows:
            one = shape(len(self._messages), row, self.reserve)
            if one.faults:
                self._faulty.append(one)
            self.add((one.message,))
            if self.is_full:
                return

    def result(self) -> Sequence[Message] | Flawed:
        return flawed(self._faulty, self._messages) if self._faulty else spread(self._messages)


def flawed(shaped: Sequence[Shaped], messages: Sequence[Message]) -> Flawed:
    """Messages of which some are wrong. A broadcast counts as so many messages as it has recipients, in faults too."""
    faults = faults_of(shaped)
    spread_out = spread(messages)
    if len(spread_out) != len(messages):
        place = [0, *accumulate(map(count_of, messages))]
        faults = [msgspec.structs.replace(fault, index=place[fault.index]) for fault in faults]
    return Flawed(spread_out, faults)


def sound(found: Sequence[Message] | Flawed) -> Sequence[Message]:
    """The messages, or the refusal that names everything that is wrong with each of them."""
    if isinstance(found, Flawed):
        by_rule = intake.from_messages(found.messages, claim_check_origins=None, data_bytes_max=LARGE_DATA_BYTES_MAX)[1]
        raise refusal(merged(found.faults, by_rule))
    return found


def faults_of(shaped: Sequence[Shaped]) -> list[Fault]:
    """The faults in how messages say what they say, with the id of each that gave a valid one."""
    ids = _valid_ids(shaped)
    return [
        Fault(index=one.index, code=InvalidMessage.code, detail=detail, field=field, id=ids.get(one.index))
        for one in shaped
        for field, detail in one.faults
    ]


def _valid_ids(shaped: Sequence[Shaped]) -> dict[int, str]:
    """The ids of faulty messages that gave a valid one, as the hub writes them."""
    found = {one.index: one.fields["id"] for one in shaped if one.faults and "id" in one.fields}
    return {index: shown_id(text) for index, text in found.items() if is_id(text)}


def _reason(error: Exception) -> str:
    """The finding of the decoder, without the path inside the value."""
    return str(error).partition(" - at ")[0] or "it is nested too deeply"
