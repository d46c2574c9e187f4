"""How the commands print lines: what senders wrote has no effect on the terminal. None of them calls `print`."""

from __future__ import annotations

import sys
from typing import TextIO

from restante.model.columns.plain_text import plain


def say(
    *things: object,
    sep: str = " ",
    end: str = "\n",
    file: TextIO | None = None,
    flush: bool = False,
    lines: bool = False,
) -> None:
    """Print each thing as one harmless line; with `lines`, the ends of lines in it stay."""
    texts = [_plain_lines(str(thing)) if lines else plain(str(thing)) for thing in things]
    print(*texts, sep=sep, end=end, file=file or sys.stdout, flush=flush)


def _plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))
