"""Names for `restante partitions check`: of a file, a line each, or of a pattern that counts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante import limits
from restante.errors import InvalidRequest
from restante.model.columns.arrow import string_array

_PATTERN = re.compile(r"(?P<before>[^{}]*)\{(?P<first>\d{1,18})\.\.(?P<last>\d{1,18})\}(?P<after>[^{}]*)")
_NAMES_AT_ONCE = 1_000_000
_LINE_BYTES_MAX = 4 * limits.RECIPIENT_CHARACTERS_MAX + len(b"\r\n")


def names_of(given: str) -> Iterator[pa.StringArray]:
    """The names, some at a time. `-` is standard input."""
    counting = _PATTERN.fullmatch(given)
    if counting is not None:
        yield from _counted(counting)
    elif given == "-":
        yield from _lines(sys.stdin.buffer)
    else:
        with Path(given).open("rb") as file:
            yield from _lines(file)


def _counted(pattern: re.Match[str]) -> Iterator[pa.StringArray]:
    """`user-{1..100}`; `{001..100}` pads with zeros, as a shell does."""
    first, last = int(pattern["first"]), int(pattern["last"])
    if last < first:
        raise InvalidRequest(f"{{{pattern['first']}..{pattern['last']}}} counts down. Give the smaller number first.")
    _check_number(last - first + 1)
    padded = any(len(text) > 1 and text.startswith("0") for text in (pattern["first"], pattern["last"]))
    width = max(len(pattern["first"]), len(pattern["last"])) if padded else 0
    for start in range(first, last + 1, _NAMES_AT_ONCE):
        numbers = pa.array(np.arange(start, min(start + _NAMES_AT_ONCE, last + 1), dtype=np.int64))
        texts = pc.utf8_lpad(numbers.cast(pa.string()), width, "0")
        before, after, nothing = (pa.repeat(text, len(texts)) for text in (pattern["before"], pattern["after"], ""))
        yield cast("pa.StringArray", pc.binary_join_element_wise(before, texts, after, nothing))


def _lines(file: IO[bytes]) -> Iterator[pa.StringArray]:
    """The lines that are not empty."""
    number, names, texts = 0, 0, list[str]()
    while line := file.readline(_LINE_BYTES_MAX + 1):
        number += 1
        text = _name(line, number)
        if text:
            texts.append(text)
            names += 1
            _check_number(names)
        if len(texts) == _NAMES_AT_ONCE:
            yield string_array(texts)
            texts.clear()
    if texts:
        yield string_array(texts)


def _name(line: bytes, number: int) -> str:
    try:
        text = line.decode(errors="ignore" if len(line) > _LINE_BYTES_MAX else "strict").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"Line {number:,} is not UTF-8. Give a file of names, one a line.") from error
    if len(line) > _LINE_BYTES_MAX or len(text) > limits.RECIPIENT_CHARACTERS_MAX:
        raise InvalidRequest(
            f"Line {number:,} has more than {limits.RECIPIENT_CHARACTERS_MAX} characters, the most a recipient's name has."
        )
    return text


def _check_number(names: int) -> None:
    if names > limits.CHECKED_NAMES_MAX:
        raise InvalidRequest(f"These are more than {limits.CHECKED_NAMES_MAX:,} names. Give fewer.")
