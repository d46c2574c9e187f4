"""How messages that come live are printed, one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from restante.cli.shared.output import preview, write_output
from restante.cli.shared.plain import say
from restante.client.surface.surface import LiveStage, LiveState
from restante.model.columns.plain_text import plain
from restante.model.figures import clock_time
from restante.wire.json_values import compact

if TYPE_CHECKING:
    from restante.model.publishing.message import Message

_PREVIEW_CHARACTERS = 1_000
_FIELDS = ("id", "recipient", "origin", "kind", "document_type", "weight", "bundleable", "media_type", "properties")
_HUB_FIELDS = ("expires_at", "sequence_number", "published_at", "collected_at", "state")

Print = Callable[["Message"], None]


def printer(*, text: bool, as_json: bool) -> Print:
    """Prints one message, whole, before the next one is asked for."""
    if text:
        return lambda message: write_output(data_of(message) + b"\n")
    if as_json:
        return lambda message: write_output(msgspec.json.encode(message_fields(message)) + b"\n")
    return lambda message: write_output(f"{_shown(message)}\n".encode(sys.stdout.encoding or "utf-8", "replace"))


def message_fields(message: Message) -> dict[str, Any]:
    """A message as it is over HTTP."""
    fields = {name: getattr(message, name) for name in (*_FIELDS, *_HUB_FIELDS)}
    told = {name: value for name, value in fields.items() if value is not None}
    if isinstance(message.data, bytes):
        told["data_base64"] = message.data
    elif message.text is not None:
        told["text"] = message.text
    elif message.data is not msgspec.UNSET:
        told["data"] = message.data
    return told


def data_of(message: Message) -> bytes:
    """The data as text, or as it is; nothing of a claim check."""
    if isinstance(message.data, bytes):
        return message.data
    if message.text is not None:
        return message.text.encode()
    return b"" if message.data is msgspec.UNSET else compact(msgspec.json.encode(message.data))


def readable(message: Message) -> str:
    """The data for people."""
    data = message.data
    return preview(data.encode() if isinstance(data, str) else data_of(message), _PREVIEW_CHARACTERS)


class StateTeller:
    """The teller of a connection's state: on standard error a greeting at first, then each loss and each return."""

    def __init__(self, greeting: str | None = None) -> None:
        self._news = greeting

    def __call__(self, state: LiveState) -> None:
        if state.stage is LiveStage.RECONNECTING:
            self._print(f"Not connected: {state.reason}. Trying again.")
            self._news = "Connected again."
        elif state.stage is LiveStage.CONNECTED and self._news is not None:
            self._print(self._news)
            self._news = None

    def _print(self, line: str) -> None:
        say(line, file=sys.stderr, flush=True)


def _shown(message: Message) -> str:
    time = clock_time(message.published_at) if message.published_at else ""
    return plain(f"{message.sequence_number}  {time}  {message.origin}/{message.kind}  {readable(message)}")
