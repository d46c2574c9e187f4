"""A TOML file with several bridges: where the brokers are, and a table for each topic.

```toml
[kafka]
brokers = "127.0.0.1:9092"

[[in]]
topic = "orders"
recipient = "json:customer.id"
```
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from restante.bridges.in_rules import InRule, check_rules
from restante.decoders import converted
from restante.errors import InvalidRequest, InvalidSettings


class KafkaSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The addresses of the brokers, and further settings of the client."""

    brokers: str | None = None
    """None: as the command says."""
    settings: dict[str, str] = {}


class BridgeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file of bridges."""

    kafka: KafkaSection = KafkaSection()
    rules: tuple[InRule, ...] = msgspec.field(name="in", default=())


def read_bridge_file(path: Path) -> BridgeFile:
    """The file, or the error that says what is wrong with it."""
    try:
        found = converted(tomllib.loads(path.read_text()), BridgeFile)
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path}: {error}.") from error
    try:
        check_rules(found.rules)
    except InvalidRequest as error:
        raise InvalidSettings(f"{path}: {error.message}") from error
    return found
