"""`Consignment`, a protocol: the same in process and over the network. `restante.client.surface` has all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from restante.model.consignments.consignment_answers import ConsignmentDetails, ConsignmentState, Winner
from restante.model.mailboxes.answers import Receipt


class Consignment(Protocol):
    """A consignment. In a `with` statement it is committed on leaving; when an exception leaves it, discarded."""

    id: str
    key: str
    batch: str | None
    webhook_secret: str | None
    state: ConsignmentState
    receipt: Receipt | None

    @property
    def winners(self) -> tuple[Winner, ...]:
        """For each writer, the attempt that this object staged last."""
        ...

    def stage(
        self,
        writer: str,
        attempt: int,
        messages: object,
        *,
        parcel: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """How many messages were staged."""
        ...

    def commit(self, winners: Iterable[Winner] | None = None) -> Receipt: ...
    def discard(self) -> None: ...
    def status(self) -> ConsignmentDetails: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
