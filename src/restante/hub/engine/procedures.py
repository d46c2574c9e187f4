"""`Functions` and `Procedures` are a subject's tables from calls to the functions, or procedures, that carry them out.

A procedure is a call over several shards: a generator that yields what it asks of other shards (`Ask`) and is sent their
answers. Its only I/O of its own are commits. In an open hub a thread drives it and waits for each answer; the simulation
drives many side by side, and decides which answers come, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from restante.calls.call import Call
from restante.errors import RestanteError, Unavailable
from restante.hub.engine.core import Core
from restante.model.access.access import Grant

Functions: TypeAlias = Mapping[type[Call[Any]], Callable[[Core, Any, Grant], Any]]
"""A table from the type of a call to the function that answers it, for a caller who may do what the `Grant` says."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """A call for the owner of a partition. The procedure is sent the answer, or its error is thrown in."""

    partition: int
    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Rest:
    """A pause of `seconds`, during which other work goes on."""

    seconds: float


Procedure: TypeAlias = Generator[Ask | Rest, Any, T]


class OwnAnswers:
    """Holds the function that answers calls that a procedure makes to this hub itself."""

    def __init__(self) -> None:
        self.call: Callable[[Call[Any]], Any] = _nobody


def _nobody(_: Call[Any]) -> object:
    raise Unavailable("The hub is being opened. Try again.")


Procedures: TypeAlias = Mapping[type[Call[Any]], Callable[[Core, Any, Grant], Procedure[Any]]]
"""A table from the type of a call to its procedure, for calls that ask other shards meanwhile."""


def waiting(procedures: Procedures) -> Functions:
    """Turn procedures into functions that wait for each answer."""
    return {kind: partial(_run_one, begin) for kind, begin in procedures.items()}


def _run_one(begin: Callable[[Core, Any, Grant], Procedure[T]], core: Core, call: Call[Any], caller: Grant) -> T:
    return run(core, begin(core, call, caller))


def run(core: Core, procedure: Procedure[T]) -> T:
    """Drive a procedure to its end, waiting for each answer."""
    try:
        step = next(procedure)
        while True:
            try:
                answer = _answered(core, step)
            except RestanteError as error:
                step = procedure.throw(error)
            else:
                step = procedure.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _answered(core: Core, step: Ask | Rest) -> object:
    if isinstance(step, Rest):
        if core.closing.wait(step.seconds):
            raise Unavailable("The hub is being closed. Try again.")
        return None
    if step.partition in core.owned:
        return core.memory(OwnAnswers).call(step.call)
    assert core.shard is not None, "a hub that has all partitions asks nobody"
    return core.shard.carrier.carry(step.partition, step.call)
