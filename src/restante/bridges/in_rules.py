"""How records become messages: the rules of a bridge in, as a person writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from restante.decoders import json_decoder
from restante.errors import InvalidRequest

Pick = Callable[["RawRecord"], str]
RecordHeaders = Sequence[tuple[str, bytes | None]]
REASON_CHARACTERS_MAX = 500
UNREADABLE: RecordHeaders = (("\udcff", None),)
"""Headers of a record of which one has a name that is no UTF-8: the client library gives none of them then."""
_FORMS = "key, header:NAME or json:PATH"


class RawRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a topic partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def header(self, name: str) -> bytes | None:
        """The last header of a name; case does not matter."""
        wanted = name.lower()
        return next((value for own, value in reversed(self.headers) if own.lower() == wanted), None)


class RecordMisfit(ValueError):
    """The reason why a record cannot become a message."""


class DataForm(Enum):
    """The form of the values of records."""

    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


MEDIA_TYPES = {
    DataForm.JSON: "application/json",
    DataForm.TEXT: "text/plain",
    DataForm.BYTES: "application/octet-stream",
}


class Tombstones(Enum):
    """The choice for records without a value."""

    SKIP = "skip"
    POISON = "poison"


class InRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule for the records of a topic."""

    topic: str
    recipient: str | None = None
    """`key`, `header:NAME` or `json:PATH`. If left out, the recipient that an event names, else the key."""
    origin: str | None = None
    """If left out, the source of an event, else the topic."""
    kind: str | None = None
    """If left out, the type of an event, else the topic."""
    values: DataForm = DataForm.JSON
    tombstones: Tombstones = Tombstones.SKIP
    poison: str = "bridge-poison"
    """The mailbox of records that cannot become messages."""
    dead_letter: str | None = None
    """The topic of such records, instead of the mailbox."""

    @property
    def found_by(self) -> str:
        """The rule that finds the recipient of a record that is no event."""
        return "key" if self.recipient is None else self.recipient

    def check(self) -> None:
        picker(self.found_by)
        if not self.topic.strip():
            raise InvalidRequest("A bridge needs a topic.", parameter="topic")
        if not self.poison.strip():
            raise InvalidRequest("The mailbox of records that do not fit needs a name.", parameter="poison")


def check_rules(rules: Sequence[InRule]) -> None:
    """Each by itself, and whether they go together."""
    for rule in rules:
        rule.check()
    topics = [rule.topic for rule in rules]
    if not topics:
        raise InvalidRequest("A bridge needs a topic.", parameter="topic")
    twice = next((topic for topic in topics if topics.count(topic) > 1), None)
    if twice is not None:
        raise InvalidRequest(f"The topic {twice} is named twice: one rule says what becomes of its records.")
    loop = next((rule for rule in rules if rule.dead_letter in topics), None)
    if loop is not None:
        raise InvalidRequest(
            f"Records of {loop.topic} that do not fit would go to {loop.dead_letter}, which this bridge reads: they would "
            "come back for ever. Name another dead-letter topic.",
            parameter="dead_letter",
        )


def rule_parts(rule: str) -> tuple[str, str]:
    """`key`, `header` or `json`, and the name or path after it."""
    form, _, rest = rule.partition(":")
    if rule == "key" or (form == "header" and rest) or (form == "json" and rest and all(rest.split("."))):
        return form, rest
    raise InvalidRequest(f"A recipient is found by {_FORMS}, not {rule!r}.", parameter="recipient")


def picker(rule: str) -> Pick:
    """The function that finds the recipient of a record."""
    form, rest = rule_parts(rule)
    if form == "key":
        return lambda record: _text(record.key, "the key")
    if form == "header":
        return lambda record: _text(record.header(rest), f"the header {rest}")
    return _json_picker(rest)


def json_steps(path: str, leaf: Any) -> tuple[Any, int]:  # noqa: ANN401 - a type
    """The type of values that have a path, each step named `found`; and how many steps it has."""
    names = path.split(".")
    for name in reversed(names):
        leaf = msgspec.defstruct("Step", [("found", leaf, msgspec.field(name=name))], gc=False)
    return leaf, len(names)


def _json_picker(path: str) -> Pick:
    """Decodes what lies on the path alone: the rest of a value is passed over."""
    kind, depth = json_steps(path, msgspec.Raw)
    decoder = json_decoder(kind)

    def pick(record: RawRecord) -> str:
        try:
            found = decoder.decode(record.value or b"")
            for _ in range(depth):
                found = found.found
            value = msgspec.json.decode(found)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise RecordMisfit(f"The value has no {path}: {error}") from error
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise RecordMisfit(f"{path} is neither text nor a whole number.")

    return pick


def _text(value: bytes | None, what: str) -> str:
    if value is None:
        raise RecordMisfit(f"The record lacks {what}.")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RecordMisfit(f"{what[0].upper()}{what[1:]} is no UTF-8.") from error
