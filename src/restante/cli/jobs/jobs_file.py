"""The file of `restante jobs serve`: which jobs there are to look after, when each runs, and where.

Only a command that has Spark imports this module.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from restante.cli.shared.hub_options import DEFAULT_URL
from restante.errors import InvalidRequest
from restante.limits import JOBS_SERVED_MAX, SETTINGS_FILE_BYTES_MAX
from restante.spark.running import registry
from restante.spark.running.job_service import ServedJob
from restante.spark.running.schedule import Always, parse_schedule
from restante.spark.source.option_words import struct_of


class JobLines(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[job]]`."""

    name: str = ""
    every: str | None = None
    at: str | None = None
    always: bool = False
    zone: str | None = None
    options: dict[str, Any] = {}


class JobsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file of `restante jobs serve`."""

    url: str | None = None
    tables: str = "tables"
    zone: str = "UTC"
    spark: dict[str, Any] = {}
    job: list[dict[str, Any]] = []

    def settings(self) -> dict[str, str]:
        """Settings of Spark: `driver.memory` below `[spark]` is `spark.driver.memory`."""
        return dict(_flat(self.spark, "spark"))

    def hub(self, otherwise: str | None) -> str:
        return self.url or otherwise or DEFAULT_URL


def read_jobs_file(path: Path) -> JobsFile:
    """The file, checked as far as it can be without knowing the jobs."""
    try:
        with path.open("rb") as file:
            content = file.read(SETTINGS_FILE_BYTES_MAX + 1)
        given = tomllib.loads(content[:SETTINGS_FILE_BYTES_MAX].decode())
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be read ({error.strerror or error}). Give a file that is there."
        ) from error
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}.") from error
    if len(content) > SETTINGS_FILE_BYTES_MAX:
        raise InvalidRequest(f"{path} is too large: at most {SETTINGS_FILE_BYTES_MAX:,} bytes.")
    made = struct_of(JobsFile, given, whose=str(path))
    if not 1 <= len(made.job) <= JOBS_SERVED_MAX:
        raise InvalidRequest(f"{path} has {len(made.job):,} jobs. Give 1 to {JOBS_SERVED_MAX}, each as a [[job]].")
    return made


def entries_of(path: Path, file: JobsFile) -> list[ServedJob]:
    """The jobs with their options and schedules."""
    entries = [_entry(f"{path}, job {number}", given, file) for number, given in enumerate(file.job, start=1)]
    names = [entry.job.name for entry in entries]
    for entry in entries:
        if isinstance(entry.schedule, Always) and names.count(entry.job.name) > 1:
            raise InvalidRequest(f"{path}: {entry.job.name} runs always, so it can be there only once.")
    return entries


def _entry(where: str, given: Mapping[str, object], file: JobsFile) -> ServedJob:
    lines = struct_of(JobLines, given, whose=where)
    try:
        job = registry.job(lines.name)
        schedule = parse_schedule(every=lines.every, at=lines.at, always=lines.always, zone=lines.zone or file.zone)
        return ServedJob(job=job, options=job.options_of(lines.options), schedule=schedule)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error.message}") from error


def _flat(tree: Mapping[str, object], above: str) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        key = name if name.startswith("spark.") else f"{above}.{name}"
        if isinstance(value, dict):
            yield from _flat(value, key)
        else:
            yield key, str(value).lower() if isinstance(value, bool) else str(value)
