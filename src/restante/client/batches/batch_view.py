"""The view of a batch that both surfaces share, and how a batch is named where messages are sent."""

from __future__ import annotations

from typing import Protocol

from restante.client.surface.arguments import check_batch_id
from restante.model.batches.batch_answers import BatchOpened


class BatchView:
    """The facts of a batch that are known without asking."""

    def __init__(self, batch_id: str, opened: BatchOpened | None = None) -> None:
        self.id = batch_id
        self.key = None if opened is None else opened.key
        """The key, if this object opened the batch; else None, and `status()` has the key."""
        self.webhook_secret = None if opened is None else opened.webhook_secret
        """The secret that the hub made for the webhook, if it was just opened with one and without a secret. It is shown
        only once."""

    def __repr__(self) -> str:
        named = "" if self.key is None else f" {self.key!r}"
        return f"<Batch {self.id}{named}>"


class _HasId(Protocol):
    id: str


BatchName = _HasId | str
"""A batch, or its id."""


def batch_id_of(given: BatchName | None) -> str | None:
    """The id of a batch that a caller gave as such, or by its id."""
    if given is None:
        return None
    batch_id: str = given if isinstance(given, str) else getattr(given, "id", given)  # type: ignore[arg-type]
    check_batch_id(batch_id)
    return batch_id
