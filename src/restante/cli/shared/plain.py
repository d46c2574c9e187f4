"""How the commands print lines: what senders wrote has no effect on the terminal. None of them calls `print`."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from restante.model.columns.plain_text import plain, plain_lines


def say(
    *things: object,
    sep: str = " ",
    end: str = "\n",
    file: TextIO | None = None,
    flush: bool = False,
    lines: bool = False,
) -> None:
    """Print each thing as one harmless line; with `lines`, the ends of lines in it stay."""
    texts = [plain_lines(str(thing)) if lines else plain(str(thing)) for thing in things]
    print(*texts, sep=sep, end=end, file=file or sys.stdout, flush=flush)


class SaidLogs(logging.Handler):
    """Lines of the log on standard error, printed as everything else is."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), file=sys.stderr, flush=True)


def say_warnings() -> None:
    """Print warnings of loggers that nothing else has set up. Python by itself would print them as they are."""
    logging.lastResort = SaidLogs(logging.WARNING)
