"""The short way to publish a few messages that are plainly valid and plainly new.

If one message is not (it needs a closer look, its fingerprint is known, hashes collide), all of them go the long way,
which gives the same result more slowly. So nothing is refused or judged here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from restante import limits
from restante.hub.action_rows.accepted_rows import accept_letters
from restante.hub.engine.committed_runs import put_small_mailbag
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.live_mail import LiveMail
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing.delayed_memory import DelayedMemory
from restante.hub.publishing.holds import Holds
from restante.hub.publishing.publish_request import PublishRequest
from restante.model.access.access import EVERYTHING
from restante.model.actions.action_kind import ACTION_KIND
from restante.model.columns.hashing import Hashes, fingerprint
from restante.model.columns.hashing import fingerprints as fingerprints_of
from restante.model.live.committed_mail import Handed
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.producers.parcel_digest import digests_of_letters, of_batch
from restante.model.publishing.letters import letter_of
from restante.model.storage.handful import Handful, NameTable
from restante.model.storage.letter import Letter
from restante.model.storage.segment_frame import EncodedSegment
from restante.model.uuid_text import RANDOM_BYTES_PER_ID, few_uuids

_WORDS = struct.Struct("<2Q")
_COLUMN_MIN = 32
"""The number from which fingerprints are computed faster as a column than one by one."""


class _Bag:
    """The messages of a commit for one partition."""

    __slots__ = ("fingerprints", "following", "given", "handful")

    def __init__(self, names: NameTable) -> None:
        self.handful = Handful(names)
        self.fingerprints: list[int] = []
        self.given: list[int] = []
        """The fingerprints of messages with ids from their senders. Ids made here are new, and need no check."""
        self.following = 0
        """The number of the next message to be put into a receipt."""


def plan_few(core: Core, draft: RequestDraft, requests: Sequence[PublishRequest], beside: Sequence[Hashes]) -> bool:
    """Plan these small publishes if none needs a closer look; otherwise do nothing, and return False.

    `beside` are the fingerprints of the large publishes of the same commit.
    """
    letters = _letters(core, requests)
    if letters is None:
        return False
    locate, now = core.locate, core.clock()
    names, addresses = NameTable(core.deed.key), [locate(letter.recipient) for letter in letters]
    ids = _ids(core, letters, now)
    hashes = np.array([address.hash for address in addresses], np.uint64)
    bags = _bags(names, letters, addresses, ids, _fingerprints(hashes, ids), now)
    if not _as_asked(requests, addresses) or not _all_new(core, bags, beside):
        return False
    mailbags = _mailbags(bags, names.encoded())
    if mailbags is None:
        return False
    _take_digests(core, requests, letters)
    for encoded in mailbags:
        _store(core, draft, encoded, bags[encoded.group], now)
    draft.concerns.append(hashes)
    numbers = _give_receipts(requests, addresses, bags, now)
    mail = Handed(letters, ids, numbers, now)
    if ACTION_KIND in names.kinds:
        accept_letters(core, draft, letters, addresses, ids, numbers, now)
        mail = _without_actions(mail)
    draft.note(LiveMail).mail.append(mail)
    return True


def _without_actions(mail: Handed) -> Handed:
    """The messages for live connections: all but actions, which are no mail."""
    rows = [row for row, letter in enumerate(mail.letters) if letter.kind != ACTION_KIND]
    return Handed(
        [mail.letters[row] for row in rows],
        [mail.ids[row] for row in rows],
        [mail.numbers[row] for row in rows],
        mail.published_at,
    )


def _letters(core: Core, requests: Sequence[PublishRequest]) -> list[Letter] | None:
    letters, size, bytes_max = list[Letter](), 0, core.settings.data_bytes_max
    for request in requests:
        own = request.letters if request.letters is not None else _own_letters(core, request)
        if own is None:
            return None
        caller = request.caller
        origins = None if caller is EVERYTHING else caller.publishable()
        for letter in own:
            length = len(letter.data)
            if length > bytes_max or (origins is not None and letter.origin not in origins):
                return None
            size += length + len(letter.properties)
        letters += own
    return letters if size <= limits.COMMIT_FEW_BYTES_MAX else None


def _own_letters(core: Core, request: PublishRequest) -> list[Letter] | None:
    allowed, bytes_max = claim_check_origins(core), core.settings.data_bytes_max
    letters = []
    for message in request.messages:
        letter = letter_of(message, claim_check_origins=allowed, data_bytes_max=bytes_max)
        if letter is None:
            return None
        letters.append(letter)
    return letters


def _take_digests(core: Core, requests: Sequence[PublishRequest], letters: Sequence[Letter]) -> None:
    if all(request.numbers is None for request in requests):
        return
    at = 0
    for request in requests:
        end = at + request.count()
        if request.numbers is not None:
            request.digests = of_batch(digests_of_letters(letters[at:end], core.deed.key), request.batch)
        at = end


def _bags(
    names: NameTable,
    letters: Sequence[Letter],
    addresses: Sequence[MailboxAddress],
    ids: Sequence[bytes],
    fingerprints: Sequence[int],
    now: int,
) -> dict[int, _Bag]:
    """The letters by partition. All bags share one table of names, as on the long way."""
    bags: dict[int, _Bag] = {}
    for letter, address, own_id, own in zip(letters, addresses, ids, fingerprints, strict=True):
        bag = bags.get(address.partition)
        if bag is None:
            bag = bags[address.partition] = _Bag(names)
        bag.fingerprints.append(own)
        if letter.id:
            bag.given.append(own)
        bag.handful.add_letter(letter, own_id, address.hash, now)
    return bags


def _fingerprints(hashes: Hashes, ids: Sequence[bytes]) -> list[int]:
    """The fingerprint of each identity, computed as a column if that is faster."""
    if len(ids) < _COLUMN_MIN:
        return [fingerprint(own, *_WORDS.unpack(own_id)) for own, own_id in zip(hashes.tolist(), ids, strict=True)]
    words = np.frombuffer(b"".join(ids), "<u8").reshape(-1, 2)
    found: list[int] = fingerprints_of(hashes, words).tolist()
    return found


def _ids(core: Core, letters: Sequence[Letter], now: int) -> list[bytes]:
    """The id of each letter; a letter without an id gets a new one."""
    given = [letter.id for letter in letters]
    count = given.count(b"")
    if not count:
        return given
    made = few_uuids(count, now_ms=now // 1000, random=core.random(count * RANDOM_BYTES_PER_ID))
    if count == len(given):
        return made
    others = iter(made)
    return [own or next(others) for own in given]


def _as_asked(requests: Sequence[PublishRequest], addresses: Sequence[MailboxAddress]) -> bool:
    """Whether all letters are for the partition that their sender named, if any."""
    if all(request.partition is None for request in requests):
        return True
    at = 0
    for request in requests:
        end, asked = at + request.count(), request.partition
        if asked is not None and any(address.partition != asked for address in addresses[at:end]):
            return False
        at = end
    return True


def _all_new(core: Core, bags: dict[int, _Bag], beside: Sequence[Hashes]) -> bool:
    """Whether all messages with given ids are surely new: no fingerprint is known, held, or occurs twice."""
    if beside:
        own = np.array([one for bag in bags.values() for one in bag.fingerprints], np.uint64)
        if any(np.isin(own, other).any() for other in beside):
            return False
    delayed, held = core.memory(DelayedMemory), core.memory(Holds)
    for partition, bag in bags.items():
        fingerprints = bag.given
        if not fingerprints:
            continue
        if held and held.met(partition, np.array(fingerprints, np.uint64)).any():
            return False
        if len(fingerprints) > 1 and len(set(fingerprints)) < len(fingerprints):
            return False
        if core.partitions[partition].knows_any(fingerprints) or delayed.knows_any(fingerprints):
            return False
    return True


def _mailbags(bags: dict[int, _Bag], names: bytes) -> list[EncodedSegment] | None:
    mailbags = []
    for partition, bag in bags.items():
        encoded = bag.handful.encoded(partition, names)
        if encoded is None:
            return None
        mailbags.append(encoded)
    return mailbags


def _store(core: Core, draft: RequestDraft, encoded: EncodedSegment, bag: _Bag, now: int) -> None:
    """Number a partition's letters and put their mailbag into the draft."""
    bag.following = put_small_mailbag(core, draft, encoded, bag.fingerprints, now)
    draft.arrived.append(bag.fingerprints)


