"""`ReferenceHub`: mailboxes with the surface of `restante.client.surface`, obeying the rules as written, one call at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, Unpack

from msgspec import UNSET

from restante import errors
from restante.calls.publishing import Publish
from restante.client.batches.batch_view import BatchName
from restante.client.publishing.pipeline_sync import CallCarrier, Pipeline
from restante.client.publishing.sendable import MessageFields, sendable
from restante.client.surface import surface
from restante.errors import Fault
from restante.model.backplane.accept import AcceptName
from restante.model.publishing.few_or_many import Few, Many
from restante.model.publishing.message import Message

from . import intake
from .intake import as_microseconds, as_time, page_size
from .mailbox import Letter
from .office import Office
from .recipient import ReferenceRecipient


class ReferenceHub:
    """Also a `Producer`: sending is all that one does."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.store = office.store

    # Publishing.

    @property
    def producer(self) -> Self:
        return self

    def send(
        self,
        messages: object = UNSET,
        *,
        partition: int | None = None,
        batch: BatchName | None = None,
        source: str | None = None,
        accept: AcceptName | None = None,
        parcels: bool = False,
        progress: Callable[[int], object] | None = None,
        **fields: Unpack[MessageFields],
    ) -> surface.Receipt:
        assert batch is None, "the reference keeps no batches"
        assert source is None, "the reference knows no sources"
        assert not parcels, "the reference takes any number"
        assert progress is None, "the reference takes all of it at once"
        if partition is not None and not 0 <= partition < self.office.settings.partition_count:
            raise errors.PartitionUnknown("there is no such partition")
        with self.store.changed:
            sent = intake.listed(sendable(messages, fields))
            reachable = {name for name, port in self.office.origins.items() if port.content is not None}
            faults = intake.faults_of(sent, content_origins=reachable)
            wrong = {fault.index: fault.field for fault in faults}
            completed = {at: intake.completed(message) for at, message in enumerate(sent) if at not in wrong}
            faults += self._misplaced(
                {at: message for at, message in enumerate(sent) if wrong.get(at) != "recipient"}, partition
            )
            new, in_conflict = self._new_messages(completed)
            intake.raise_faults(sorted(faults + in_conflict, key=lambda fault: fault.index))
            receipt = self._store(new, duplicates=len(sent) - len(new))
            self.store.changed.notify_all()
            return receipt

    def pipeline(self) -> Pipeline:
        return Pipeline(CallCarrier(self._call))

    def _call(self, call: Publish) -> surface.Receipt:
        assert isinstance(call.sent, Few | Many)
        return self.send(call.sent.messages if isinstance(call.sent, Few) else call.sent.content)

    def _misplaced(self, messages: dict[int, Message], partition: int | None) -> list[Fault]:
        return [
            Fault(index=index, code="partition_mismatch", detail="of another partition", id=message.id)
            for index, message in messages.items()
            if partition is not None and self.partition_of(message.recipient) != partition
        ]

    def _new_messages(self, messages: dict[int, Message]) -> tuple[list[Message], list[Fault]]:
        """Those that are no duplicates, and the faults of those that are in conflict, or were erased."""
        new: dict[tuple[str, str | None], Message] = {}
        faults = []
        for index, message in messages.items():
            code = self._standing(message, new.get((message.recipient, message.id)))
            if code == "new":
                new[message.recipient, message.id] = message
            elif code != "duplicate":
                faults.append(Fault(index=index, code=code, detail=code, id=message.id))
        return list(new.values()), faults

    def _standing(self, message: Message, sent_before: Message | None) -> str:
        assert message.id is not None
        mailbox = self.store.mailbox(message.recipient)
        if message.id in mailbox.erased:
            return "message_erased"
        letter = mailbox.letter(message.id)
        known = letter.message if letter is not None else sent_before
        if known is None:
            return "new"
        return "duplicate" if intake.content_key(known) == intake.content_key(message) else "message_conflict"

    def _store(self, messages: list[Message], *, duplicates: int) -> surface.Receipt:
        numbers: dict[int, list[int]] = {}
        for message in messages:
            partition = self.partition_of(message.recipient)
            number = self.office.take_number(message.recipient)
            numbers.setdefault(partition, []).append(number)
            expires_at = None if message.expires_at is None else as_microseconds(message.expires_at)
            letter = Letter(message, number, published_at=self.office.clock(), expires_at=expires_at)
            self.store.mailbox(message.recipient).letters.append(letter)
        receipts = tuple(
            surface.PartitionReceipt(partition=partition, first_sequence_number=of[0], last_sequence_number=of[-1])
            for partition, of in sorted(numbers.items())
        )
        return surface.Receipt(accepted=len(messages), duplicates=duplicates, partitions=receipts)

    # Looking.

    def recipient(self, name: str) -> ReferenceRecipient:
        return ReferenceRecipient(self.office, name)

    def recipients(
        self,
        *,
        order: Literal["waiting", "oldest"] = "waiting",
        limit: int | None = None,
        after: str | None = None,
        search: str | None = None,
    ) -> surface.RecipientPage:
        with self.store.changed:
            listed = [summary for name in self.store.mailboxes for summary in self._summary(name)]
        listed = [summary for summary in listed if (search or "").lower() in summary.recipient.lower()]
        if order == "waiting":
            listed.sort(key=lambda summary: (-summary.waiting, summary.recipient))
        else:
            listed.sort(key=lambda summary: (summary.oldest, summary.recipient))
        start = int(after or 0)
        end = start + page_size(limit)
        return surface.RecipientPage(
            recipients=tuple(listed[start:end]),
            next=str(end) if end < len(listed) else None,
            as_of=as_time(self.office.clock()),
        )

    def _summary(self, name: str) -> list[surface.RecipientSummary]:
        waiting = self.store.mailbox(name).waiting(self.office.clock())
        if not waiting:
            return []
        oldest = as_time(min(letter.published_at for letter in waiting))
        partition = self.partition_of(name)
        return [surface.RecipientSummary(recipient=name, waiting=len(waiting), oldest=oldest, partition=partition)]

    def partitions(self) -> tuple[surface.PartitionStatus, ...]:
        waiting = dict.fromkeys(range(self.office.settings.partition_count), 0)
        for name, mailbox in self.store.mailboxes.items():
            waiting[self.partition_of(name)] += len(mailbox.waiting(self.office.clock()))
        return tuple(
            surface.PartitionStatus(
                partition=partition,
                visible_sequence=self.store.counters.get(partition, 0),
                waiting=count,
                unfiled=0,
            )
            for partition, count in waiting.items()
        )

    def nodes(self) -> surface.NodeMap:
        last = self.office.settings.partition_count - 1
        return surface.NodeMap(
            epoch=1,
            partition_count=last + 1,
            nodes=(surface.NodeStatus(node="local", since=as_time(0)),),
            shards=(surface.ShardStatus(shard=0, first=0, last=last, node="local"),),
        )

    def partition_of(self, recipient: str) -> int:
        return self.office.partition_of(recipient)

    # Housekeeping.

    def file(self) -> int:
        return 0

    def expire(self) -> int:
        with self.store.changed:
            return sum(self._expire(name) for name in self.store.mailboxes)

    def _expire(self, name: str) -> int:
        mailbox = self.store.mailbox(name)
        before = [letter for letter in mailbox.letters if mailbox.unsettled_expired(letter, self.office.clock())]
        self.office.record_change(name, before)
        return mailbox.expire(self.office.clock())

    def retain(self) -> int:
        with self.store.changed:
            oldest = self.office.clock() - round(self.office.settings.collected_retention_seconds * 1_000_000)
            return sum(mailbox.retain(oldest) for mailbox in self.store.mailboxes.values())

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
