"""The ids of messages, applied to columns: UUIDs as they are, other texts by the UUIDs that stand for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante import limits
from restante.model.columns.arrays import Words
from restante.model.columns.arrow import Column, column_of, nulls_of, words_of
from restante.model.columns.text_ids import words_of_texts
from restante.model.columns.texts import as_bytes
from restante.model.columns.uuids import parse_uuids
from restante.model.publishing.draft import DraftColumns
from restante.model.publishing.text_rules import TextRule, given_texts, name_problems
from restante.model.publishing.validation import Faults

_RULE = TextRule("id", limits.ID_CHARACTERS_MAX, lambda texts: name_problems(texts, "id"))


@dataclass(frozen=True, slots=True)
class MessageIds:
    """The ids of all messages; those that are missing or wrong are zero."""

    words: Words
    given: NDArray[np.bool_]
    """The sender gave one that is right."""
    texts: Column | None
    """The ids that are no UUIDs, null in the other rows. None: all ids are UUIDs, or missing."""

    def united(self, other: MessageIds) -> MessageIds:
        """Ids where the sender gave them, else the others."""
        words = np.where(self.given[:, None], self.words, other.words)
        texts = [column for column in (self.texts, other.texts) if column is not None]
        return MessageIds(words, self.given | other.given, pc.coalesce(*texts) if texts else None)


def checked_ids(draft: DraftColumns, faults: Faults) -> tuple[MessageIds, NDArray[np.bool_]]:
    """The ids, and which rows gave none."""
    nobody = np.zeros(draft.n, np.bool_)
    ids = (
        MessageIds(np.zeros((draft.n, 2), np.uint64), nobody, None)
        if draft.id is None
        else _of_column(draft.id, faults)
    )
    if draft.text_id is not None:
        kept = _of_column(draft.text_id, faults)
        differ = ids.given & kept.given & (ids.words != kept.words).any(axis=1)
        faults.add(
            np.flatnonzero(differ), "id", "id and text_id are not the same id: give one of them, or leave one null"
        )
        ids = ids.united(kept)
    return ids, faults.without(~ids.given, "id")


def _of_column(column: Column, faults: Faults) -> MessageIds:
    if pa.types.is_fixed_size_binary(column.type):
        words, given = words_of(column), ~nulls_of(column)
        return MessageIds(np.where(given[:, None], words, np.uint64(0)) if column.null_count else words, given, None)
    words, given = parse_uuids(column)
    others = ~given & ~nulls_of(column)
    return (
        _with_texts(column, MessageIds(words, given, None), others, faults)
        if others.any()
        else MessageIds(words, given, None)
    )


def _with_texts(column: Column, ids: MessageIds, others: NDArray[np.bool_], faults: Faults) -> MessageIds:
    """The ids of a column in which some rows are no UUIDs."""
    content = as_bytes(column)
    texts = given_texts(pc.if_else(column_of(others), content, pa.scalar(None, content.type)), _RULE, faults)
    right = texts.codes >= 0
    words = ids.words.copy()
    words[right] = words_of_texts(texts.values)[texts.codes[right]]
    codes: Column = pa.array(texts.codes, mask=~right)
    named = texts.values.take(codes)
    return MessageIds(words, ids.given | right, named if right.any() else None)
