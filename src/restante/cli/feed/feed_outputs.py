"""Where `restante feed` puts its rows: lines or an Arrow stream, or a folder of Parquet files (`feed_folder`)."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from restante.cli.shared.message_lines import change_lines
from restante.cli.shared.output import flush_output_to_disk, write_output
from restante.errors import InvalidRequest

_BUFFER_BYTES = 1_048_576


class Given(NamedTuple):
    """Rows of one partition, and the position that is reached with them."""

    rows: pa.Table
    partition: int
    position: int
    stored: bool = False
    """They are of a snapshot: its position counts when all of it was given out."""


class Output(ABC):
    """Rows go in, and positions come out when all rows up to them are safe."""

    @abstractmethod
    def put(self, given: Given) -> bool:
        """Whether positions have become safe that are to be recorded before anything else is put here."""

    @abstractmethod
    def settle(self) -> Mapping[int, int]:
        """Make safe what can be made safe by now; up to where everything is."""

    @abstractmethod
    def finish(self) -> Mapping[int, int]:
        """Make everything safe; up to where everything is."""

    @abstractmethod
    def close(self) -> None:
        """End the output. Rows that are not safe are dropped, if that is possible."""


class ByteOutput:
    """Bytes to standard output, or to a new file, which is gone again if nothing of it was ever made safe."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._is_begun = False
        self._raw: io.RawIOBase = _StandardOutput() if path is None else _new(path)
        self._sync: Callable[[], None] = flush_output_to_disk if path is None else self._sync_file
        self.file = io.BufferedWriter(self._raw, _BUFFER_BYTES)

    def settle(self) -> None:
        self.file.flush()
        self._sync()
        self._is_begun = True

    def close(self) -> None:
        try:
            self.file.close()
        finally:
            if self._path is not None and not self._is_begun:
                self._path.unlink()

    def _sync_file(self) -> None:
        os.fsync(self._raw.fileno())


class _StandardOutput(io.RawIOBase):
    """Writes all that it is given, or fails. After a failure it writes nothing, because buffered bytes would fail again."""

    _has_failed = False

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - whatever has bytes
        view = memoryview(content)
        if not self._has_failed:
            self._has_failed = True
            write_output(bytes(view))
            self._has_failed = False
        return view.nbytes


def _new(path: Path) -> io.FileIO:
    try:
        return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except FileExistsError as error:
        raise InvalidRequest(f"{path} is there already. Give another name with --output.") from error


class _ChannelOutput(Output):
    """The parts that both kinds of streams share: they are safe when they are flushed."""

    def __init__(self, channel: ByteOutput) -> None:
        self._channel = channel
        self._reached: dict[int, int] = {}
        self._is_settled = True

    def put(self, given: Given) -> bool:
        if given.rows.num_rows:
            self._is_settled = False
            self._write(given.rows)
        if not given.stored:
            self._reached[given.partition] = given.position
        return False

    def settle(self) -> Mapping[int, int]:
        if not self._is_settled:
            self._channel.settle()
            self._is_settled = True
        return self._reached

    def finish(self) -> Mapping[int, int]:
        self._channel.settle()
        return self._reached

    def close(self) -> None:
        self._channel.close()

    @abstractmethod
    def _write(self, rows: pa.Table) -> None: ...


class Lines(_ChannelOutput):
    """A JSON object a line."""

    def __init__(self, channel: ByteOutput, columns: Sequence[str]) -> None:
        super().__init__(channel)
        self._columns = columns

    def _write(self, rows: pa.Table) -> None:
        for lines in change_lines(rows, self._columns):
            self._channel.file.write(lines)
        self._channel.file.flush()


class ArrowStream(_ChannelOutput):
    """One Arrow IPC stream, in batches as they come."""

    def __init__(self, channel: ByteOutput, schema: pa.Schema) -> None:
        super().__init__(channel)
        sink: Any = channel.file
        self._writer = pa.ipc.new_stream(sink, schema)

    def _write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._channel.file.flush()

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            super().close()
