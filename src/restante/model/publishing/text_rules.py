"""The rules for texts, applied to the distinct values of a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.model.columns.arrow import (
    Column,
    binaries_of,
    bytes_of,
    column_of,
    numbers_of,
    offsets_of,
    string_array,
    strings_of,
    texts_of,
)
from restante.model.columns.json_documents import is_utf8
from restante.model.columns.texts import Texts, encode_bytes
from restante.model.names import CONTROL, name_problem
from restante.model.publishing.validation import Faults

Problems = dict[int, str]
"""The problems with the values of a text column, by their code."""
_LEAD = 0xC2
"""The byte that control characters beyond ASCII begin with in UTF-8."""


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule for the texts of one field."""

    field: str
    characters_max: int
    further: Callable[[pa.StringArray], Problems] | None = None

    def allowed(self) -> str:
        return f"{self.field} must have 1 to {self.characters_max} characters"


def name_problems(names: pa.StringArray, field: str) -> Problems:
    """Which names cannot stand in a URL."""
    suspects = np.diff(offsets_of(names)) <= 2
    content = bytes_of(names)
    if ((content < 0x20) | (content == 0x7F) | (content == _LEAD)).any():
        suspects = suspects | numbers_of(pc.match_substring_regex(names, CONTROL))
    rows = np.flatnonzero(suspects)
    found = zip(rows.tolist(), map(name_problem, strings_of(names.take(column_of(rows)))), strict=True)
    return {row: f"{field} {problem}" for row, problem in found if problem is not None}


def texts_or_default(column: Column | None, rule: TextRule, default: Texts, faults: Faults) -> Texts:
    """The texts that were given and are right; the other rows take the default."""
    return default if column is None else given_texts(column, rule, faults).filled(default)


def required_texts(column: Column | None, rule: TextRule, placeholder: Texts, faults: Faults) -> Texts:
    """The texts that were given and are right; the other rows are faults."""
    texts = Texts(np.full(len(placeholder), -1, np.int32), string_array([]))
    if column is not None:
        texts = given_texts(column, rule, faults)
    faults.add(np.flatnonzero(texts.codes < 0), rule.field, f"{rule.field} is required: {rule.allowed()}")
    return texts.filled(placeholder)


def given_texts(column: Column, rule: TextRule, faults: Faults) -> Texts:
    """The texts that were given and are right, with the code -1 in the other rows."""
    codes, values = encode_bytes(column)
    texts, problems = _problems(values, rule)
    if problems:
        wrong = np.isin(codes, list(problems))
        faults.add(np.flatnonzero(wrong), rule.field, lambda row: problems[int(codes[row])])
        codes = np.where(wrong, np.int32(-1), codes)
    return Texts(codes, texts)


def _problems(values: pa.BinaryArray, rule: TextRule) -> tuple[pa.StringArray, Problems]:
    """The values as texts, and what is wrong with them; the latest found is the plainest."""
    texts, broken = _readable(values)
    problems = rule.further(texts) if rule.further is not None else {}
    lengths = numbers_of(pc.utf8_length(texts))
    for code in np.flatnonzero(numbers_of(pc.utf8_is_space(texts)) | (lengths == 0)).tolist():
        problems[code] = f"{rule.allowed()}, and not be blank"
    for code in np.flatnonzero(lengths > rule.characters_max).tolist():
        problems[code] = f"{rule.allowed()}, not {lengths[code]}"
    return texts, problems | dict.fromkeys(broken, f"{rule.field} must be valid Unicode text")


def _readable(values: pa.BinaryArray) -> tuple[pa.StringArray, list[int]]:
    """The values as texts, and which are no UTF-8: those become a text of one character."""
    texts = texts_of(values)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        listed = binaries_of(values)
        broken = [code for code, value in enumerate(listed) if not is_utf8(value)]
        return string_array([value.decode() if is_utf8(value) else "?" for value in listed]), broken
    return texts, []
