"""The surface of actions: the same in process and over the network. `restante.client.surface.surface` has it all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from restante.client.batches.batch_view import BatchName
from restante.model.actions.action_answers import AcceptedAction, ActionStatus, PoisonedAction


class Actions(Protocol):
    """Something to be done, addressed by name, accepted at once and answered later."""

    def send(
        self,
        action: str,
        *,
        concerns: str,
        data: object = None,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
        wait: float = 0,
    ) -> ActionStatus: ...
    def send_many(
        self, actions: Iterable[Mapping[str, object]], *, batch: BatchName | None = None
    ) -> tuple[AcceptedAction, ...]: ...
    def get(self, id: str, *, concerns: str | None = None, wait: float = 0) -> ActionStatus: ...
    def poison(self, group: str) -> Iterator[PoisonedAction]: ...
    def again(self, group: str, id: str, *, concerns: str | None = None) -> ActionStatus: ...
    def give_up(self, group: str, id: str, *, concerns: str | None = None) -> None: ...
