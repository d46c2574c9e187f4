"""The way from a command to Spark: loaded when a command needs it, with a clear word if it is not installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from restante.errors import ExtraMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OUTPUT = 1


def require_spark() -> None:
    """Refuse, with what to install, where `restante.spark` cannot be imported."""
    try:
        import delta  # noqa: F401

        import restante.spark.running.registry  # noqa: F401
    except ImportError as error:
        raise ExtraMissing(f"Jobs need Spark ({error}): pip install 'restante[spark]'.") from error


@contextmanager
def spark_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, which ends with what is inside; one that runs in this process already is used, and left running."""
    from pyspark.sql import SparkSession

    from restante.spark.sessions.start import session

    before = SparkSession.getActiveSession()
    with _silent_output():
        spark = session(master=settings.get("spark.master"), settings=settings)
    try:
        yield spark
    finally:
        if before is None:
            spark.stop()


@contextmanager
def _silent_output() -> Iterator[None]:
    """Java, started inside, writes nothing to our standard output: Delta prints there, and answers must stay whole."""
    sys.stdout.flush()
    ours, nowhere = os.dup(_OUTPUT), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _OUTPUT)
    try:
        yield
    finally:
        os.dup2(ours, _OUTPUT)
        os.close(ours)
        os.close(nowhere)


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """`key=value`, each once."""
    found: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"it must be name=value, not {text!r}.", param_hint=option)
        if key.strip() in found:
            raise typer.BadParameter(f"{key.strip()} is given twice.", param_hint=option)
        found[key.strip()] = value
    return found
