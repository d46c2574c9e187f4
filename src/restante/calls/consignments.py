"""Consignments: opened, staged into by many writers, committed at one moment, discarded, looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from restante.calls.call import Call, Count, Number
from restante.limits import CONSIGNMENT_ATTEMPTS_MAX, CONSIGNMENT_KEY_CHARACTERS_MAX
from restante.model.consignments.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentPage,
    ConsignmentState,
    Staged,
    Winner,
)
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many, few_or_many
from restante.model.uuid_text import UuidText


class BeginConsignment(Call[ConsignmentOpened], frozen=True):
    """Open a consignment, or the one that has this key."""

    key: Annotated[str, Meta(min_length=1, max_length=CONSIGNMENT_KEY_CHARACTERS_MAX)]
    batch: bool | BatchWish = False
    """Whether its messages become the items of a batch, which the commit seals; a `BatchWish` also says who hears when all
    are done."""


class StageParcel(Call[Staged], frozen=True):
    """Stage messages, seen by nobody until the commit. The same parcel again changes nothing."""

    consignment_id: str
    sent: Few | Many | EncodedPublish
    writer: str
    attempt: Number
    parcel: Number

    @classmethod
    def of(cls, consignment_id: str, sent: object, writer: str, attempt: int, parcel: int) -> StageParcel:
        """The call that stages a message, a sequence of messages, or anything with Arrow columns."""
        return cls(consignment_id, few_or_many(sent), writer, attempt, parcel)


class CommitConsignment(Call[Receipt], frozen=True):
    """Deliver what these attempts have staged, at one moment."""

    consignment_id: str
    writers: Annotated[Sequence[Winner], Meta(max_length=CONSIGNMENT_ATTEMPTS_MAX)]


class DiscardConsignment(Call[None], frozen=True):
    """Drop a consignment with all that was staged."""

    consignment_id: str


class ReadConsignment(Call[ConsignmentDetails], frozen=True):
    """Read the status of a consignment, and its attempts."""

    consignment_id: str


class ListConsignments(Call[ConsignmentPage], frozen=True, kw_only=True):
    """The consignments, the newest first."""

    state: ConsignmentState | None = None
    key: str | None = None
    limit: Count | None = None
    after: UuidText | None = None
