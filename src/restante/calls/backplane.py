"""The backplane: how far its log is stored, and what of it was refused."""

from __future__ import annotations

from restante.calls.call import Call, Count
from restante.model.backplane.backplane_answers import BackplaneStatus, RefusedPage, RefusedRecord
from restante.model.mailboxes.answers import Receipt


class ReadBackplane(Call[BackplaneStatus], frozen=True):
    """What goes through the backplane, and how far it is stored."""


class ListRefusedRecords(Call[RefusedPage], frozen=True, kw_only=True):
    """The records that could not be stored, by partition and position."""

    limit: Count | None = None
    after: str | None = None


class ReadRefusedRecord(Call[RefusedRecord], frozen=True):
    """A record that could not be stored, and why."""

    partition: int
    position: int


class RepeatRefusedRecord(Call[Receipt], frozen=True):
    """Try once more to store a record that could not be stored; when it is stored, it is refused no longer."""

    partition: int
    position: int


class DeleteRefusedRecord(Call[None], frozen=True):
    """Forget a record that could not be stored."""

    partition: int
    position: int
