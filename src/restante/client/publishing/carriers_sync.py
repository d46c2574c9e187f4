# Generated from `carriers_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""How a pipeline gets to the hub, for programs that wait: `CallCarrier` to one in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from restante.calls.publishing import Publish
from restante.client.publishing.pipeline_core import Load
from restante.client.transport.exchange import Dialogue, LongWork, Step
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message


class Carrier(Protocol):
    """How the frames of a pipeline get to the hub. All but `close` are called by one thread."""

    def identify(self, messages: list[Message]) -> list[Message]: ...
    def encode(self, load: Load[Any]) -> object: ...
    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]: ...
    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        """Carry out a step. Between a frame and its answer, do something else meanwhile."""
        ...

    def close(self) -> None: ...


class InProcessPublish(Protocol):
    """How a hub in this process is called."""

    def __call__(self, call: Publish, /) -> Receipt: ...


class CallCarrier:
    """Carries frames to a hub in this process: a frame is a publish. Nothing is ever repeated, so the hub makes the ids."""

    def __init__(self, call: InProcessPublish) -> None:
        self._call = call

    def identify(self, messages: list[Message]) -> list[Message]:
        return messages

    def encode(self, load: Load[Any]) -> None:
        """Messages are taken as they are."""

    def deliver(self, load: Load[Any]) -> Dialogue[Receipt]:
        receipt: Receipt = yield LongWork(partial(self._call, Publish(load.sent, batch=load.batch)))
        return receipt

    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Receipt:  # noqa: ARG002 - it is not waited for
        assert isinstance(step, LongWork)
        receipt: Receipt = step.function()
        return receipt

    def close(self) -> None:
        pass
