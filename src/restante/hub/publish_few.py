"""The short way to publish: a few messages that are plainly right and plainly new.

Whoever is not (something to look at more closely, a fingerprint that is known, hashes that collide) goes the long way
with all the others of the commit, which gives the same result, only later. So nothing is refused or judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from restante import limits
from restante.hub.core import Core
from restante.hub.mailbags import put_mailbag
from restante.hub.planning import Draft
from restante.model.answers import PartitionReceipt, Receipt
from restante.model.handful import Handful, NameTable, Routed, route
from restante.model.hashing import Hashes
from restante.model.letter import Letter, letter_of
from restante.model.segment import Encoded
from restante.model.uuids import RANDOM_BYTES_PER_ID, made_uuids

if TYPE_CHECKING:
    from restante.hub.publish import Publish

_ByPartition = dict[int, list[Routed]]


def plan_few(core: Core, draft: Draft, requests: Sequence[Publish], beside: Sequence[Hashes]) -> bool:
    """Plan these publishes, if they are few and nothing is special about any of them; else nothing is done.

    `beside` are the fingerprints of the large publishes of the same commit.
    """
    most = limits.COMMIT_FEW_MESSAGES_MAX
    if len(requests) > most or sum([len(request.messages) for request in requests]) > most:
        return False
    letters = _letters(core, requests)
    if letters is None:
        return False
    routed = _routed(core, letters)
    by_partition: _ByPartition = {}
    for one in routed:
        by_partition.setdefault(one.partition, []).append(one)
    if not _as_asked(requests, routed) or not _all_new(core, by_partition, beside):
        return False
    mailbags = _mailbags(core, routed)
    if mailbags is None:
        return False
    first = {encoded.group: _store(core, draft, encoded, by_partition[encoded.group]) for encoded in mailbags}
    draft.concerns.append(np.array([one.recipient_hash for one in routed], np.uint64))
    _give_receipts(requests, routed, first)
    return True


def _letters(core: Core, requests: Sequence[Publish]) -> list[Letter] | None:
    allowed = core.claim_check_origins()
    letters, size = [], 0
    for request in requests:
        for message in request.messages:
            letter = letter_of(message, claim_check_origins=allowed)
            if letter is None:
                return None
            letters.append(letter)
            size += len(letter.data) + len(letter.properties)
    return letters if size <= limits.COMMIT_FEW_BYTES_MAX else None


def _routed(core: Core, letters: Sequence[Letter]) -> list[Routed]:
    count = sum([not letter.id for letter in letters])
    made = b""
    if count:
        random = core.random(count * RANDOM_BYTES_PER_ID)
        made = made_uuids(count, now_ms=core.clock() // 1000, random=random).tobytes()
    ids = iter([made[at : at + 16] for at in range(0, len(made), 16)])
    addresses = [core.locate(letter.recipient) for letter in letters]
    return [
        route(letter, letter.id or next(ids), recipient_hash=address.hash, partition=address.partition)
        for letter, address in zip(letters, addresses, strict=True)
    ]


def _as_asked(requests: Sequence[Publish], routed: Sequence[Routed]) -> bool:
    """Whether everything is for the partition that its sender named, if any."""
    at = 0
    for request in requests:
        end = at + len(request.messages)
        if request.partition is not None and any(one.partition != request.partition for one in routed[at:end]):
            return False
        at = end
    return True


def _all_new(core: Core, by_partition: _ByPartition, beside: Sequence[Hashes]) -> bool:
    """Whether no fingerprint is known, nor there twice."""
    if beside:
        own = np.array([one.fingerprint for routed in by_partition.values() for one in routed], np.uint64)
        if any(np.isin(own, other).any() for other in beside):
            return False
    for partition, routed in by_partition.items():
        fingerprints = [one.fingerprint for one in routed]
        if len(set(fingerprints)) < len(fingerprints):
            return False
        if core.partitions[partition].knows_any(fingerprints):
            return False
    return True


def _mailbags(core: Core, routed: Sequence[Routed]) -> list[Encoded] | None:
    """The mailbag of each partition, with the names of them all, as on the long way."""
    names, now = NameTable(core.deed.key), core.clock()
    handfuls: dict[int, Handful] = {}
    for one in routed:
        handful = handfuls.get(one.partition)
        if handful is None:
            handful = handfuls[one.partition] = Handful(names)
        handful.add_letter(one, now)
    packed, mailbags = names.encoded(), []
    for partition, handful in handfuls.items():
        encoded = handful.encoded(partition, packed)
        if encoded is None:
            return None
        mailbags.append(encoded)
    return mailbags


def _store(core: Core, draft: Draft, encoded: Encoded, routed: Sequence[Routed]) -> int:
    """Number a partition's letters and put their mailbag into the draft; gives the first number."""
    partition = core.partitions[encoded.group]
    first = draft.add_messages(partition.number, len(routed))
    put_mailbag(core, draft, [encoded], first, len(routed))
    fingerprints = [one.fingerprint for one in routed]
    draft.applies.append(lambda: partition.remember_few(fingerprints, first))
    return first


def _give_receipts(requests: Sequence[Publish], routed: Sequence[Routed], following: dict[int, int]) -> None:
    """Answer the requests; `following` is the number that comes next in each partition."""
    at = 0
    for request in requests:
        count = len(request.messages)
        numbers: dict[int, list[int]] = {}
        for one in routed[at : at + count]:
            numbers.setdefault(one.partition, []).append(following[one.partition])
            following[one.partition] += 1
        receipts = [
            PartitionReceipt(partition=partition, first_sequence_number=own[0], last_sequence_number=own[-1])
            for partition, own in sorted(numbers.items())
        ]
        request.result = Receipt(accepted=count, duplicates=0, partitions=tuple(receipts))
        at += count
