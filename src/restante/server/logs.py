"""Logs: a line of text in a terminal, one JSON object a line elsewhere. The details of an event are in `fields`."""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime

import msgspec

from restante.model.columns.plain_text import plain, plain_lines
from restante.settings import ServerSettings
from restante.settings.server import LogFormat

_encode = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return plain(_encode(line).decode())


class TextFormatter(logging.Formatter):
    """A line for people: the event, then its fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        line = plain(f"{at} {record.levelname.lower()} {record.name}: {record.getMessage()}{told}")
        return f"{line}\n{plain_lines(self.formatException(record.exc_info))}" if record.exc_info else line


def formatter(form: LogFormat, *, terminal: bool) -> logging.Formatter:
    as_text = terminal if form == "auto" else form == "text"
    return TextFormatter() if as_text else JsonFormatter()


def set_up(settings: ServerSettings) -> None:
    """Log to standard error as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(settings.log, terminal=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # Uvicorn logs each broken request; our server counts them, and logs them with more detail.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


class _WithoutTickets(logging.Filter):
    """A filter for the loggers of Uvicorn, which write addresses with their queries: it leaves tickets out."""

    def filter(self, record: logging.LogRecord) -> bool:
        told = record.getMessage()
        if "ticket=" in told:
            record.msg, record.args = _TICKET.sub("ticket=…", told), ()
        return True


_TICKET = re.compile(r"ticket=[^&\s\"']*")
_FILTER = _WithoutTickets()


def leave_tickets_out() -> None:
    """Have the loggers of Uvicorn write no ticket, whatever has set them up. A second call changes nothing."""
    for name in ("uvicorn.access", "uvicorn.error"):
        logging.getLogger(name).addFilter(_FILTER)
