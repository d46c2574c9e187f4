"""One attempt at an action: the body checked, the handler called, and what came of it."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from restante.model.work.core import WorkAttempt
from restante.model.work.results import (
    AttemptDone,
    AttemptFailed,
    AttemptNoData,
    AttemptPassing,
    AttemptRefused,
    AttemptResult,
)
from restante.work.bodies import BodyMisfit, NoBody, encode_body
from restante.work.handlers import ActionHandler
from restante.work.job import ActionJob
from restante.work.once.dialogue import Fenced
from restante.work.signals import Again, LocatedResult, Refused

_LINES_MAX = 30
PASSING = (OSError, TimeoutError, asyncio.TimeoutError)
"""Errors that may pass in every handler; time-outs are some of them."""


class ThreadStuck(Exception):
    """A handler in a thread took too long, and a thread cannot be ended: the worker has to stop."""


async def attempted(handler: ActionHandler[Any, Any], job: ActionJob, attempt: WorkAttempt) -> AttemptResult:
    """Make an attempt. `ThreadStuck`, if it does not end; `Fenced`, if another worker has the partition."""
    try:
        arguments = handler.arguments(attempt.action.data, job)
    except NoBody:
        return AttemptNoData()
    except BodyMisfit as error:
        return AttemptFailed(code="invalid_body", detail=str(error))
    try:
        returned = await _called(handler, arguments, attempt.timeout_seconds)
    except (ThreadStuck, Fenced):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # The worker itself ends.
        return AttemptFailed(code="error", detail=_lines(error))
    except (
        SystemExit,
        KeyboardInterrupt,
    ) as error:  # A handler ends itself, and not the worker with all that runs in it.
        return AttemptFailed(code="error", detail=_lines(error))
    except Exception as error:  # noqa: BLE001  # whatever a handler raises is its answer
        return _raised(handler, error)
    return _returned(returned)


async def _called(handler: ActionHandler[Any, Any], arguments: dict[str, Any], seconds: float) -> object:
    call = partial(handler.function, **arguments)
    if handler.is_async:
        async with asyncio.timeout(seconds):
            return await call()
    ended = _in_thread(call, handler.name)
    done, _ = await asyncio.wait((ended,), timeout=seconds)
    if not done:
        raise ThreadStuck(f"{handler.name} took more than {seconds:g} s in a thread")
    return ended.result()


def _in_thread(call: Callable[[], object], name: str) -> asyncio.Future[object]:
    """Call in a thread of its own, which nobody waits for if it hangs: one of a pool would keep the process."""
    loop, context = asyncio.get_running_loop(), copy_context()
    ended: asyncio.Future[object] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(value)
        else:
            ended.set_exception(error)

    def work() -> None:
        value: object = None
        raised: BaseException | None = None
        try:
            value = context.run(call)
        except BaseException as error:  # noqa: BLE001  # handed to the event loop, which cannot take all of them
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            raised = error if plain else RuntimeError(f"The handler raised {type(error).__name__}.")
        with suppress(RuntimeError):  # the loop has gone, and with it everybody who waits
            loop.call_soon_threadsafe(settle, value, raised)

    threading.Thread(target=work, name=f"restante-work-{name}", daemon=True).start()
    return ended


def _raised(handler: ActionHandler[Any, Any], error: Exception) -> AttemptResult:
    if isinstance(error, Again):
        return AttemptPassing(detail=str(error) or "The handler said: again.", seconds=error.seconds)
    if isinstance(error, Refused):
        return AttemptRefused(detail=str(error))
    if isinstance(error, (*PASSING, *handler.passing)):
        return AttemptPassing(detail=_lines(error))
    return AttemptFailed(code="error", detail=_lines(error))


def _lines(error: BaseException) -> str:
    """The last lines of the traceback, from the handler on."""
    told = traceback.TracebackException.from_exception(error)
    own = [frame for frame in told.stack if frame.filename != __file__]
    told.stack = traceback.StackSummary.from_list(own)
    lines = "".join(told.format()).splitlines()
    return "\n".join(lines[-_LINES_MAX:])


def _returned(value: object) -> AttemptResult:
    location = value.location if isinstance(value, LocatedResult) else None
    result = value.result if isinstance(value, LocatedResult) else value
    if result is None:
        return AttemptDone(location=location)
    try:
        return AttemptDone(result=encode_body(result), location=location)
    except (TypeError, ValueError, RecursionError) as error:
        return AttemptFailed(code="invalid_result", detail=f"What the handler returned is no JSON: {error}")