def _give_receipts(
    requests: Sequence[PublishRequest], addresses: Sequence[MailboxAddress], bags: dict[int, _Bag], now: int
) -> list[int]:
    """Answer each request; return the number of each letter."""
    at, given = 0, list[int]()
    for request in requests:
        count, request.published_at = request.count(), now
        if count == 1:
            partition = addresses[at].partition
            bag = bags[partition]
            number = bag.following
            request.result = _receipt_of_one(partition, number)
            given.append(number)
            bag.following, at = number + 1, at + 1
            if request.hear_rows is not None:
                _tell_rows(request, given[-1:])
            continue
        numbers: dict[int, list[int]] = {}
        for address in addresses[at : at + count]:
            partition = address.partition
            bag = bags[partition]
            numbers.setdefault(partition, []).append(bag.following)
            given.append(bag.following)
            bag.following += 1
        receipts = [
            PartitionReceipt(partition=partition, first_sequence_number=own[0], last_sequence_number=own[-1])
            for partition, own in sorted(numbers.items())
        ]
        request.result = Receipt(accepted=count, duplicates=0, partitions=tuple(receipts))
        at += count
        _tell_rows(request, given[-count:])
    return given


def _tell_rows(request: PublishRequest, numbers: Sequence[int]) -> None:
    if request.hear_rows is not None:
        request.hear_rows(np.arange(len(numbers)), np.array(numbers))


def _receipt_of_one(partition: int, number: int) -> Receipt:
    stored = PartitionReceipt(partition=partition, first_sequence_number=number, last_sequence_number=number)
    return Receipt(accepted=1, duplicates=0, partitions=(stored,))
