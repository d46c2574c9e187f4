"""A routed publish cut into one part for each shard, and what became of the parts put together.

The whole body is checked first, and messages get their ids, before anything is sent. So each part may be sent again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from restante.calls.call import Call
from restante.calls.consignments import StageParcel
from restante.calls.publishing import Publish
from restante.calls.shards import JudgeMessages
from restante.cluster.call_values import LetterFields, PublishLetters
from restante.cluster.shard_lines import ShardLines, is_silent
from restante.errors import (
    Fault,
    FaultyMessages,
    InvalidRequest,
    NotOwner,
    PartlyAnswered,
    PartlyStored,
    RestanteError,
)
from restante.model.access.access import Grant
from restante.model.access.origin_access import check_origins, foreign
from restante.model.consignments.stageable_messages import check_stageable
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.parcel_digest import digests_of_columns
from restante.model.publishing import intake
from restante.model.publishing.broadcast import spread
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, UndecodedBody, few_or_many
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import Message, MessageColumns
from restante.model.publishing.refusals import Flawed, merged, refusal
from restante.model.publishing.validation import comparable_rows, misplaced
from restante.model.shards.ranges import shard_of
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partitions_of
from restante.model.storage.rows import MADE_ID
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, few_uuids
from restante.server.doors.refused_parts import FlawedSend, JudgedPart, check_together
from restante.settings import Settings
from restante.wire.media import ARROW
from restante.wire.publish import columns_stream

_GRAVEST = ("message_conflict", "message_erased", "invalid_message", "partition_mismatch")
"""The codes that win among several refusals, the gravest first; then come all others that no repetition helps against."""


class ShardPart(NamedTuple):
    """The part that one shard gets: a call, and where its messages stand in the body."""

    shard: int
    call: Call[Receipt]
    rows: Sequence[int]
    body: EncodedPublish = EncodedPublish("", b"")
    """The messages, unless the call has them as letters."""


class StagedCut(NamedTuple):
    """A parcel of a consignment, cut."""

    parts: list[ShardPart]
    digest: bytes
    """The digest of all of it."""


class Parts(NamedTuple):
    """A publish, cut."""

    parts: list[ShardPart]
    made: tuple[str, ...]
    """The ids that were made for messages whose sender gave none."""


class PublishCut:
    """Cuts publishes by the shards of their recipients, under the rules that the settings give."""

    def __init__(
        self, lines: ShardLines, settings: Settings, claim_checks: frozenset[str] | None = None, key: int = 0
    ) -> None:
        self._lines = lines
        self._key = key
        """The key of all hashes, as one process has it: so a parcel that was staged there is the same here."""
        self._bytes_max = settings.data_bytes_max
        asked = frozenset(name for name, origin in settings.origins.items() if origin.content_url)
        self._claim_checks = asked if claim_checks is None else claim_checks
        """The origins whose messages may come without data."""

    def few(self, call: Publish, sent: Few, caller: Grant) -> Parts | None:
        """The parts of a few messages that are plainly right; None if the rules have to take a closer look."""
        if call.batch is not None or call.source is not None:
            return None
        letters = self._letters(sent)
        return self.letters(letters, caller) if letters else None

    def plain_letters(self, sent: Few, caller: Grant) -> Sequence[Letter] | None:
        """A few messages that are plainly right and the caller's to send; None if the rules have to take a closer look."""
        letters = self._letters(sent)
        allowed = caller.publishable()
        for letter in letters or ():
            if allowed is not None and letter.origin not in allowed:
                raise foreign(caller, letter.origin)
        return letters or None

    def checked_columns(self, sent: Few | Many | EncodedPublish, caller: Grant) -> MessageColumns:
        """Any messages as columns; all that is wrong with them is raised."""
        columns = self._checked(sent)
        check_origins(caller, columns.origin)
        return columns

    def _letters(self, sent: Few) -> list[Letter] | None:
        letters = []
        for message in sent.messages:
            letter = self._letter(message)
            if letter is None:
                return None
            letters.append(letter)
        return letters

    def _letter(self, message: object) -> Letter | None:
        if type(message) is not Message:
            return None
        return letter_of(message, claim_check_origins=self._claim_checks, data_bytes_max=self._bytes_max)

    def letters(self, letters: Sequence[Letter], caller: Grant) -> Parts | None:
        """The parts of messages that are plainly right, if their data is not too long."""
        allowed = caller.publishable()
        rows: dict[int, list[int]] = {}
        missing = 0
        for row, letter in enumerate(letters):
            if len(letter.data) > self._bytes_max:
                return None
            if allowed is not None and letter.origin not in allowed:
                raise foreign(caller, letter.origin)
            missing += not letter.id
            rows.setdefault(self._lines.of_name(letter.recipient), []).append(row)
        fields, made = _with_ids(letters, missing)
        parts = [
            ShardPart(shard, PublishLetters(tuple([fields[row] for row in own])), own) for shard, own in rows.items()
        ]
        return Parts(parts, made)

    def columns(self, call: Publish, caller: Grant) -> Parts:
        """The parts of any publish; all that is wrong with it is raised."""
        columns = self._right(call.sent, caller)
        check_together(call, columns, _now_us())
        missing = columns.made_id
        columns = _columns_with_ids(columns)
        made = tuple(columns.id_texts(np.flatnonzero(missing)))
        return Parts([self._part(call, *one) for one in self._by_shard(columns)], made)

    def goes_as_letters(self, call: Publish) -> bool:
        """Whether a publish is of few messages that are plainly right, and says nothing that letters cannot."""
        if (
            not isinstance(call.sent, Few)
            or call.batch is not None
            or call.source is not None
            or call.accept is not None
        ):
            return False
        return bool(self._letters(call.sent))

    def few_of_parcel(self, call: Publish, partition: int, caller: Grant) -> PublishLetters | None:
        """A publish of few messages to one partition as letters; None if the rules have to take a closer look.

        It may be carried more than once, because messages without numbers have ids.
        """
        if not isinstance(call.sent, Few) or call.accept is not None:
            return None
        cut = self.few(call, call.sent, caller)
        if cut is None or [part.shard for part in cut.parts] != [self._lines.of_partition(partition)]:
            return None
        own = cut.parts[0].call
        assert isinstance(own, PublishLetters), "few messages are carried as letters"
        if call.producer is not None:
            # Numbers know it by a digest of what was sent, in which ids that were made have no part.
            own = PublishLetters(tuple(map(msgspec.structs.astuple, self._letters(call.sent) or ())))
        return msgspec.structs.replace(own, partition=partition, producer=call.producer)

    def parcel(self, call: Publish, partition: int) -> Publish:
        """Any publish to one partition, as it is carried, perhaps more than once; all that is wrong with it is raised."""
        if _is_known(call) and isinstance(call.sent, Many) and isinstance(call.sent.content, UndecodedBody):
            return msgspec.structs.replace(call, sent=EncodedPublish(ARROW, call.sent.content.body))
        columns, faults = self._taken(call.sent)
        if faults:
            raise FlawedSend(columns, faults, partition)
        own = columns if _is_known(call) else _columns_with_ids(columns)
        return msgspec.structs.replace(call, sent=EncodedPublish(ARROW, columns_stream(own, None)))

    def staged(self, call: StageParcel, caller: Grant) -> StagedCut:
        """The parts of a parcel that is staged. Ids are made by the shards: it is known by its name and its digest."""
        columns = self._right(call.sent, caller)
        check_stageable(columns, _now_us())
        digest = digests_of_columns(columns, self._key).whole
        return StagedCut([self._part(None, *one) for one in self._by_shard(columns)], digest)

    def _by_shard(self, columns: MessageColumns) -> list[tuple[int, MessageColumns, list[int]]]:
        own = partitions_of(columns.recipient.values, self._lines.partition_count)
        shards = np.array([shard_of(self._lines.ranges, number) for number in own.tolist()], np.int64)
        by_row = shards[columns.recipient.codes] if len(columns) else np.zeros(0, np.int64)
        found = np.unique(by_row).tolist() or [0]
        rows = [np.flatnonzero(by_row == shard) for shard in found]
        return [
            (shard, columns if len(own) == len(columns) else columns.take(own), own.tolist())
            for shard, own in zip(found, rows, strict=True)
        ]

    def check(self, messages: Sequence[Message]) -> None:
        """Raise what is wrong with messages."""
        self._checked(few_or_many(messages))

    def check_parcel(self, call: Publish, partition: int) -> None:
        """Raise what is wrong with a parcel, recipients of other partitions included."""
        columns, faults = self._taken(call.sent)
        if faults or misplaced(columns, faults, partition, self._lines.partition_count):
            raise FlawedSend(columns, faults, partition)

    def judged_parts(self, flawed: FlawedSend) -> list[JudgedPart]:
        """The parts of refused messages that each shard is to look at."""
        rows = comparable_rows(flawed.columns, flawed.faults)
        found = self._by_shard(flawed.columns.take(rows)) if len(rows) else []
        return [
            JudgedPart(shard, JudgeMessages(EncodedPublish(ARROW, columns_stream(columns, None))), rows[own].tolist())
            for shard, columns, own in found
        ]

    def _part(self, call: Publish | None, shard: int, columns: MessageColumns, rows: Sequence[int]) -> ShardPart:
        body = EncodedPublish(ARROW, columns_stream(columns, None))
        sent = Publish(body) if call is None else msgspec.structs.replace(call, sent=body)
        return ShardPart(shard, sent, rows, body)

    def _right(self, sent: Few | Many | EncodedPublish, caller: Grant) -> MessageColumns:
        """Messages as columns; `FlawedSend` has those in which something is wrong."""
        columns, faults = self._taken(sent)
        if faults:
            raise FlawedSend(columns, faults)
        check_origins(caller, columns.origin)
        return columns

    def _checked(self, sent: Few | Many | EncodedPublish) -> MessageColumns:
        columns, faults = self._taken(sent)
        if faults:
            raise refusal(faults)
        return columns

    def _taken(self, sent: Few | Many | EncodedPublish) -> tuple[MessageColumns, list[Fault]]:
        assert not isinstance(sent, EncodedPublish), "a server has decoded what it was sent"
        content = sent.messages if isinstance(sent, Few) else sent.content
        if isinstance(content, UndecodedBody):
            content = content.decode()
        rules = {"claim_check_origins": self._claim_checks, "data_bytes_max": self._bytes_max}
        if isinstance(content, Flawed):
            columns, faults = intake.from_messages(content.messages, **rules)  # type: ignore[arg-type]
            return columns, merged(content.faults, faults)
        if isinstance(content, Sequence):
            return intake.from_messages(_messages(content), **rules)  # type: ignore[arg-type]
        return intake.from_arrow(content, **rules)  # type: ignore[arg-type]


