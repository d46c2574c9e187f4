"""One recipient of the reference hub, and its bundles."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from uuid import uuid4

import msgspec
import pyarrow as pa

from restante import errors, limits
from restante.client.surface import surface
from restante.client.surface.surface import Reason
from restante.model.publishing.message import Message, State
from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort

from . import intake
from .intake import as_time, canonical_uuid, is_id, page_size
from .mailbox import BundleRecord, Cabinet, Letter, Limits, Mailbox, weight_limit
from .office import Office


class ReferenceRecipient:
    def __init__(self, office: Office, name: str) -> None:
        self.office = office
        self.name = name

    @contextmanager
    def _mailbox(self) -> Iterator[Mailbox]:
        with self.office.store.changed:
            yield self.office.store.mailbox(self.name)

    @property
    def _now(self) -> int:
        return self.office.clock()

    # Collecting.

    def peek(
        self,
        *,
        origins: Sequence[str] = (),
        origin_groups: Sequence[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> ReferenceBundle | None:
        shape = _shape(max_messages, max_weight)
        proposed = None if bundle_id is None else _required_uuid(bundle_id)
        with self._mailbox() as mailbox:
            requested = self._requested(mailbox, origins, origin_groups)
            self._await(mailbox, requested, wait)
            record = mailbox.open_bundle_among(requested)
            if record is None:
                _check_unused(mailbox, proposed)
                record = self._opened(mailbox, requested, shape, proposed, format)
            elif proposed not in (None, record.bundle_id):
                raise errors.BundleOpen("another bundle is open", bundle_id=record.bundle_id)
            return None if record is None else self._answer(record, format)

    def _await(self, mailbox: Mailbox, requested: set[str] | None, wait: float) -> None:
        changed = self.office.store.changed
        changed.wait_for(lambda: self._would_answer(mailbox, requested), min(wait, limits.WAIT_SECONDS_MAX))

    def _would_answer(self, mailbox: Mailbox, requested: set[str] | None) -> bool:
        first = mailbox.first_deliverable(requested, self.office.settings, self._now)
        return mailbox.open_bundle_among(requested) is not None or first is not None

    def _requested(self, mailbox: Mailbox, origins: Sequence[str], groups: Sequence[str]) -> set[str] | None:
        """The origins asked for; None stands for all."""
        if not origins and not groups:
            return None
        settings = self.office.settings
        stored = {letter.message.origin for letter in mailbox.letters}
        known = {*settings.origin_groups, *map(settings.group_of, {*settings.origins, *stored})}
        if not known.issuperset(groups):
            raise errors.InvalidRequest("there is no such origin group")
        return {*origins, *(origin for origin in stored if settings.group_of(origin) in groups)}

    def _opened(
        self, mailbox: Mailbox, requested: set[str] | None, shape: Limits, bundle_id: str | None, format: str | None
    ) -> BundleRecord | None:
        now, settings = self._now, self.office.settings
        first = mailbox.first_deliverable(requested, settings, now)
        if first is None:
            return None
        letters = mailbox.bundled_with(first, shape, settings, now)
        record = BundleRecord(bundle_id or self.office.new_bundle_id(), str(uuid4()), letters, opened_at=now)
        record.format = None if first.inline else format or "json"
        mailbox.bundles[record.bundle_id] = record
        mailbox.settle_passed(record, now)
        return record

    def _answer(self, record: BundleRecord, format: str | None) -> ReferenceBundle:
        if not record.letters[0].inline:
            if format not in (None, record.format):
                raise errors.BundleOpen("the open bundle has another format", bundle_id=record.bundle_id)
            record.content = record.content or self._fetched(record)
        return ReferenceBundle(self, record)

    def _fetched(self, record: BundleRecord) -> Content:
        content = self.office.origins[record.origin].content
        assert content is not None
        assert record.format is not None
        request = ContentRequest(
            request_id=record.request_id,
            bundle_id=record.bundle_id,
            recipient=self.name,
            format=record.format,
            message_ids=_ids(record),
        )
        try:
            delivered = content(request)
        except Exception as error:
            record.delivery_failed = True
            raise errors.OriginDidNotDeliver("ask again", bundle_id=record.bundle_id) from error
        if len(delivered.data) > limits.CONTENT_BYTES_MAX:
            record.delivery_failed = True
            raise errors.OriginDidNotDeliver("the content is too large", bundle_id=record.bundle_id)
        return delivered

    def bundles(
        self,
        *,
        origins: Sequence[str] = (),
        origin_groups: Sequence[str] = (),
        max_messages: int | None = None,
        max_weight: int | None = None,
        idle: float | None = None,
    ) -> Iterator[ReferenceBundle]:
        idle_since = time.monotonic()
        while True:
            left = limits.WAIT_SECONDS_MAX if idle is None else max(0.0, idle_since + idle - time.monotonic())
            found = self.peek(
                origins=origins,
                origin_groups=origin_groups,
                max_messages=max_messages,
                max_weight=max_weight,
                wait=left,
            )
            if found is not None:
                yield found
                idle_since = time.monotonic()
            elif idle is not None and time.monotonic() >= idle_since + idle:
                return

    def dequeue(self, bundle_id: str) -> surface.Dequeued:
        bundle_id = _required_uuid(bundle_id)
        with self._mailbox() as mailbox:
            record = mailbox.bundles.get(bundle_id)
            if record is None:
                raise errors.BundleUnknown("there is no such bundle")
            if record.dequeued_at is not None:
                raise errors.BundleUnknown("dequeued before", dequeued_at=as_time(record.dequeued_at))
            self.office.record_change(self.name, record.letters)
            mailbox.collect(record, self._now)
            self._tell(record)
            self.office.store.changed.notify_all()
            return surface.Dequeued(bundle_id=bundle_id, messages=len(record.letters))

    def _tell(self, record: BundleRecord) -> None:
        """The origin is told until it takes it, under one request id."""
        port = self.office.origins.get(record.origin, OriginPort())
        notice = DequeuedNotice(
            request_id=record.request_id,
            bundle_id=record.bundle_id,
            recipient=self.name,
            message_ids=_ids(record),
        )
        taken = port.dequeued is None
        while port.dequeued is not None and not taken:
            with suppress(Exception):
                port.dequeued(notice)
                taken = True

    # Looking.

    def explain(self, *, origins: Sequence[str] = (), origin_groups: Sequence[str] = ()) -> surface.Explanation:
        with self._mailbox() as mailbox:
            reason = self._reason(mailbox, self._requested(mailbox, origins, origin_groups))
            return surface.Explanation(
                reason=reason,
                text=reason.value,
                waiting=_waiting(mailbox.waiting(self._now)),
                open_bundles=tuple(map(self._shown_bundle, mailbox.open_bundles())),
                not_yet_visible=0,
            )

    def _reason(self, mailbox: Mailbox, requested: set[str] | None) -> Reason:
        if not mailbox.letters:
            return Reason.RECIPIENT_UNKNOWN
        record = mailbox.open_bundle_among(requested)
        if record is not None and record.delivery_failed and record.content is None:
            return Reason.ORIGIN_DID_NOT_DELIVER
        if self._would_answer(mailbox, requested):
            return Reason.READY
        waiting = [
            letter for letter in mailbox.available(self._now) if requested is None or letter.message.origin in requested
        ]
        return Reason.BUNDLE_OPEN_IN_GROUP if waiting else Reason.NOTHING_WAITING

    def _shown_bundle(self, record: BundleRecord) -> surface.OpenBundle:
        return surface.OpenBundle(
            bundle_id=record.bundle_id,
            origin=record.origin,
            origin_group=self.office.settings.group_of(record.origin),
            messages=len(record.letters),
            opened_at=as_time(record.opened_at),
        )

    def history(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | str | None = None,
        limit: int | None = None,
    ) -> surface.HistoryPage:
        state = None if state is None else State(state)
        with self._mailbox() as mailbox:
            shown = [self._shown(mailbox, letter) for letter in mailbox.letters]
        found = [
            message
            for message in shown
            if (after is None or _number(message) > after)
            and (before is None or _number(message) < before)
            and (state is None or message.state is state)
        ]
        backwards = before is not None and after is None
        page = found[-page_size(limit) :] if backwards else found[: page_size(limit)]
        more = len(page) < len(found)
        return surface.HistoryPage(
            messages=tuple(page), next=_number(page[0 if backwards else -1]) if more and page else None
        )

    def find(self, message_id: str) -> Message:
        with self._mailbox() as mailbox:
            return self._shown(mailbox, _known(mailbox, message_id))

    def _shown(self, mailbox: Mailbox, letter: Letter) -> Message:
        return msgspec.structs.replace(
            letter.message,
            sequence_number=letter.number,
            published_at=as_time(letter.published_at),
            collected_at=as_time(letter.settled_at) if letter.state is State.COLLECTED else None,
            state=mailbox.state_of(letter, self._now),
        )

    # Settling by hand.

    def withdraw(self, message_id: str) -> None:
        with self._mailbox() as mailbox:
            letter = _within_reach(mailbox, message_id)
            state = mailbox.state_of(letter, self._now)
            if letter.state in (State.WAITING, State.SET_ASIDE):
                self.office.record_change(self.name, [letter])
                letter.settle(State.EXPIRED if state is State.EXPIRED else State.WITHDRAWN, self._now)

    def set_aside(self, message_id: str) -> None:
        with self._mailbox() as mailbox:
            letter = _within_reach(mailbox, message_id)
            if mailbox.state_of(letter, self._now) in (State.EXPIRED, State.WITHDRAWN):
                raise errors.MessageSettled("it waits no longer")
            if letter.state is State.WAITING:
                self.office.record_change(self.name, [letter])
                letter.settle(State.SET_ASIDE, self._now)

    def release(self, message_id: str) -> None:
        with self._mailbox() as mailbox:
            letter = _within_reach(mailbox, message_id)
            state = mailbox.state_of(letter, self._now)
            if state in (State.EXPIRED, State.WITHDRAWN):
                raise errors.MessageSettled("it is not set aside")
            if state is State.SET_ASIDE:
                self._put_back(mailbox, letter)
                self.office.store.changed.notify_all()

    def _put_back(self, mailbox: Mailbox, letter: Letter) -> None:
        number = self.office.take_number(self.name)
        letter.settle(State.WAITING, 0)
        if not mailbox.keeps_its_place(letter):
            letter.number = number
            mailbox.letters.sort(key=lambda each: each.number)

    def purge(
        self,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
    ) -> int:
        filters = any(given is not None for given in (origin, kind, before))
        if (all and filters) or not (all or filters or dry_run):
            raise errors.InvalidRequest("a purge has filters, or is of all")

        def matches(letter: Letter) -> bool:
            same = origin in (None, letter.message.origin) and kind in (None, letter.message.kind)
            return same and (before is None or as_time(letter.published_at) < before)

        with self._mailbox() as mailbox:
            found = mailbox.purgeable(matches, self._now)
            if not dry_run:
                self.office.record_change(self.name, found)
                for letter in found:
                    letter.settle(State.WITHDRAWN, self._now)
            return len(found)

    def erase(self, *, dry_run: bool = False) -> int:
        with self._mailbox() as mailbox:
            count = len(mailbox.letters)
            if not dry_run:
                mailbox.erase(self._now)
            return count


class ReferenceBundle:
    def __init__(self, recipient: ReferenceRecipient, record: BundleRecord) -> None:
        self._recipient = recipient
        self._record = record
        self.bundle_id = record.bundle_id
        self.recipient = recipient.name
        self.origin, self.kind = record.cabinet
        documents = dict.fromkeys(letter.message.document_type or "" for letter in record.letters)
        self.document_types = tuple(documents)
        self.message_count = len(record.letters)

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(
            msgspec.structs.replace(
                letter.message,
                sequence_number=letter.number,
                published_at=as_time(letter.published_at),
                state=State.WAITING,
            )
            for letter in self._record.letters
        )

    @property
    def raw_table(self) -> pa.Table:
        return self.table

    @property
    def table(self) -> pa.Table:
        return pa.table(
            {
                "id": [letter.message.id for letter in self._record.letters],
                "sequence_number": [letter.number for letter in self._record.letters],
                "data": pa.array([intake.stored_bytes(letter.message) for letter in self._record.letters], pa.binary()),
            }
        )

    @property
    def content(self) -> bytes | None:
        return None if self._record.content is None else self._record.content.data

    @property
    def media_type(self) -> str | None:
        return None if self._record.content is None else self._record.content.media_type

    def dequeue(self) -> surface.Dequeued:
        return self._recipient.dequeue(self.bundle_id)


def _shape(max_messages: int | None, max_weight: int | None) -> Limits:
    if any(given is not None and given < 1 for given in (max_messages, max_weight)):
        raise errors.InvalidRequest("a bundle has at least one message and one unit of weight")
    return Limits(max_messages, weight_limit(max_weight))


def _check_unused(mailbox: Mailbox, bundle_id: str | None) -> None:
    if bundle_id in mailbox.bundles:
        raise errors.BundleIdUsed("that bundle id was used before", bundle_id=bundle_id)


def _required_uuid(text: str) -> str:
    canonical = canonical_uuid(text)
    if canonical is None:
        raise errors.InvalidRequest("an id is a UUID in its 36-character form")
    return canonical


def _known(mailbox: Mailbox, message_id: str) -> Letter:
    if not is_id(message_id):
        raise errors.InvalidRequest("an id is text that can stand in a URL")
    message_id = canonical_uuid(message_id) or message_id
    letter = mailbox.letter(message_id)
    if letter is not None:
        return letter
    if message_id in mailbox.erased:
        raise errors.MessageErased("erased for good")
    raise errors.MessageUnknown("there is no such message")


def _within_reach(mailbox: Mailbox, message_id: str) -> Letter:
    letter = _known(mailbox, message_id)
    if letter.state is State.COLLECTED:
        raise errors.MessageCollected("too late")
    holder = mailbox.bundle_holding(letter)
    if holder is not None:
        raise errors.BundleOpen("it is in an open bundle", bundle_id=holder.bundle_id)
    return letter


def _waiting(letters: list[Letter]) -> tuple[surface.Waiting, ...]:
    cabinets: dict[Cabinet, list[int]] = {}
    for letter in letters:
        cabinets.setdefault(letter.cabinet, []).append(letter.published_at)
    return tuple(
        surface.Waiting(origin=origin, kind=kind, messages=len(times), oldest=as_time(min(times)))
        for (origin, kind), times in cabinets.items()
    )


def _ids(record: BundleRecord) -> tuple[str, ...]:
    return tuple(letter.message.id or "" for letter in record.letters)


def _number(message: Message) -> int:
    assert message.sequence_number is not None
    return message.sequence_number
