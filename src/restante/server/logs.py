"""Logs for machines: one JSON object a line, with the correlation id of the request they belong to."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

import msgspec

from restante.settings import ServerSettings

correlation: ContextVar[str | None] = ContextVar("correlation", default=None)
_encode = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        found = correlation.get()
        if found is not None:
            line["correlation_id"] = found
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line).decode()


class TextFormatter(logging.Formatter):
    """The same for people: what belongs to the event stands behind it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = dict(getattr(record, "fields", {}))
        found = correlation.get()
        if found is not None:
            fields["correlation_id"] = found
        told = "".join(f" {name}={value}" for name, value in fields.items())
        line = f"{at} {record.levelname.lower()} {record.name}: {record.getMessage()}{told}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up(settings: ServerSettings) -> None:
    """Log to standard error as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # Uvicorn tells of each broken request; ours are counted, and told with what is known of them.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
