# Generated from `pipeline_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`producer.pipeline()` for programs that wait: sends return at once, and a thread carries them.

An `Carrier` takes them to the hub; `CallCarrier` is the one for a hub in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from restante.calls.publishing import Publish
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.publishing.pipeline_core import Load, Pipelining, SendOutcome
from restante.client.sending.sender_sync import Sender
from restante.client.transport.exchange import Dialogue, LinkFrame, LongWork, Step
from restante.errors import RestanteError, Unavailable
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message


class Carrier(Protocol):
    """Takes the frames of a pipeline to the hub. All methods but `close` are called by one thread."""

    def identify(self, messages: list[Message]) -> list[Message]: ...
    def encode(self, load: Load[Any]) -> object: ...
    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]: ...
    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        """Carry out a step. Call `meanwhile` between sending a frame and waiting for its answer."""
        ...

    def close(self) -> None: ...


class InProcessPublish(Protocol):
    """Publishes to a hub in this process."""

    def __call__(self, call: Publish, /) -> Receipt: ...


class CallCarrier:
    """Carries frames to a hub in this process, where a frame is a publish. Nothing is ever repeated, so the hub makes the ids."""

    def __init__(self, call: InProcessPublish) -> None:
        self._call = call

    def identify(self, messages: list[Message]) -> list[Message]:
        return messages

    def encode(self, load: Load[Any]) -> None:
        """Nothing: a hub in this process takes messages as they are."""

    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]:
        receipt: Receipt = yield LongWork(partial(self._call, Publish(load.sent, batch=load.batch)))
        return receipt

    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Receipt:  # noqa: ARG002 - there is no wait to fill
        assert isinstance(step, LongWork)
        receipt: Receipt = step.function()
        return receipt

    def close(self) -> None:
        pass


class Pipeline:
    """Sends without waiting for each. Use it in a `with` statement, or close it."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._kept: list[tuple[Future[Receipt], SendOutcome]] = []
        self._state: Pipelining[Future[Receipt]] = Pipelining(self._keep, carrier.identify)
        self._sender = Sender(self._state, self._deliver, name="restante-pipeline")
        self._changed = self._sender.changed

    def __repr__(self) -> str:
        return f"<Pipeline: {self._state.taken} sends, {self._state.answered} of them answered>"

    def send(self, messages: object, *, batch: BatchName | None = None) -> Future[Receipt]:
        """Send a message, or a list of them that is stored together. Waits only while too much is under way.

        ```python
        future = pipeline.send({"recipient": "alice", "text": "hello"})
        ```
        """
        batch_id = batch_id_of(batch)
        promise: Future[Receipt] = Future()
        with self._changed:
            if self._state.full:
                self._changed.wait_for(self._has_room)
            self._state.add(messages, promise, batch_id)
            self._sender.stir()
        return promise

    def room(self) -> None:
        """Wait until there is room for more.

        ```python
        pipeline.room()
        ```
        """
        with self._changed:
            self._changed.wait_for(self._has_room)

    def flush(self) -> None:
        """Wait until everything sent so far has been answered. The outcomes are in the futures.

        ```python
        pipeline.flush()
        ```
        """
        with self._changed:
            upto = self._state.taken
            self._changed.wait_for(lambda: self._state.answered >= upto)

    def close(self) -> None:
        """Wait for all answers, and close the connection.

        ```python
        pipeline.close()
        ```
        """
        with self._changed:
            self._state.closed = True
            self._changed.notify_all()
        self._finish()

    def abort(self) -> None:
        """Close at once. Sends without an answer fail; they may have been stored.

        ```python
        pipeline.abort()
        ```
        """
        with self._changed:
            self._state.closed = self._state.aborted = True
            self._changed.notify_all()
        self._carrier.close()
        self._sender.finish()
        self._abandon()
        self._carrier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception):
            self.close()
        else:
            self.abort()

    def _has_room(self) -> bool:
        return not self._state.full or self._state.closed

    def _finish(self) -> None:
        self._sender.finish()
        self._carrier.close()

    def _deliver(self, load: Load[Future[Receipt]]) -> None:
        """Carry a load to the hub. Its senders get their answers while the next load is under way, or at once if there is none."""
        try:
            outcome: SendOutcome = self._run(self._carrier.deliver(load))
        except RestanteError as error:
            outcome = error
        except BaseException:
            self._abandon()
            raise
        with self._changed:
            self._state.settle(load, outcome)
            is_last = self._state.idle
        del outcome, load  # An error's traceback holds this frame, and `outcome` is that error: break the cycle.
        if is_last:
            self._tell()

    def _run(self, dialogue: Dialogue[Receipt]) -> Receipt:
        proceed: Callable[[], Step] = partial(next, dialogue)
        while True:
            try:
                step = proceed()
            except StopIteration as done:
                receipt: Receipt = done.value
                return receipt
            if not isinstance(step, LinkFrame):
                self._tell()
            try:
                proceed = partial(dialogue.send, self._carrier.perform(step, self._meanwhile))
            except RestanteError as error:
                proceed = partial(dialogue.throw, error)

    def _meanwhile(self) -> None:
        """While a frame is under way, answer the senders of the last one, and encode the next."""
        self._tell()
        with self._changed:
            load = self._state.prepare()
        if load is not None:
            # A load that cannot be encoded fails when its turn comes.
            with suppress(RestanteError):
                load.content = self._carrier.encode(load)

    def _abandon(self) -> None:
        with self._changed:
            self._state.closed = True
            self._state.abandon(Unavailable("The pipeline was closed before the hub had answered."))
        self._tell()

    def _keep(self, promise: Future[Receipt], outcome: SendOutcome) -> None:
        self._kept.append((promise, outcome))

    def _tell(self) -> None:
        """Resolve promises outside the lock, because their callbacks may send again. Then wake the waiting callers."""
        kept, self._kept = self._kept, []
        for promise, outcome in kept:
            try:
                if isinstance(outcome, RestanteError):
                    promise.set_exception(outcome)
                else:
                    promise.set_result(outcome)
            except InvalidStateError:
                pass  # The promise was cancelled meanwhile.
        if kept:
            with self._changed:
                self._changed.notify_all()
