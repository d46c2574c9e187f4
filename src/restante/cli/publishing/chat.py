"""`restante send --live`: lines typed are sent, what comes is printed, and so is what became of each line."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from restante.cli.shared.live_lines import StateTeller, message_fields, readable
from restante.cli.shared.output import write_output
from restante.errors import RestanteError
from restante.model.columns.plain_text import plain
from restante.model.publishing.message import Message

if TYPE_CHECKING:
    from restante.client.surface.surface import Hub, Live, LiveSent

FROM = "from"
"""The property that says who wrote a message."""


def check_chat(recipient: str | None, me: str | None, **others: object) -> tuple[str, str]:
    """The recipient to write to, and the one whose mailbox is followed."""
    for option, given in others.items():
        if given:
            name = option if option.isupper() else f"--{option.replace('_', '-')}"
            raise typer.BadParameter("--live sends only the lines that you type: leave this out.", param_hint=name)
    if recipient is None:
        raise typer.BadParameter("Name the recipient of the lines that you type.", param_hint="--recipient")
    if me is None:
        raise typer.BadParameter("Say whose mailbox is yours.", param_hint="--me")
    return recipient, me


def chat(hub: Hub, recipient: str, me: str, fields: dict[str, Any], *, as_json: bool) -> None:
    """Until the end of the input, or Ctrl-C; it waits until all that was typed is stored."""
    paper = _Paper(as_json=as_json)
    fields = {"media_type": "text/plain", "properties": {FROM: me}, **fields}
    teller = StateTeller(f"You are {me}. What you type goes to {recipient}; Ctrl-D ends it.")
    with hub.recipient(me).live(on_state=teller, on_echo=paper.echo) as live:
        threading.Thread(target=_print_arrivals, args=(live, paper), name="restante-chat", daemon=True).start()
        desk = _Desk(live, paper)
        with suppress(KeyboardInterrupt):
            for line in sys.stdin:
                if line.strip():
                    desk.send(Message(recipient=recipient, data=line.rstrip("\r\n").encode(), **fields))
            desk.wait()


class _Paper:
    """The terminal, to which several threads print, a line at a time."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def arrived(self, message: Message) -> None:
        who = message.properties.get(FROM, message.origin)
        self._write({"event": "message", "message": message_fields(message)}, f"{who}: {readable(message)}")

    def echo(self, message: Message) -> None:
        line = f"you, elsewhere, to {message.recipient}: {readable(message)}"
        self._write({"event": "echo", "message": message_fields(message)}, line)

    def mark(self, sent: LiveSent, mark: str, text: str, reason: str | None = None) -> None:
        """Mark a line with what became of it."""
        told = {"event": mark, "id": sent.id} | ({} if reason is None else {"reason": reason})
        self._write(told, f"[{mark}] {text}" if reason is None else f"[{mark}: {reason}] {text}")

    def failed(self, error: RestanteError) -> None:
        self._write({"event": "error", "code": error.code, "detail": error.message}, f"[{error.code}] {error.message}")

    def _write(self, told: dict[str, Any], line: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        content = msgspec.json.encode(told) if self._as_json else plain(line).encode(encoding, "replace")
        with self._lock:
            write_output(content + b"\n")


class _Desk:
    """Sends messages, and prints the outcome of each, in the order in which they were sent."""

    def __init__(self, live: Live, paper: _Paper) -> None:
        self._live = live
        self._paper = paper
        self._last: threading.Thread | None = None

    def send(self, message: Message) -> None:
        text = readable(message)
        try:
            sent = self._live.send(message)
        except RestanteError as error:
            self._paper.failed(error)
            return
        self._paper.mark(sent, "sent", text)
        self._last = threading.Thread(
            target=self._follow, args=(sent, text, self._last), name="restante-sent", daemon=True
        )
        self._last.start()

    def wait(self) -> None:
        if self._last is not None:
            self._last.join()

    def _follow(self, sent: LiveSent, text: str, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        try:
            sent.processed()
        except RestanteError as error:
            self._paper.mark(sent, "lost", text, error.message)
        else:
            self._paper.mark(sent, "processed", text)


def _print_arrivals(live: Live, paper: _Paper) -> None:
    try:
        for message in live:
            paper.arrived(message)
    except RestanteError as error:
        paper.failed(error)