def _is_known(call: Publish) -> bool:
    """Whether a publish that is repeated is known by its numbers, or its messages by their positions in a source."""
    return call.producer is not None or call.source is not None


def _columns_with_ids(columns: MessageColumns) -> MessageColumns:
    """The same messages, with ids where their sender gave none."""
    random = os.urandom(int(columns.made_id.sum()) * RANDOM_BYTES_PER_ID)
    columns = intake.fill_made_ids(columns, now_ms=time.time_ns() // 1_000_000, random=random)
    return replace(columns, made_id=np.zeros(len(columns), np.bool_))


def _now_us() -> int:
    return time.time_ns() // 1_000


def _messages(content: Sequence[object]) -> Sequence[Message]:
    whole = spread(content)
    if any(type(message) is not Message for message in whole):
        raise InvalidRequest("Send a Message, a sequence of them, or an Arrow table (or a frame that can give one).")
    return whole


def _with_ids(letters: Sequence[Letter], missing: int) -> tuple[list[LetterFields], tuple[str, ...]]:
    """The fields of letters, with ids where there are none, and those ids."""
    fields: list[LetterFields] = [msgspec.structs.astuple(letter) for letter in letters]
    if not missing:
        return fields, ()
    ids = few_uuids(missing, now_ms=time.time_ns() // 1_000_000, random=os.urandom(missing * RANDOM_BYTES_PER_ID))
    fresh = iter(ids)
    for row, letter in enumerate(letters):
        if not letter.id:
            own = fields[row]
            fields[row] = (next(fresh), *own[1:7], letter.flags & ~MADE_ID, *own[8:])
    digits = [own.hex() for own in ids]
    return fields, tuple(f"{own[:8]}-{own[8:12]}-{own[12:16]}-{own[16:20]}-{own[20:]}" for own in digits)


async def publish_parts(lines: ShardLines, cut: Parts, caller: Grant) -> Receipt:
    """Send each shard its part, and put together what became of them."""
    if len(cut.parts) == 1:
        return await _alone(lines, cut, caller)
    sends = [lines.call(part.shard, part.call, caller) for part in cut.parts]
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    stored = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    failed = [(part, error) for part, error in zip(cut.parts, outcomes, strict=True) if not isinstance(error, Receipt)]
    receipt = joined(stored)
    if failed:
        raise _failure(failed, receipt, cut.made)
    return receipt


async def _alone(lines: ShardLines, cut: Parts, caller: Grant) -> Receipt:
    """Send the only part. It has all rows of the body, so the faults of the shard have the right rows already."""
    return await lines.call(cut.parts[0].shard, cut.parts[0].call, caller)


def joined(receipts: Sequence[Receipt]) -> Receipt:
    """One receipt for several parts."""
    return Receipt(
        accepted=sum([one.accepted for one in receipts]),
        duplicates=sum([one.duplicates for one in receipts]),
        partitions=tuple(sorted([own for one in receipts for own in one.partitions], key=lambda own: own.partition)),
        delayed=sum([one.delayed for one in receipts]),
        skipped=sum([one.skipped for one in receipts]),
    )


def _failure(
    failed: Sequence[tuple[ShardPart, BaseException]], stored: Receipt, made: tuple[str, ...]
) -> BaseException:
    """The gravest of what went wrong, with what is stored all the same."""
    for _, error in failed:
        if not isinstance(error, RestanteError):
            return error
    known = [(part, error) for part, error in failed if isinstance(error, RestanteError)]
    refused = [(part, error) for part, error in known if not (is_silent(error) or isinstance(error, NotOwner))]
    if not refused:
        return _partly(len(known), stored, made)
    _, gravest = min(refused, key=lambda one: _rank(one[1]))
    if isinstance(gravest, FaultyMessages):
        gravest = of_their_shards(in_the_body((part.rows, error) for part, error in refused))
    gravest.details["partitions"] = msgspec.to_builtins(stored.partitions)
    return gravest


def _rank(error: RestanteError) -> tuple[bool, int]:
    code = error.code
    return type(error).retriable, _GRAVEST.index(code) if code in _GRAVEST else len(_GRAVEST)


def in_the_body(refused: Iterable[tuple[Sequence[int], BaseException]]) -> FaultyMessages:
    """The faults of all parts, by where the messages stand in the body: each part has rows of it."""
    faults: list[Fault] = []
    for rows, error in refused:
        if isinstance(error, FaultyMessages):
            faults += [msgspec.structs.replace(fault, index=rows[fault.index]) for fault in error.faults]
    return refusal(sorted(faults, key=lambda fault: fault.index))


def of_their_shards(whole: FaultyMessages) -> FaultyMessages:
    """The refusal of some parts of a send, of which others may be stored."""
    whole.args = (whole.message.replace(", so none was;", ", so none was of their shards;"),)
    whole.message = str(whole.args[0])
    return whole


def _partly(silent: int, stored: Receipt, made: tuple[str, ...]) -> PartlyStored:
    """The error if some shards did not answer. A sender that gave ids may send all again; else the error says the made ids."""
    details: dict[str, object] = {"partitions": msgspec.to_builtins(stored.partitions)}
    if made:
        details["ids"] = list(made)
    again = "Send it again under these ids." if made else "Send it again: what is stored is skipped."
    kind = PartlyStored if made else PartlyAnswered
    return kind(f"{silent} of the shards did not answer in time, the others have stored theirs. {again}", **details)
