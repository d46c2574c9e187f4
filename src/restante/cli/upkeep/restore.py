"""`restante restore`: a backup into a new data folder, and the doctor after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import WRONG
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import output, print_json, progress_bar
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted, duration, size

if TYPE_CHECKING:
    from restante.hub.doctor.doctor import Report
    from restante.hub.upkeep.archive import Manifest


def restore(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A file that `restante backup` wrote."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="The folder to make: a new or an empty one."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only verify the backup.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a new data folder, then let the doctor examine it.

    Every byte of the backup is verified first. If the backup is damaged, no folder is made.

    \b
    restante restore night.tar --dry-run       is the backup whole?
    restante restore night.tar --data ./restored
    restante serve --data ./restored
    """
    if data is None and not dry_run:
        raise typer.BadParameter("Name the folder to make, or ask for --dry-run.", param_hint="--data")
    started = time.monotonic()
    manifest = _read(file, None if dry_run else data)
    report = None if dry_run or data is None else _examined(data)
    _print(file, data, manifest, report, time.monotonic() - started, as_json=as_json)
    raise typer.Exit(0 if report is None or report.sound else WRONG)


def _read(file: Path, folder: Path | None) -> Manifest:
    from restante.cluster.restored_shards import restore as restore_from
    from restante.hub.upkeep.restore import verify

    with file.open("rb") as source, progress_bar() as bar:
        doing = f"verifying {file}" if folder is None else f"restoring {file}"
        task = bar.add_task(doing, total=file.stat().st_size, note="")

        def read(size: int) -> bytes:
            chunk = source.read(size)
            bar.advance(task, len(chunk))
            return chunk

        return verify(read) if folder is None else restore_from(read, folder)


def _examined(folder: Path) -> Report:
    from restante.cli.upkeep.doctor import examined

    return examined(folder)


def _print(
    file: Path, folder: Path | None, manifest: Manifest, report: Report | None, seconds: float, *, as_json: bool
) -> None:
    if as_json:
        told = {"made_at": manifest.made_at, "partition_count": manifest.partition_count}
        counts = {"files": len(manifest.files), "bytes": manifest.bytes, "seconds": round(seconds, 3)}
        done = {"folder": None if report is None else str(folder), "verdict": _verdict(report)}
        print_json({"file": str(file), **told, **counts, **done})
        return
    say(
        f"{file}: made at {clock_time(manifest.made_at)}, {counted(len(manifest.files), 'file')}, "
        f"{size(manifest.bytes)}, every checksum verified, in {duration(seconds)}."
    )
    if report is not None and folder is not None:
        from restante.cli.upkeep.doctor import print_report

        print_report(output(), folder, report)


def _verdict(report: Report | None) -> str | None:
    if report is None:
        return None
    return "sound" if report.sound else "problems"
