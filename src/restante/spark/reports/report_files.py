"""A report that a user wrote: its file is read and run, and errors in it are reported by file and line."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyspark.sql import DataFrame

from restante.errors import InvalidRequest, RestanteError

_FUNCTION = "transform"


@dataclass(frozen=True)
class ReportFile:
    """The file, and the function in it."""

    path: str
    function: Callable[..., object]

    @classmethod
    def read(cls, path: str) -> Self:
        """Run the file, as an import would. It is not kept as a module, and the next run reads it again."""
        try:
            source = Path(path).read_bytes()
        except OSError as error:
            raise InvalidRequest(f"The report {path} cannot be read: {error.strerror}.") from error
        # Not among the imported modules: so Spark sends its functions to those who work, and not just their names.
        names: dict[str, object] = {"__name__": f"report_{Path(path).stem}", "__file__": path}
        with _told(path):
            exec(compile(source, path, "exec"), names)
        return cls(path, _function(path, names))

    def computed(self, **given: object) -> DataFrame:
        """The result of the function when it is given what its parameters name."""
        arguments = self._arguments(given)
        with self.told():
            frame = self.function(**arguments)
        if not isinstance(frame, DataFrame):
            raise InvalidRequest(f"{self._place}: {_FUNCTION} must give a DataFrame, not {_named(frame)}.")
        if frame.isStreaming:
            raise InvalidRequest(f"{self._place}: {_FUNCTION} gives a stream. Begin with the tables it is given.")
        return frame

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell what goes wrong in here by the line of the file where it happened, if it happened there."""
        with _told(self.path):
            yield

    @property
    def _place(self) -> str:
        return f"{self.path}, line {inspect.unwrap(self.function).__code__.co_firstlineno}"

    def _arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        parameters = inspect.signature(self.function).parameters.values()
        for parameter in parameters:
            unknown = parameter.name not in given and parameter.default is parameter.empty
            if unknown or parameter.kind is parameter.POSITIONAL_ONLY:
                raise InvalidRequest(
                    f"{self._place}: {_FUNCTION} asks for {parameter.name}. It can have {', '.join(given)}, by these names."
                )
        return {parameter.name: given[parameter.name] for parameter in parameters if parameter.name in given}


def _function(path: str, names: Mapping[str, object]) -> Callable[..., object]:
    found = names.get(_FUNCTION)
    if not inspect.isfunction(found):
        what = "has no function" if found is None else f"has a {_named(found)} named"
        raise InvalidRequest(
            f"The report {path} {what} {_FUNCTION}. Define {_FUNCTION}(messages, deliveries) that gives a DataFrame."
        )
    return found


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except RestanteError:
        raise
    except Exception as error:
        line = _line(path, error)
        if line is None:
            raise
        raise InvalidRequest(f"The report failed in {path}, line {line}: {_words(error)}") from error


def _line(path: str, error: Exception) -> int | None:
    """The innermost line of the file in the error. If it ran in another process, the line is found in the text of the error."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    lines += [int(found) for found in re.findall(rf'File "{re.escape(path)}", line (\d+)', str(error))]
    return lines[-1] if lines else None


def _words(error: Exception) -> str:
    """The kind of the error and its first line; of one that came back from Spark the last, which is the cause."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [""]
    remote = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if any(line.startswith("Traceback") or " File " in f" {line}" for line in lines) and remote:
        return remote[-1]
    return f"{type(error).__name__}: {lines[0]}"


def _named(value: object) -> str:
    return "None" if value is None else type(value).__name__
