"""`restante backup`: everything that a hub holds, in one file, while it goes on working."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import print_json, progress_bar
from restante.cli.shared.plain import say
from restante.errors import InvalidRequest
from restante.model.figures import counted, duration, size

if TYPE_CHECKING:
    from restante.hub.upkeep.archive import Manifest


@at_hub
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; a new one.", show_default=False)],
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Back up a hub while it runs, or a data folder that no hub has open.

    The backup has everything that was acknowledged before it began. The file is a tar with a manifest; every checksum
    is verified while the file is written. The file gets its name when it is complete and on the disk; no file is
    overwritten.

    \b
    restante backup night.tar                  of the hub on this machine
    restante backup night.tar --hub https://hub.example.org
    restante backup night.tar --data ./data    of a folder not in use
    restante restore night.tar --data ./new    restore it
    """
    if file.exists():
        raise InvalidRequest(f"{file} is there already, and nothing is overwritten. Name a new file.")
    started = time.monotonic()
    manifest = _backed_up(door, file)
    _print(file, manifest, time.monotonic() - started, as_json=as_json)


def _backed_up(door: Door, file: Path) -> Manifest:
    from restante.cli.shared.new_files import new_file
    from restante.cli.upkeep.backup_source import source_of
    from restante.hub.upkeep.restore import verify

    with source_of(door) as source, new_file(file) as output, progress_bar() as bar:
        task = bar.add_task(f"backing up {door.where}", total=source.size_bytes, note="")

        def read(size: int) -> bytes:
            chunk = source.read(size)
            output.write(chunk)
            bar.advance(task, len(chunk))
            return chunk

        return verify(read)


def _print(file: Path, manifest: Manifest, seconds: float, *, as_json: bool) -> None:
    if as_json:
        told = {"made_at": manifest.made_at, "partition_count": manifest.partition_count}
        counts = {"files": len(manifest.files), "bytes": file.stat().st_size, "seconds": round(seconds, 3)}
        print_json({"file": str(file), **told, **counts})
        return
    say(
        f"{file}: {size(file.stat().st_size)}, {counted(len(manifest.files), 'file')}, every checksum verified, "
        f"in {duration(seconds)}."
    )
