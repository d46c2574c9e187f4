"""A file of messages, as the pieces in which it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from restante.errors import Fault, RestanteError
from restante.model.publishing.message import Message

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The values of fields that messages do not say themselves."""

    recipient: str | None = None
    origin: str | None = None
    kind: str | None = None
    media_type: str | None = None

    def given(self) -> dict[str, str]:
        fields = {"recipient": self.recipient, "origin": self.origin, "kind": self.kind, "media_type": self.media_type}
        return {name: value for name, value in fields.items() if value is not None}


LEAVE_OUT = "a hub gave it. Leave it out, or let --forward do so"
"""The advice about a column that is read only."""


def _raised(error: RestanteError) -> None:
    raise error


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """The way files are read: what is filled in, what is left out, and what becomes of a message that is wrong."""

    defaults: Defaults = Defaults()
    forward: bool = False
    """Leave out what another hub gave its messages."""
    refuse: Callable[[RestanteError], None] = _raised
    """Raises, or goes on without the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Messages that stand together in a file and are sent together."""

    messages: Sequence[Message] | pa.Table
    first: int
    """The place of its first message in the file, from 0."""
    lines: Sequence[int] | None
    """The line of each message, in files that have lines."""
    read_bytes: int
    """How much of the file it took."""

    def __len__(self) -> int:
        return len(self.messages)

    def is_named(self) -> bool:
        """Whether each message has an id."""
        if isinstance(self.messages, Sequence):
            return all(message.id is not None for message in self.messages)
        return "id" in self.messages.column_names and not self.messages.column("id").null_count

    def place(self, index: int) -> str:
        """Where a message of this piece stands, for people."""
        return f"row {self.first + index + 1}" if self.lines is None else f"line {self.lines[index]}"


def told(fault: Fault) -> str:
    """The fault of a message, and what this command can do about it."""
    from restante.model.publishing.validation import READ_ONLY

    detail = fault.detail.rstrip(".")
    return f"{detail}; --forward does so" if fault.field in READ_ONLY else detail


@dataclass(frozen=True, slots=True)
class FileIds:
    """Ids for messages that have none: the same for the same place in the same file of the same send."""

    key: str
    file: int

    def at(self, place: int) -> UUID:
        return uuid5(NAMESPACE_URL, f"restante:send:{self.key}\n{self.file}\n{place}")

    def given_to(self, piece: FilePiece) -> FilePiece:
        messages = piece.messages
        named: Sequence[Message] | pa.Table
        if isinstance(messages, Sequence):
            named = [self._named(message, piece.first + index) for index, message in enumerate(messages)]
        else:
            named = self._named_table(messages, piece.first)
        return FilePiece(messages=named, first=piece.first, lines=piece.lines, read_bytes=piece.read_bytes)

    def _named(self, message: Message, place: int) -> Message:
        return message if message.id is not None else msgspec.structs.replace(message, id=str(self.at(place)))

    def _named_table(self, table: pa.Table, first: int) -> pa.Table:
        import pyarrow as pa

        if "id" not in table.column_names and "text_id" in table.column_names:
            table = table.rename_columns({"text_id": "id"})
        if "id" not in table.column_names:
            ids = pa.array([self.at(first + index).bytes for index in range(table.num_rows)], pa.binary(16))
            return table.append_column("id", ids)
        column = table.column("id")
        if not column.null_count:
            return table
        kind = column.type
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
        values = [
            (str(self.at(first + index)) if texts else self.at(first + index).bytes) if value is None else value
            for index, value in enumerate(column.to_pylist())
        ]
        filled = pa.array(values, pa.string() if pa.types.is_null(kind) else kind)
        return table.set_column(table.column_names.index("id"), "id", filled)


Pieces = Iterator[FilePiece]
