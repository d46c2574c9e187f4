"""Bundles as files."""

from __future__ import annotations

import io
import mimetypes
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from restante.cli.shared.message_lines import message_lines
from restante.cli.shared.new_files import UNFINISHED, new_file
from restante.cli.shared.options import Format
from restante.client.surface.surface import Bundle

_SUFFIXES = {Format.JSONL: ".jsonl", Format.ARROW: ".arrow", Format.PARQUET: ".parquet"}


class BundleFolder:
    """A folder that bundles are written to, one file each, named by the bundle's id."""

    def __init__(self, folder: Path, file_format: Format) -> None:
        self._folder = folder
        self._format = file_format
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, bundle_id: str) -> Path | None:
        """The file of a bundle that an earlier run wrote. A file that has its final name is complete."""
        found = sorted(path for path in self._folder.glob(f"{bundle_id}.*") if path.suffix != UNFINISHED)
        return found[0] if found else None

    def write(self, bundle: Bundle) -> Path:
        """Write a bundle to the disk, under its final name, before this returns."""
        suffix = _SUFFIXES[self._format] if bundle.content is None else _suffix_of(bundle.media_type)
        path = self._folder / f"{bundle.bundle_id}{suffix}"
        with new_file(path, hidden=True) as file:
            if bundle.content is None:
                _write(file, bundle.raw_table, self._format)
            else:
                file.write(bundle.content)
        return path


def _write(file: io.BufferedWriter, table: pa.Table, file_format: Format) -> None:
    if file_format is Format.PARQUET:
        pq.write_table(table, file)
    elif file_format is Format.ARROW:
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as writer:
            writer.write_table(table)
    else:
        file.writelines(message_lines(table))


def _suffix_of(media_type: str | None) -> str:
    plain = (media_type or "").partition(";")[0].strip().lower()
    return mimetypes.guess_extension(plain) or ".bin"
