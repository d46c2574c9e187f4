"""Jobs: reports of their runs are kept, looked up and forgotten. The hub runs none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun, ReportJob
from restante.errors import InvalidRequest, JobUnknown
from restante.hub.engine.core import Core
from restante.hub.engine.plan import RequestDraft
from restante.hub.engine.procedures import Functions
from restante.limits import JOB_CHARACTERS_MAX, JOBS_KEPT_MAX, JOBS_OF_OWNER_MAX
from restante.model.access.access import NO_OWNER, Grant, may_see, owner_of, spaces_of
from restante.model.jobs.job import (
    HOME,
    JobRow,
    JobRunRow,
    check_job,
    check_report,
    check_run,
    check_schedule,
    check_time,
    decode_job,
    decode_run,
    decode_table,
    encode_job,
    encode_table,
    is_late,
    job_key,
    kept_runs,
    key_job,
    microseconds,
    name_prefix,
    row_of,
    run_key,
    run_of,
    time_of,
)
from restante.model.jobs.job_answers import JobPage, JobReport, JobRun, JobRunPage, JobStatus
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.list_pages import key_after, page_size, page_token
from restante.model.storage.changes import EntryKey, Space
from restante.model.storage.keys import after_prefix

_TOKEN_CHARACTERS_MAX = 8 * JOB_CHARACTERS_MAX


# Reports


def report_job(core: Core, call: ReportJob, caller: Grant) -> JobStatus:
    """Keep what a program says of one of its own jobs."""
    owner = owner_of(caller)
    key = job_key(check_job(call.job), owner)
    schedule = check_schedule(call.schedule)
    next_at = microseconds(check_time(call.next_at))
    report = None if call.run is None else check_report(call.run)

    def plan(draft: RequestDraft) -> None:
        value = draft.get(HOME, Space.JOB, key)
        before = _begun(draft, owner, core.clock()) if value is None else decode_job(value)
        runs = before.runs if report is None else _put_run(draft, key, before.runs, report, core.clock())
        row = JobRow(core.clock(), schedule or before.schedule, next_at, runs)
        draft.put(HOME, Space.JOB, key, encode_job(row))

    core.commit(plan)
    return _status(core, key)


def _begun(draft: RequestDraft, owner: bytes, now: int) -> JobRow:
    """A job that nothing was heard of before, if there is room for one."""
    owners = [key_job(key)[1] for key, _ in draft.scan_prefix(HOME, Space.JOB, b"")]
    if owner != NO_OWNER and owners.count(owner) >= JOBS_OF_OWNER_MAX:
        raise InvalidRequest(
            f"The hub keeps the runs of {JOBS_OF_OWNER_MAX:,} jobs of one owner, and this one has as many. Report under the "
            "names of those, or let an operator forget some that are gone: DELETE /v1/jobs/{job}.",
            parameter="job",
        )
    if len(owners) >= JOBS_KEPT_MAX:
        raise InvalidRequest(
            f"The hub keeps the runs of {JOBS_KEPT_MAX:,} jobs. Forget one that is gone: DELETE /v1/jobs/{{job}}.",
            parameter="job",
        )
    return JobRow(now)


def _put_run(draft: RequestDraft, job: bytes, before: tuple[int, ...], report: JobReport, now: int) -> tuple[int, ...]:
    """Store a run, if it is not too old and says something new; drop what is no longer kept. Gives what is kept."""
    runs = kept_runs(before, report.run)
    key = run_key(job, report.run)
    known = draft.get(HOME, Space.JOB_RUN, key)
    if report.run in runs and not is_late(None if known is None else decode_run(known), report):
        draft.put(HOME, Space.JOB_RUN, key, encode_job(row_of(report, now)))
        if report.table is not None:
            draft.put(HOME, Space.JOB_TABLE, key, encode_table(report.table))
    for gone in set(before) - set(runs):
        _drop_run(draft, run_key(job, gone))
    return runs


def _drop_run(draft: RequestDraft, key: bytes) -> None:
    for space in (Space.JOB_RUN, Space.JOB_TABLE):
        if draft.get(HOME, space, key) is not None:
            draft.delete(HOME, space, key)


def delete_job(core: Core, call: DeleteJob, caller: Grant) -> None:
    key = _found(core, call.job, caller)

    def plan(draft: RequestDraft) -> None:
        value = draft.get(HOME, Space.JOB, key)
        if value is None:
            raise _unknown(call.job)
        for run in decode_job(value).runs:
            _drop_run(draft, run_key(key, run))
        draft.delete(HOME, Space.JOB, key)

    core.commit(plan)


# Looking


def read_job(core: Core, call: ReadJob, caller: Grant) -> JobStatus:
    return _status(core, _found(core, call.job, caller))


def list_jobs(core: Core, call: ListJobs, caller: Grant) -> JobPage:
    size = page_size(call.limit)
    start = b"" if call.after is None else key_after(call.after, characters_max=_TOKEN_CHARACTERS_MAX) + b"\0"
    found = list(islice(_visible(core, caller, start), size + 1))
    return JobPage(
        jobs=_statuses(core, found[:size]), next=page_token(found[size - 1][0]) if len(found) > size else None
    )


def _visible(core: Core, caller: Grant, start: bytes) -> Iterator[tuple[bytes, JobRow]]:
    """The jobs from a key on that the caller may see: there are few enough to read them all."""
    for key, value in core.store.scan(HOME, Space.JOB, start=start):
        if may_see(caller, key_job(key)[1]):
            yield key, decode_job(value)


def list_runs(core: Core, call: ListRuns, caller: Grant) -> JobRunPage:
    key = _found(core, call.job, caller)
    size = page_size(call.limit)
    left = [run for run in _row(core, key, call.job).runs if call.after is None or run < call.after]
    known = _runs(core, [(key, run) for run in left[:size]])
    return JobRunPage(
        runs=tuple(run_of(run, known[key, run]) for run in left[:size] if (key, run) in known),
        next=left[size - 1] if len(left) > size else None,
    )


def read_run(core: Core, call: ReadRun, caller: Grant) -> JobRun:
    key = run_key(_found(core, call.job, caller), check_run(call.run))
    value, table = (core.store.get(HOME, space, key) for space in (Space.JOB_RUN, Space.JOB_TABLE))
    if value is None:
        raise JobUnknown(f"The job {call.job!r} has no run {call.run}, or no longer.", job=call.job)
    return run_of(call.run, decode_run(value), None if table is None else decode_table(table))


def _found(core: Core, name: str, caller: Grant) -> bytes:
    """The key of the caller's own job of this name, or of the first that it may see."""
    prefix = name_prefix(check_job(name))
    listed = core.store.scan(HOME, Space.JOB, start=prefix, end=after_prefix(prefix))
    keys = [key for key, _ in listed if may_see(caller, key_job(key)[1])]
    for key in (*(job_key(name, owner) for owner in spaces_of(caller)), *keys):
        if key in keys:
            return key
    raise _unknown(name)


