# Generated from `acknowledger_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`batch.acknowledging()` for programs that wait: items added one by one, acknowledged by a thread."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from restante.calls.batches import AcknowledgeItems
from restante.client.batches.acknowledger import Outbox
from restante.client.batches.batch_items import Items
from restante.client.sending.sender_sync import Sender
from restante.client.transport.link import Link
from restante.errors import Internal, RestanteError
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch, ItemRange


class Acknowledger:
    """Acknowledges in the background what workers finish one by one. Use it in a `with` statement, or close it.

    Calls may come from any thread. An added item is sent within about 10 ms, together with others that came
    meanwhile. An error is raised by the next call, or on leaving; then the items that it concerns are sent again, so none is
    lost. Leaving the statement sends the rest, also by an exception, for finished work stays finished. Leaving by
    Ctrl-C drops the rest, which stays pending.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._state = Outbox()
        self._sender = Sender(self._state, self._send, name="restante-acknowledger")
        self._changed = self._sender.changed

    @property
    def acknowledged(self) -> int:
        """How many items were pending until they were acknowledged here."""
        return self._state.acknowledged

    @property
    def complete(self) -> tuple[CompleteBatch, ...]:
        """The batches that were found complete, each once."""
        with self._changed:
            return self._state.complete

    @property
    def unknown(self) -> tuple[str | ItemRange, ...]:
        """The last 10,000 that the hub did not know."""
        with self._changed:
            return self._state.unknown

    def __repr__(self) -> str:
        return f"<Acknowledger: {self.acknowledged} items acknowledged>"

    def add(self, item: str | ItemRange | Items) -> None:
        """Acknowledge an item soon. Waits only while too much is under way. When it raises, the item is not taken.

        ```python
        with batch.acknowledging() as done:
            done.add(item_id)
        ```
        """
        with self._changed:
            if not self._state.ready:
                self._changed.wait_for(lambda: not self._state.full or self._state.error or self._state.closed)
                self._check()
            if self._state.put(item, time.monotonic()):
                self._sender.stir()

    def flush(self) -> None:
        """Wait until all that was added so far is acknowledged.

        ```python
        done.flush()
        ```
        """
        with self._changed:
            self._check()
            upto = self._state.hurry()
            self._sender.stir()
            while self._state.settled < upto:
                self._changed.wait()
                self._check()

    def close(self) -> None:
        """Acknowledge what is left, and let go.

        ```python
        done.close()
        ```
        """
        try:
            if not self._state.closed:
                self.flush()
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            # The exception that came first is the one that is raised.
            with suppress(RestanteError):
                self.close()
        else:
            self._stop()

    def _check(self) -> None:
        """Raise what went wrong, once; after that it is tried again."""
        try:
            self._state.check()
        except RestanteError:
            self._sender.stir()
            raise

    def _stop(self) -> None:
        with self._changed:
            self._state.close()
            self._changed.notify_all()
        self._sender.finish()

    def _send(self, call: AcknowledgeItems) -> None:
        try:
            outcome: Acknowledged | RestanteError = self._link.call(call)
        except RestanteError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - raised to the callers that add
            outcome = Internal(f"The acknowledger failed: {error!r}.")
        with self._changed:
            if isinstance(outcome, RestanteError):
                self._state.fail(outcome)
            else:
                self._state.settle(outcome)
            self._changed.notify_all()
