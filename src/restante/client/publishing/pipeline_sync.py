"""`producer.pipeline()` for programs that wait: sends that return at once, carried by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.publishing.carriers_sync import Carrier
from restante.client.publishing.pipeline_core import Outcome, Pipelining
from restante.client.transport.exchange import Dialogue, LinkFrame, Step
from restante.errors import RestanteError, Unavailable
from restante.model.mailboxes.answers import Receipt


class Pipeline:
    """Sends without waiting for each. Use it in a `with` statement, or close it."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._changed = threading.Condition()
        self._kept: list[tuple[Future[Receipt], Outcome]] = []
        self._state: Pipelining[Future[Receipt]] = Pipelining(self._keep, carrier.identify, self._changed)
        self._aborted = False
        self._idle = False
        """The thread waits for something to be sent."""
        self._thread = threading.Thread(target=self._carry, name="restante-pipeline", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Pipeline: {self._state.sent} sends, {self._state.answered} of them answered>"

    def send(self, messages: object, *, batch: BatchName | None = None) -> Future[Receipt]:
        """Send a message, or a list of them that is stored together. Waits only while too much is under way.

        ```python
        future = pipeline.send({"recipient": "alice", "text": "hello"})
        ```
        """
        batch_id = batch_id_of(batch)
        promise: Future[Receipt] = Future()
        state = self._state
        with self._changed:
            if state.full:
                self._wait_for_room()
            state.add(messages, promise, batch_id)
            if self._idle:
                self._changed.notify_all()
        return promise

    def room(self) -> None:
        """Wait until there is room for more.

        ```python
        pipeline.room()
        ```
        """
        with self._changed:
            self._wait_for_room()

    def flush(self) -> None:
        """Wait until all that was sent so far has been answered. What came of it is in the futures.

        ```python
        pipeline.flush()
        ```
        """
        with self._changed:
            upto = self._state.sent
            self._changed.wait_for(lambda: self._state.answered >= upto)

    def close(self) -> None:
        """Wait for all answers, and let go of the connection.

        ```python
        pipeline.close()
        ```
        """
        with self._changed:
            self._state.closed = True
            self._changed.notify_all()
        self._thread.join()

    def abort(self) -> None:
        """Let go at once: what has not been answered fails. It may have been stored.

        ```python
        pipeline.abort()
        ```
        """
        with self._changed:
            self._aborted = self._state.closed = True
            self._changed.notify_all()
        self._carrier.close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception):
            self.close()
        else:
            self.abort()

    def _wait_for_room(self) -> None:
        self._changed.wait_for(lambda: not self._state.full or self._state.closed)

    def _keep(self, promise: Future[Receipt], outcome: Outcome) -> None:
        self._kept.append((promise, outcome))

    def _carry(self) -> None:
        """The thread: one frame after another, until the pipeline is closed and everything answered."""
        try:
            while self._wait_for_mail():
                self._run(self._state.carrying(self._carrier.deliver))
        finally:
            with self._changed:
                self._state.closed = True
                self._state.abandon(Unavailable("The pipeline was closed before the hub had answered."))
            self._tell()
            self._carrier.close()

    def _wait_for_mail(self) -> bool:
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: not self._state.idle or self._state.closed)
            self._idle = False
            return not self._state.idle and not self._aborted

    def _run(self, dialogue: Dialogue[None]) -> None:
        """Steps are carried out without the lock, so that sends go on meanwhile."""
        proceed: Callable[[], Step] = partial(next, dialogue)
        while True:
            try:
                with self._changed:
                    step = proceed()
            except StopIteration:
                self._tell()
                return
            if not isinstance(step, LinkFrame):
                self._tell()
            try:
                proceed = partial(dialogue.send, self._carrier.perform(step, self._meanwhile))
            except RestanteError as error:
                proceed = partial(dialogue.throw, error)

    def _meanwhile(self) -> None:
        """While a frame is under way: tell the senders of the last one, and prepare the next."""
        self._tell()
        self._state.prepare(self._carrier.encode)

    def _tell(self) -> None:
        """Keep promises outside the lock: what hangs on one may send again."""
        kept, self._kept = self._kept, []
        for promise, outcome in kept:
            # One that was cancelled meanwhile wants no answer.
            with suppress(InvalidStateError):
                if isinstance(outcome, RestanteError):
                    promise.set_exception(outcome)
                else:
                    promise.set_result(outcome)
        if kept:
            with self._changed:
                self._changed.notify_all()
