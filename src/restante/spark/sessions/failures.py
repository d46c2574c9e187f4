"""Failures of a job, in a line. Spark wraps the error of a task in pages of text, in which this module finds it again."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from restante import errors
from restante.errors import RestanteError, Unavailable

_OURS = re.compile(r"restante\.errors\.(?P<name>\w+): (?P<message>[^\n]+)")
_RAISED = re.compile(
    r"^(?P<raised>[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt)): (?P<message>[^\n]+)", re.MULTILINE
)
_CHARACTERS_MAX = 500


def of_spark(error: BaseException) -> bool:
    """Whether an error comes from Spark, so that its text is pages long."""
    return isinstance(error, PySparkException | Py4JError)


def interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C caused an error: Spark may raise one of its own while it cleans up after Ctrl-C."""
    return isinstance(error, KeyboardInterrupt) or (error.__context__ is not None and interrupted(error.__context__))


def cause_of(error: BaseException) -> RestanteError:
    """The `RestanteError` that an error is, or hides; else a new one, with the message of Spark or of the job."""
    if isinstance(error, RestanteError):
        return error
    text = str(error)
    found = list(_OURS.finditer(text))
    kind = getattr(errors, found[-1]["name"], None) if found else None
    if found and isinstance(kind, type) and issubclass(kind, RestanteError):
        return kind(found[-1]["message"].strip())
    return Unavailable(f"The job failed: {line_of(error)}")


def line_of(error: BaseException) -> str:
    """The last thing that Python raised in a task, or else the first line."""
    text = str(error).strip()
    raised = list(_RAISED.finditer(text)) if of_spark(error) else []
    line = raised[-1][0] if raised else text.partition("\n")[0]
    named = line if of_spark(error) and line else f"{type(error).__name__}: {line}".removesuffix(": ")
    return named if len(named) <= _CHARACTERS_MAX else f"{named[:_CHARACTERS_MAX]}…"