def _unknown(name: str) -> JobUnknown:
    return JobUnknown(
        f"The job {name!r} is not known: no run of it was reported, or it was forgotten. GET /v1/jobs lists those that are.",
        job=name,
    )


def _row(core: Core, key: bytes, name: str) -> JobRow:
    value = core.store.get(HOME, Space.JOB, key)
    if value is None:
        raise _unknown(name)
    return decode_job(value)


def _status(core: Core, key: bytes) -> JobStatus:
    (status,) = _statuses(core, [(key, _row(core, key, key_job(key)[0]))])
    return status


def _statuses(core: Core, found: Sequence[tuple[bytes, JobRow]]) -> tuple[JobStatus, ...]:
    last = _runs(core, [(key, row.runs[0]) for key, row in found if row.runs])
    return tuple(_said(key, row, last) for key, row in found)


def _said(key: bytes, row: JobRow, last: dict[tuple[bytes, int], JobRunRow]) -> JobStatus:
    name, owner = key_job(key)
    newest = last.get((key, row.runs[0])) if row.runs else None
    return JobStatus(
        job=name,
        reported_at=moment(row.reported_at),
        runs=len(row.runs),
        schedule=row.schedule or None,
        next_at=time_of(row.next_at),
        last=None if newest is None else run_of(row.runs[0], newest),
        owner=owner.hex() or None,
    )


def _runs(core: Core, wanted: Sequence[tuple[bytes, int]]) -> dict[tuple[bytes, int], JobRunRow]:
    """The runs that are stored, read at once."""
    places = {one: EntryKey(HOME, Space.JOB_RUN, run_key(*one)) for one in wanted}
    found = core.store.get_many(list(places.values()))
    return {one: decode_run(found[place]) for one, place in places.items() if place in found}


FUNCTIONS: Functions = {
    ReportJob: report_job,
    ListJobs: list_jobs,
    ReadJob: read_job,
    ListRuns: list_runs,
    ReadRun: read_run,
    DeleteJob: delete_job,
}
