"""The doctor on jobs: whether what is kept of each can be read, and belongs together."""

from __future__ import annotations

from restante import limits
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.model.jobs.job import HOME, JobRow, decode_job, decode_run, decode_table, key_job
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number

_NUMBER_BYTES = 8


def examine_jobs(case: Case) -> None:
    known: dict[bytes, JobRow] = {}

    def job(key: bytes, value: bytes) -> None:
        key_job(key)
        row = decode_job(value)
        if case.partition != HOME or len(row.runs) > limits.JOB_RUNS_KEPT or list(row.runs) != _descending(row.runs):
            raise DataDamaged(f"Its {len(row.runs)} runs in partition {case.partition} make no sense.")
        known[key] = row

    def run(key: bytes, value: bytes) -> None:
        decode_run(value)
        _check_listed(known, key)

    def table(key: bytes, value: bytes) -> None:
        decode_table(value)
        _check_listed(known, key)

    examine_entries(case, Space.JOB, "job", job)
    examine_entries(case, Space.JOB_RUN, "run of a job", run)
    examine_entries(case, Space.JOB_TABLE, "table of a run", table)


def _descending(runs: tuple[int, ...]) -> list[int]:
    return sorted(set(runs), reverse=True)


def _check_listed(known: dict[bytes, JobRow], key: bytes) -> None:
    job, number = known.get(key[:-_NUMBER_BYTES]), key_number(key[-_NUMBER_BYTES:])
    if job is None or number not in job.runs:
        raise DataDamaged("No job lists this run.")
